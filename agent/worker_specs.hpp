// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "agent/config.hpp"
#include "base/world.hpp"
#include "launcher/spawn_spec.hpp"

namespace cxxrun::agent {

/// Paths that the workers of one round are told.
struct RoundFiles {
  std::function<std::string(int local_rank)> error_path;  ///< of the error file; unset: none
  std::string attempt;     ///< the folder of the round's log files; empty: none
  std::string timer_file;  ///< the pipe of PyTorch's file timer; empty: none
};

/// Everything about the workers of one round on this node: command, environment, streams, CPUs: all that
/// the agent starts; --dry-run shows the same. Pure, but that it looks at the terminal that we have.
[[nodiscard]] std::vector<launcher::SpawnSpec> worker_specs(const Config& config, const World& world,
                                                            const RoundFiles& files = {});

}  // namespace cxxrun::agent
