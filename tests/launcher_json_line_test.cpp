// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <random>

#include "launcher/line_splitter.hpp"

namespace cxxrun::launcher {
namespace {

using nlohmann::json;

constexpr auto kFields = "\"rank\":3,\"stream\":\"stderr\",";

JsonLine::WallTime wall() { return JsonLine::WallTime(std::chrono::microseconds(1'767'323'045'000'007)); }

std::vector<json> objects(const std::string& lines) {
  std::vector<json> out;
  for (std::size_t at = 0; at < lines.size();) {
    const std::size_t end = lines.find('\n', at);
    REQUIRE(end != std::string::npos);
    CHECK(end - at < limits::kJsonLineBytesMax);
    out.push_back(json::parse(lines.substr(at, end - at)));
    at = end + 1;
  }
  return out;
}

/// What a reader gets back by joining the parts.
std::string joined(const std::vector<json>& parts) {
  std::string out;
  for (const auto& part : parts) out += part["text"].get<std::string>();
  return out;
}

TEST_CASE("json line: one object", "[launcher]") {
  JsonLine line(kFields);
  std::string out;
  line.append("a \"quoted\" \\ word\t\x1b[1m", true, wall(), out);
  CHECK(out ==
        "{\"time\":\"2026-01-02T03:04:05.000007Z\",\"rank\":3,\"stream\":\"stderr\",\"text\":"
        "\"a \\\"quoted\\\" \\\\ word\\t\\u001b[1m\"}\n");
}

TEST_CASE("json line: what is not UTF-8 is replaced and counted", "[launcher]") {
  struct Row {
    std::string text, want;
    int invalid;
  };
  const std::string mark = "\xef\xbf\xbd";
  const auto row = GENERATE_COPY(values<Row>({
      {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 0},
      {std::string("a\0b", 3), std::string("a\0b", 3), 0},
      {"\xff", mark, 1},
      {"a\xc3", "a" + mark, 1},
      {"\xed\xa0\x80", mark + mark + mark, 3},  // a surrogate
      {"\xc0\xaf", mark + mark, 2},             // a longer form than needed
      {"\xf4\x90\x80\x80x", mark + mark + mark + mark + "x", 4},
      {"", "", 0},
  }));
  JsonLine line(kFields);
  std::string out;
  line.append(row.text, true, wall(), out);
  const auto found = objects(out);
  REQUIRE(found.size() == 1);
  CHECK(found[0]["text"] == row.want);
  CHECK(found[0].value("invalid", 0) == row.invalid);
}

TEST_CASE("json line: a long text comes in parts below 16 KiB, and no character is cut", "[launcher]") {
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += i % 3 == 0 ? "\xe2\x82\xac" : i % 3 == 1 ? "\x01" : "x";
  JsonLine line(kFields);
  std::string out;
  line.append(text, true, wall(), out);
  const auto parts = objects(out);
  REQUIRE(parts.size() > 2);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    CHECK(parts[i]["part"] == i + 1);
    CHECK(parts[i].contains("more") == (i + 1 < parts.size()));
    CHECK_FALSE(parts[i].contains("invalid"));
  }
  CHECK(joined(parts) == text);
  out.clear();
  line.append("short", true, wall(), out);
  CHECK_FALSE(objects(out)[0].contains("part"));
}

TEST_CASE("json lines of a stream: the cut of the input changes nothing, parts go on over long lines",
          "[launcher]") {
  std::mt19937 dice(11);
  std::string text(300'000, 'y');
  for (int i = 0; i < 500; ++i) text[dice() % text.size()] = static_cast<char>(dice() % 256);
  for (char& c : text) {
    if (c == '\n') c = ' ';
  }
  const auto parts_of = [&](std::size_t piece) {
    LineStyle style;
    style.json.emplace(kFields);
    LineSplitter lines(std::move(style));
    std::string out;
    for (std::size_t at = 0; at < text.size(); at += piece)
      lines.feed(std::string_view(text).substr(at, piece), out);
    lines.feed("\nshort\n", out);
    return objects(out);
  };
  const auto whole = parts_of(text.size());
  const auto cut = parts_of(4096);
  CHECK(joined(whole) == joined(cut));
  CHECK(whole.size() > 18);
  CHECK(whole.back()["text"] == "short");
  CHECK_FALSE(whole[whole.size() - 2].contains("more"));
  CHECK_FALSE(whole.back().contains("part"));
}

}  // namespace
}  // namespace cxxrun::launcher
