// SPDX-License-Identifier: Apache-2.0
#include "agent/stdin_owner.hpp"

#include <unistd.h>

namespace cxxrun::agent {
namespace {

/// It goes to the console and nowhere else, as the worker writes it but for a prefix.
bool only_shown(const launcher::StreamPlan& plan) {
  return plan.sink == launcher::Sink::Console && plan.file.empty() && plan.json_fields.empty();
}

}  // namespace

void plan_stdin(const Config& config, const World& world, bool in_background, launcher::SpawnSpec& spec) {
  const bool alone = world.local_world_size == 1;
  const auto& chosen = config.signals.stdin_rank;
  const bool owner = chosen ? spec.local_rank == *chosen : alone;
  spec.null_stdin = !owner || in_background;
  if (!owner || alone || in_background || ::isatty(STDIN_FILENO) == 0) return;
  if (only_shown(spec.out) && ::isatty(STDOUT_FILENO) == 1) spec.out = {};
  if (only_shown(spec.err) && config.terminal) {
    spec.err = {};
    spec.err.sink = launcher::Sink::Terminal;
    spec.err.keep_last_words = true;
  }
}

}  // namespace cxxrun::agent
