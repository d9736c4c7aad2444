// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "launcher/last_words.hpp"
#include "launcher/line_splitter.hpp"

namespace cxxrun::launcher {
namespace {

std::string split(const std::vector<std::string>& pieces, std::size_t line_bytes_max = 8,
                  bool finish = true) {
  LineSplitter splitter("> ", line_bytes_max);
  std::string out;
  for (const std::string& piece : pieces) splitter.feed(piece, out);
  if (finish) splitter.finish(out);
  return out;
}

TEST_CASE("line splitter: pieces in, whole lines out", "[launcher]") {
  struct Row {
    const char* name;
    std::vector<std::string> pieces;
    std::string want;
  };
  const auto row = GENERATE(values<Row>({
      {"nothing", {}, ""},
      {"one line", {"abc\n"}, "> abc\n"},
      {"two lines at once", {"a\nb\n"}, "> a\n> b\n"},
      {"a line in pieces", {"a", "b", "c\nd", "\n"}, "> abc\n> d\n"},
      {"empty lines", {"\n\n"}, "> \n> \n"},
      {"the last line lacks its end", {"a\nb"}, "> a\n> b\n"},
      {"exactly the longest", {"12345678\n"}, "> 12345678\n"},
      {"longer is cut", {"1234567890\n"}, "> 12345678\n> 90\n"},
      {"longer, in pieces", {"12345", "67890", "\n"}, "> 12345678\n> 90\n"},
      {"twice the longest and no end", {"1234567890123456"}, "> 12345678\n> 90123456\n"},
      {"any bytes", {std::string("\xff\0\x80", 3), "\n"}, "> " + std::string("\xff\0\x80", 3) + "\n"},
      {"carriage returns stay", {"50%\r60%\r\n"}, "> 50%\r60%\r\n"},
  }));
  INFO(row.name);
  CHECK(split(row.pieces) == row.want);
}

TEST_CASE("line splitter: an unfinished line waits", "[launcher]") {
  CHECK(split({"a\nbc"}, 8, false) == "> a\n");
}

TEST_CASE("line splitter: the cut of the input changes nothing", "[launcher]") {
  std::mt19937 dice(7);
  for (int round = 0; round < 200; ++round) {
    std::string text;
    for (int i = 0; i < 300; ++i) text += dice() % 6 == 0 ? '\n' : 'x';
    std::vector<std::string> pieces;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t n = 1 + dice() % 20;
      pieces.push_back(text.substr(at, n));
      at += n;
    }
    REQUIRE(split(pieces) == split({text}));
  }
}

Time at(int milliseconds) { return Time{} + std::chrono::hours(1) + std::chrono::milliseconds(milliseconds); }

LineSplitter bars(Bars how) {
  LineStyle style;
  style.prefix = "> ";
  style.bars = how;
  return LineSplitter(std::move(style));
}

TEST_CASE("progress bars: at most one state a second and the last, a line each", "[launcher]") {
  auto lines = bars(Bars::Thin);
  std::string out;
  for (int i = 0; i < 3000; ++i) lines.feed(std::to_string(i) + "\r", out, at(i));  // one each millisecond
  lines.feed("\n", out, at(3000));
  CHECK(out == "> 0\n> 1000\n> 2000\n> 2999\r\n");  // CRLF at the end: bytes as they came
  CHECK_FALSE(lines.due());
}

TEST_CASE("progress bars: thinned", "[launcher]") {
  struct Row {
    const char* name;
    std::vector<std::string> pieces;  // all at the same time
    std::string want;
  };
  const auto row = GENERATE(values<Row>({
      {"the return in front of each state", {"\r1%\r2%\r3%\n"}, "> 1%\n> 3%\n"},
      {"the return behind each state", {"1%\r2%\r3%\r"}, "> 1%\n> 3%\n"},
      {"ended by a line", {"1%\r2%\rdone\nnext\n"}, "> 1%\n> done\n> next\n"},
      {"lines of Windows are lines", {"a\r\nb\r\n"}, "> a\r\n> b\r\n"},
      {"cut between return and newline", {"a\r", "\nb\r", "\n"}, "> a\r\n> b\r\n"},
      {"empty states are none", {"\r\r\r1%\r\r\nx\n"}, "> 1%\n> x\n"},
      {"a state that the end cuts short", {"1%\r2%\r3"}, "> 1%\n> 3\n"},
      {"no state at all", {"\r"}, ""},
      {"byte by byte", {"1", "%", "\r", "2", "%", "\r", "x", "\n"}, "> 1%\n> x\n"},
  }));
  INFO(row.name);
  auto lines = bars(Bars::Thin);
  std::string out;
  for (const auto& piece : row.pieces) lines.feed(piece, out, at(0));
  lines.finish(out);
  CHECK(out == row.want);
}

TEST_CASE("progress bars: a bar that stands still shows where", "[launcher]") {
  auto lines = bars(Bars::Thin);
  std::string out;
  lines.feed("1%\r2%\r47%", out, at(0));
  CHECK(out == "> 1%\n");
  REQUIRE(lines.due() == at(1000));
  lines.show(out, at(1000));
  CHECK(out == "> 1%\n> 47%\n");
  CHECK_FALSE(lines.due());
  lines.feed("\n", out, at(1500));  // it is out already
  CHECK(out == "> 1%\n> 47%\n");
  lines.feed("after\n", out, at(1500));
  CHECK(out == "> 1%\n> 47%\n> after\n");
}

TEST_CASE("progress bars: a million states hold no memory", "[launcher]") {
  auto lines = bars(Bars::Thin);
  std::string out;
  for (int i = 0; i < 1'000'000; ++i) lines.feed("\rstate", out, at(0));
  lines.feed(std::string(1 << 20, 'x'), out, at(0));  // and a state that does not end is cut
  CHECK(out.size() < (2u << 20));
  lines.finish(out);
  CHECK(std::count(out.begin(), out.end(), '\n') <= 20);
}

TEST_CASE("progress bars: a terminal gets each state at once, over the one before", "[launcher]") {
  auto lines = bars(Bars::Redraw);
  std::string out;
  lines.feed("\r1%", out, at(0));
  CHECK(out == "> 1%\r");
  CHECK(lines.left_open());
  lines.feed("\r2%", out, at(1));
  lines.feed("\nnext\n", out, at(2));
  CHECK(out == "> 1%\r> 2%\r> 2%\n> next\n");
  CHECK_FALSE(lines.left_open());
}

TEST_CASE("long lines are cut between characters", "[launcher]") {
  CHECK(split({"1234567\xc3\xa9z\n"}) == "> 1234567\n> \xc3\xa9z\n");
  CHECK(split({"12345\xf0\x9f\x98", "\x80z\n"}) == "> 12345\n> \xf0\x9f\x98\x80z\n");
  CHECK(split({std::string(9, '\x80') + "\n"}) ==
        "> " + std::string(8, '\x80') + "\n> \x80\n");  // no text: anywhere
}

TEST_CASE("last words: the last 64 lines, the last 16 KiB", "[launcher]") {
  LastWords few;
  few.feed("a\nb\r\n");
  few.feed("c");
  CHECK(few.lines() == std::vector<std::string>{"a", "b", "c"});
  CHECK(LastWords{}.lines().empty());

  LastWords many;
  for (int i = 0; i < 10'000; ++i) many.feed("line " + std::to_string(i) + "\n");
  const auto lines = many.lines();
  REQUIRE(lines.size() == 64);
  CHECK(lines.front() == "line 9936");
  CHECK(lines.back() == "line 9999");

  LastWords wide;
  for (int i = 0; i < 50; ++i) wide.feed(std::string(1000, 'x') + std::to_string(i) + "\n");
  std::size_t bytes = 0;
  for (const auto& line : wide.lines()) bytes += line.size() + 1;
  CHECK(bytes <= limits::kLastWordsBytesMax);
  CHECK(wide.lines().size() == 16);
  CHECK(wide.lines().front() == std::string(1000, 'x') + "34");

  LastWords one;  // one line, longer than all that is kept, in one piece and in many
  one.feed(std::string(100'000, 'y'));
  REQUIRE(one.lines().size() == 1);
  CHECK(one.lines().front().size() == limits::kLastWordsBytesMax);
}

}  // namespace
}  // namespace cxxrun::launcher
