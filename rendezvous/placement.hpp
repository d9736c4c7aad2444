// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/world.hpp"
#include "rendezvous/coordinator.hpp"

/// Who is in a round, and as what. Pure.
namespace cxxrun::rendezvous {

/// "node2" before "node10"; digits compare as numbers, the rest as bytes.
[[nodiscard]] bool natural_less(std::string_view a, std::string_view b);

/// Chooses at most `nnodes_max` ready members: those of the last round first, then the endpoint's host, then
/// by joining.
[[nodiscard]] std::vector<MemberId> choose(const CoordinatorConfig& config, const CoordinatorState& state);

/// The chosen ones by group rank. A node keeps its rank while it stays and the rank exists; new ones fill the
/// holes: unique hints, else the endpoint's host first, then host names, then joining.
[[nodiscard]] std::vector<MemberId> rank(const CoordinatorConfig& config, const CoordinatorState& state,
                                         std::vector<MemberId> chosen);

/// World of each of `ranked`, in that order. `state` already holds the new round and restart count.
[[nodiscard]] std::vector<World> worlds(const CoordinatorConfig& config, const CoordinatorState& state,
                                        const std::vector<MemberId>& ranked);

/// Addresses that may use the worker store of a round of these members; sorted, each once.
[[nodiscard]] std::vector<std::string> admitted(const CoordinatorState& state,
                                                const std::vector<MemberId>& ranked);

}  // namespace cxxrun::rendezvous
