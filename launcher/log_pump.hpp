// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/event_loop.hpp"
#include "base/unique_fd.hpp"
#include "launcher/console.hpp"
#include "launcher/last_words.hpp"
#include "launcher/line_splitter.hpp"
#include "launcher/log_file.hpp"

namespace cxxrun::launcher {

struct PumpPlan {
  LineStyle style;
  bool raw = false;                      ///< bytes as they come: no prefix, no waiting for line ends
  bool to_console = true;                ///< false: only to the files and for the last words
  std::unique_ptr<LogFile> file{};       ///< gets every byte as it is; none: no file
  std::unique_ptr<LineCopier> copier{};  ///< none: no lines are copied
  bool keep_last_words = false;
  bool ends_with_reader = false;  ///< the console's reader has gone: the source is closed, so that its writer
                                  ///< gets the SIGPIPE that it would get in a plain pipeline
};

/// Carries one output stream of one worker to a console and to log files. While the console is full it does
/// not read, so the worker waits as it would on the console itself.
class LogPump {
 public:
  /// `source`: non-blocking; the reading end of a pipe, or a pseudo-terminal's master. `console` is borrowed.
  LogPump(EventLoop& loop, UniqueFd source, Console& console, PumpPlan plan,
          std::function<void()> on_drained);
  LogPump(const LogPump&) = delete;
  LogPump& operator=(const LogPump&) = delete;
  ~LogPump();

  /// Takes over what the worker has written so far, at most one pipe's worth, however full the console is.
  void read_available();
  /// Gives the source up: the rest of a line goes out, nothing more is read. After the end of the stream:
  /// nothing.
  void close();
  [[nodiscard]] bool drained() const {
    return !source_;
  }  ///< the stream has ended and all of it was handed over
  [[nodiscard]] std::vector<std::string> last_words() const { return last_words_.lines(); }
  [[nodiscard]] int source() const { return source_.get(); }

 private:
  void on_readable();
  enum class Read { Some, Nothing, End };
  Read read_once();
  void take(std::string_view bytes);
  void write_lines(std::string_view bytes);
  void show_bar();
  void pause_or_go_on();
  bool give_up_with_reader();
  void end();

  EventLoop& loop_;
  UniqueFd source_;
  Console& console_;
  PumpPlan plan_;
  LineSplitter lines_;
  LastWords last_words_;
  std::function<void()> on_drained_;
  bool enlarged_ = false;
  EventLoop::Timer bar_timer_;  ///< a state of a progress bar waits to be shown
  EventLoop::Watch watch_;      ///< none while the console is full
};

}  // namespace cxxrun::launcher
