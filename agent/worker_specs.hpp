// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "agent/config.hpp"
#include "base/world.hpp"
#include "launcher/spawn_spec.hpp"

namespace cxxrun::agent {

/// Everything about the workers of one round on this node: command, environment, streams, CPUs: all that
/// the agent starts; --dry-run shows the same. Pure, but that it looks at the terminal that we have.
/// `error_path`: where a local rank may leave its error file. `attempt`: the folder of the round's log files;
/// empty: none.
[[nodiscard]] std::vector<launcher::SpawnSpec> worker_specs(
    const Config& config, const World& world, const std::function<std::string(int local_rank)>& error_path,
    const std::string& attempt = {});

}  // namespace cxxrun::agent
