// SPDX-License-Identifier: Apache-2.0
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
