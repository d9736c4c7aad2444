// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "agent/config.hpp"
#include "base/world.hpp"
#include "launcher/spawn_spec.hpp"

namespace cxxrun::agent {

/// Where the streams of one worker go: fills spec.out, spec.err. Pure. `spec.local_rank` and `spec.rank` are
/// set already; `attempt`: the folder of the round's log files (LogFolder), empty: none, and all goes to the
/// console.
void plan_streams(const Config& config, const World& world, const std::string& attempt,
                  launcher::SpawnSpec& spec);

/// Values of the macros in a prefix template, for one worker.
struct PrefixFacts {
  std::string role_name, local_rank, rank, hostname, node_rank, round, world_size, run_id;
};

/// `${name}` and `$name` become their value, `$$` becomes `$`; any other `$` stays as it is.
[[nodiscard]] std::string expanded_prefix(const std::string& pattern, const PrefixFacts& facts);

}  // namespace cxxrun::agent
