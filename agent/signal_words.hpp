// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "agent/machine.hpp"
#include "launcher/signals.hpp"

namespace cxxrun::agent {

/// The signals that an agent listens to: those that mean something by themselves, and `handled`.
[[nodiscard]] std::vector<int> signals_to_watch(const std::vector<int>& handled);

/// What the signal is about to do, with its sender: every stop that a signal causes has one line. Empty: it
/// stops nothing, or nothing more. `grace`: ", workers have 30 s to end", or empty.
[[nodiscard]] std::string stop_sentence(const State& before, const launcher::Received& signal,
                                        const std::string& grace);

}  // namespace cxxrun::agent
