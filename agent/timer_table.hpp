// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.hpp"

namespace cxxrun::agent {

/// One line of PyTorch's file timer protocol: a worker wants to be ended at a time unless it says otherwise.
struct TimerRequest {
  std::int64_t pid = 0;
  std::string scope;
  double expires = 0;  ///< seconds since the epoch; negative: the timer is released
  int signo = 0;       ///< <= 0: only known, nothing is ended
};

/// A JSON object with version 1, pid, scope_id, expiration_time and signal. Nothing: it is something else.
[[nodiscard]] std::optional<TimerRequest> parse_timer_request(std::string_view line);

/// "it did not release its timer 'step' in time (ended with SIGKILL)": the reason of a worker's failure.
[[nodiscard]] std::string verdict_text(const TimerRequest& request);

/// Whole lines out of a FIFO that anybody of this user may write to: at most kTimerLineBytesMax each, longer
/// ones are dropped. Pure.
class TimerLines {
 public:
  /// Appends the complete lines to `out`; returns how many were too long.
  int feed(std::string_view bytes, std::vector<std::string>& out);

 private:
  std::string waiting_;
  bool dropping_ = false;
};

/// The timers that run, by pid and scope. Pure.
class TimerTable {
 public:
  enum class Took { Set, Released, Full };
  Took take(TimerRequest request);
  /// When the next one with a signal expires, in seconds since the epoch.
  [[nodiscard]] std::optional<double> next() const;
  /// Takes out every timer of the pids of which one with a signal has expired; each pid once, with its first.
  std::vector<TimerRequest> expired(double now);
  /// All deadlines move: the workers slept.
  void shift(double seconds);
  void clear() { timers_.clear(); }
  [[nodiscard]] std::size_t size() const { return timers_.size(); }

 private:
  std::map<std::pair<std::int64_t, std::string>, TimerRequest> timers_;
};

}  // namespace cxxrun::agent
