// SPDX-License-Identifier: Apache-2.0
#include "launcher/json_line.hpp"

#include <cstdio>

#include "base/limits.hpp"

namespace cxxrun::launcher {
namespace {

constexpr std::size_t kFrameBytes = 192;  ///< all of an object but its fields and its text, at most

constexpr bool plain(unsigned char byte) {
  return byte >= 0x20 && byte < 0x7f && byte != '"' && byte != '\\';
}

bool continues(std::string_view text, std::size_t at, unsigned char low = 0x80, unsigned char high = 0xbf) {
  if (at >= text.size()) return false;
  const auto byte = static_cast<unsigned char>(text[at]);
  return byte >= low && byte <= high;
}

/// Bytes of the UTF-8 sequence that begins at `at`; 0: none does.
std::size_t sequence(std::string_view text, std::size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return continues(text, at + 1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    const unsigned char low = first == 0xe0 ? 0xa0 : 0x80;   // no longer form than needed
    const unsigned char high = first == 0xed ? 0x9f : 0xbf;  // no surrogate
    return continues(text, at + 1, low, high) && continues(text, at + 2) ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    const unsigned char low = first == 0xf0 ? 0x90 : 0x80;
    const unsigned char high = first == 0xf4 ? 0x8f : 0xbf;
    return continues(text, at + 1, low, high) && continues(text, at + 2) && continues(text, at + 3) ? 4 : 0;
  }
  return 0;
}

void escape(unsigned char byte, std::string& out) {
  switch (byte) {
    case '"': out += "\\\""; return;
    case '\\': out += "\\\\"; return;
    case '\t': out += "\\t"; return;
    case '\r': out += "\\r"; return;
    case '\n': out += "\\n"; return;
    default: break;
  }
  char code[8];
  std::snprintf(code, sizeof code, "\\u%04x", byte);
  out += code;
}

/// Moves as much of `text` to `out` as fits into `room` bytes; returns how many bytes of it were not UTF-8.
std::size_t take(std::string_view& text, std::size_t room, std::string& out) {
  constexpr std::size_t kLongestEscape = 6;
  std::size_t at = 0;
  std::size_t invalid = 0;
  while (at < text.size() && out.size() + kLongestEscape <= room) {
    const std::size_t run_max = std::min(text.size(), at + (room - out.size()));
    std::size_t run = at;
    while (run < run_max && plain(static_cast<unsigned char>(text[run]))) ++run;
    out.append(text, at, run - at);
    at = run;
    if (at == text.size() || out.size() + kLongestEscape > room) break;
    const std::size_t length = sequence(text, at);
    if (length == 0) {
      out += "\xef\xbf\xbd";
      ++invalid;
      ++at;
    } else if (length == 1) {
      escape(static_cast<unsigned char>(text[at++]), out);
    } else {
      out.append(text, at, length);
      at += length;
    }
  }
  text.remove_prefix(at);
  return invalid;
}

}  // namespace

std::string json_string(std::string_view text) {
  std::string out = "\"";
  std::string escaped;
  take(text, 6 * text.size() + 6, escaped);
  return out + escaped + "\"";
}

void JsonLine::set_time(WallTime now) {
  using namespace std::chrono;
  const auto micros = duration_cast<microseconds>(now.time_since_epoch()).count();
  const auto second = static_cast<std::time_t>(micros / 1'000'000);
  char text[32];
  if (second != second_) {
    std::tm parts{};
    ::gmtime_r(&second, &parts);
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    time_ = text;
    second_ = second;
  }
  constexpr std::size_t kUpToSecond = 19;
  std::snprintf(text, sizeof text, ".%06dZ", static_cast<int>(micros % 1'000'000));
  time_.resize(kUpToSecond);
  time_ += text;
}

std::size_t JsonLine::room() const {
  const std::size_t used = fields_.size() + kFrameBytes;
  return used + 1024 < limits::kJsonLineBytesMax ? limits::kJsonLineBytesMax - used : 1024;
}

void JsonLine::append(std::string_view text, bool ends, WallTime now, std::string& out) {
  set_time(now);
  do {
    text_.clear();
    const std::size_t invalid = take(text, room(), text_);
    const bool last = ends && text.empty();
    out += "{\"time\":\"";
    out += time_;
    out += "\",";
    out += fields_;
    if (part_ > 0 || !last) out += "\"part\":" + std::to_string(++part_) + ",";
    if (!last) out += "\"more\":true,";
    if (invalid > 0) out += "\"invalid\":" + std::to_string(invalid) + ",";
    out += "\"text\":\"";
    out += text_;
    out += "\"}\n";
    if (last) part_ = 0;
  } while (!text.empty());
}

}  // namespace cxxrun::launcher
