// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/config.hpp"
#include "base/world.hpp"
#include "launcher/spawn_spec.hpp"

namespace cxxrun::agent {

/// One worker reads our stdin, the others the null device: the only one, or --stdin-rank's. Where several
/// run, the one that was chosen also has our terminal, if there is one, to itself: its prompts are no whole
/// lines and must not wait for their end. Call it when the output is planned. `in_background`: the terminal
/// belongs to another job; nobody reads it then.
void plan_stdin(const Config& config, const World& world, bool in_background, launcher::SpawnSpec& spec);

}  // namespace cxxrun::agent
