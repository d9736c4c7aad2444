// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/config.hpp"
#include "agent/file_timer.hpp"
#include "agent/health_port.hpp"
#include "agent/heartbeats.hpp"
#include "agent/worker_specs.hpp"
#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "launcher/worker_set.hpp"

namespace cxxrun::agent {

/// Finds workers that hang, ends them, and tells a prober how it is: what of it config.watch asks for.
class Watchdog {
 public:
  struct Agent {
    std::function<launcher::WorkerSet*()> workers;                ///< of the running round; none: null
    std::function<std::pair<const char*, std::int64_t>()> where;  ///< phase, and round (-1: none yet)
    std::function<void(const std::string& line)> say;
  };
  Watchdog(EventLoop& loop, const Config& config, Agent agent);

  /// Before anything starts. Errors: the pipe of the timers cannot be made. A health port that is taken costs
  /// the probe, not the job, and is said.
  Result<> open(const std::string& temporary);
  /// Before the workers of a round start: what they shall be given. Errors: no descriptors left.
  Result<WatchPlan> start_round(int workers);
  void started();  ///< they have it
  void suspend();
  void resume();

 private:
  void on_expired(const TimerRequest& request);
  void on_silent(int local_rank);
  [[nodiscard]] Health health() const;

  EventLoop& loop_;
  const Config& config_;
  Agent agent_;
  std::unique_ptr<FileTimer> timer_;
  std::unique_ptr<Heartbeats> heartbeats_;
  int heartbeat_fd_ = -1;  ///< its number in the workers
  std::unique_ptr<HealthPort> port_;
};

}  // namespace cxxrun::agent
