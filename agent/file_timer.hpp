// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/config.hpp"
#include "agent/timer_table.hpp"
#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace cxxrun::agent {

/// PyTorch's file timer (torch.distributed.elastic.timer.FileTimerClient): a named pipe in which workers say
/// by when they want to be ended unless they say otherwise. The pipe is ours, is found by its name in
/// TORCHELASTIC_TIMER_FILE, and goes with this object.
class FileTimer {
 public:
  struct Handlers {
    /// A process did not release its timer in time. Once for each.
    std::function<void(const TimerRequest&)> on_expired;
    std::function<void(const std::string& line)> on_note;  ///< something that a person should know
  };

  /// Makes the pipe: config.watch.timer_file, or one with a name of its own in `temporary` (empty: /tmp). An
  /// old pipe of that name goes. Errors: it cannot be made, or something else lies there.
  static Result<std::unique_ptr<FileTimer>> open(EventLoop& loop, const Config& config,
                                                 const std::string& temporary, Handlers handlers);
  ~FileTimer();
  FileTimer(const FileTimer&) = delete;
  FileTimer& operator=(const FileTimer&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  /// When a worker last said something; unset: never.
  [[nodiscard]] std::optional<Time> last_heard() const { return last_heard_; }
  void start_round();  ///< the timers of the round before are over
  void suspend();      ///< the workers sleep: their time stands still,
  void resume();       ///< and goes on

 private:
  FileTimer(EventLoop& loop, std::string path, UniqueFd pipe, Handlers handlers);
  void read_requests();
  void take(const std::string& line);
  void plan();
  void look();
  void note_once(const std::string& line);

  EventLoop& loop_;
  std::string path_;
  UniqueFd pipe_;
  Handlers handlers_;
  TimerLines lines_;
  TimerTable table_;
  double suspended_at_ = 0;  ///< seconds since the epoch; 0: not suspended
  bool noted_ = false;
  std::optional<Time> last_heard_;
  EventLoop::Watch watch_;
  EventLoop::Timer timer_;
};

}  // namespace cxxrun::agent
