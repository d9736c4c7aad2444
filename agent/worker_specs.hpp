// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "agent/config.hpp"
#include "base/world.hpp"
#include "launcher/spawn_spec.hpp"

namespace cxxrun::agent {

/// By what the workers of one round can say that they go on.
struct WatchPlan {
  std::string timer_file;           ///< TORCHELASTIC_TIMER_FILE; empty: no file timers
  std::vector<int> heartbeat_from;  ///< by local rank, descriptors of ours; none: no heartbeats
  int heartbeat_to = -1;            ///< what they become in the workers: CXXRUN_HEARTBEAT_FD
};

/// What the workers of one round are told, and given.
struct RoundFiles {
  std::function<std::string(int local_rank)> error_path;  ///< of the error file; unset: none
  std::string attempt;  ///< the folder of the round's log files; empty: none
  WatchPlan watch;
};

/// Everything about the workers of one round on this node: command, environment, streams, CPUs: all that
/// the agent starts; --dry-run shows the same. Pure, but that it looks at the terminal that we have.
[[nodiscard]] std::vector<launcher::SpawnSpec> worker_specs(const Config& config, const World& world,
                                                            const RoundFiles& files = {});

}  // namespace cxxrun::agent
