// SPDX-License-Identifier: Apache-2.0
#include "agent/stdin_owner.hpp"

#include <unistd.h>

namespace cxxrun::agent {

void plan_stdin(const Config& config, const World& world, bool in_background, launcher::SpawnSpec& spec) {
  const bool alone = world.local_world_size == 1;
  const auto& chosen = config.signals.stdin_rank;
  const bool owner = chosen ? spec.local_rank == *chosen : alone;
  spec.null_stdin = !owner || in_background;
  if (!owner || alone || in_background || ::isatty(STDIN_FILENO) == 0) return;
  if (spec.out.sink == launcher::Sink::Console && ::isatty(STDOUT_FILENO) == 1) {
    spec.out = {launcher::Sink::Inherit, {}, false};
  }
  if (spec.err.sink == launcher::Sink::Console && config.terminal) {
    spec.err = {launcher::Sink::Terminal, {}, true};
  }
}

}  // namespace cxxrun::agent
