// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/limits.hpp"
#include "base/time.hpp"
#include "launcher/json_line.hpp"

namespace cxxrun::launcher {

/// What becomes of the states of a progress bar, which end with '\r'.
enum class Bars {
  Keep,    ///< they are part of their line
  Thin,    ///< a line each, at most one in kBarInterval, and the last one
  Redraw,  ///< shown at once, over each other: for a terminal
};

struct LineStyle {
  std::string prefix{};
  std::optional<JsonLine> json{};  ///< instead of the prefix
  Bars bars = Bars::Keep;
  std::size_t line_bytes_max = limits::kLineBytesMax;
};

/// Turns a stream of bytes into whole lines with a prefix each, or into JSON objects. Pure. Bytes are not
/// looked at but for '\n', and '\r' where the style says so.
///
/// A line without an end waits for it, at most line_bytes_max bytes; a longer one is cut into pieces of about
/// that size (between characters of UTF-8), each a line of its own. finish() gives the last line the newline
/// that it lacks.
class LineSplitter {
 public:
  explicit LineSplitter(LineStyle style) : style_(std::move(style)) {}
  explicit LineSplitter(std::string prefix, std::size_t line_bytes_max = limits::kLineBytesMax)
      : style_{std::move(prefix), std::nullopt, Bars::Keep, line_bytes_max} {}

  /// Appends the lines that are complete now to `out`. `now` counts for progress bars only.
  void feed(std::string_view bytes, std::string& out, Time now = {});
  /// When show() is due: a state of a progress bar waits. Unset: none does.
  [[nodiscard]] std::optional<Time> due() const;
  /// Appends the newest state of a progress bar, if one waits.
  void show(std::string& out, Time now);
  /// The stream has ended: appends what waited.
  void finish(std::string& out);
  /// What was appended last leaves the terminal's cursor on a line with text.
  [[nodiscard]] bool left_open() const { return left_open_; }

 private:
  void feed_bars(std::string_view bytes, std::string& out, Time now);
  void hold(std::string_view bytes, std::string& out);
  void end_line(std::string_view ending, std::string& out);
  void end_state(std::string& out, Time now);
  void emit(std::string_view line, std::string_view ending, std::string& out);
  void emit_piece(std::string_view piece, std::string& out);

  LineStyle style_;
  std::string waiting_;        ///< the beginning of a line or state
  bool cut_ = false;           ///< earlier pieces of that line are out
  bool after_return_ = false;  ///< behind waiting_ came a '\r': a state, or half of "\r\n"
  bool in_bar_ = false;        ///< waiting_ began behind a '\r'
  bool shown_ = false;         ///< waiting_ is out already, as a state
  bool left_open_ = false;
  std::string hidden_;  ///< the newest whole state that is not out (Redraw: or is)
  Time last_shown_{};
  Time returned_{};  ///< when after_return_ was set
};

}  // namespace cxxrun::launcher
