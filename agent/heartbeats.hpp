// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace cxxrun::agent {

/// One pipe for each worker of a round, in which it says now and then that it goes on: any byte is a beat,
/// and from the first on the next must come within the timeout. '-' as the last byte takes a rest: nothing is
/// due until the next beat. Who never beats, or closes the pipe, is not watched.
class Heartbeats {
 public:
  /// `on_silent`: a worker's next beat did not come. Once for each.
  using OnSilent = std::function<void(int local_rank)>;
  Heartbeats(EventLoop& loop, Duration timeout, OnSilent on_silent);

  /// New pipes; those of the round before are closed. The descriptors that the workers write to, by local
  /// rank: ours, non-blocking for both sides, until started(). Errors: no descriptors left.
  Result<std::vector<int>> open_round(int workers);
  void started();  ///< the workers have their ends: ours are closed
  void suspend();  ///< the workers sleep: nothing is due,
  void resume();   ///< and from now on the whole timeout runs
  /// The latest beat of all; unset: none yet.
  [[nodiscard]] std::optional<Time> last_heard() const { return last_heard_; }

 private:
  struct Line {
    int local_rank = 0;
    UniqueFd ours;
    UniqueFd its;
    bool due = false;  ///< it has beaten, and does not rest
    Time last{};
    EventLoop::Watch watch;
    EventLoop::Timer timer;
  };
  void read_beats(Line& line);
  void listen_again(Line& line);
  void silent(Line& line);

  EventLoop& loop_;
  Duration timeout_;
  OnSilent on_silent_;
  std::optional<Time> last_heard_;
  std::vector<std::unique_ptr<Line>> lines_;
};

}  // namespace cxxrun::agent
