// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>
#include <string>
#include <string_view>

namespace cxxrun::launcher {

/// `text` between quotes, as JSON has it. What is not UTF-8 becomes U+FFFD, byte by byte.
[[nodiscard]] std::string json_string(std::string_view text);

/// Wraps the lines of one stream, one JSON object each, below kJsonLineBytesMax bytes. Pure.
///
///     {"time":"2026-01-02T03:04:05.678901Z",<fields>"text":"..."}
///
/// A text that does not fit comes in parts: `"part":1,"more":true` and so on; the last part lacks `more`.
/// Each byte that is not UTF-8 becomes U+FFFD, and `"invalid":N` counts them.
class JsonLine {
 public:
  using WallTime = std::chrono::system_clock::time_point;
  /// `fields`: members with a comma behind each, at most a few hundred bytes: `"host":"a","rank":0,`.
  explicit JsonLine(std::string fields) : fields_(std::move(fields)) {}

  /// `ends`: false where more of the same line follows in a later call.
  void append(std::string_view text, bool ends, WallTime now, std::string& out);

 private:
  void set_time(WallTime now);
  [[nodiscard]] std::size_t room() const;

  std::string fields_;
  std::uint64_t part_ = 0;  ///< of the line that goes on; 0: none
  std::time_t second_ = -1;
  std::string time_;  ///< as text, up to the second
  std::string text_;  ///< scratch
};

}  // namespace cxxrun::launcher
