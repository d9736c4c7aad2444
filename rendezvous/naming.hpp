// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "rendezvous/coordinator.hpp"

/// What members are called in sentences. Pure.
namespace cxxrun::rendezvous {

/// The host name, where no other member has the same one. Else with something behind it that tells them
/// apart: "vm#1" by the node rank that was given, "vm (10.0.0.7)" by address, and where that is equal too
/// "vm#1" by the order of joining.
[[nodiscard]] std::string label(const CoordinatorState& state, const CoordinatorMember& m);

/// The label and the address: "hb (10.77.0.2)", "vm#1 (127.0.0.1)".
[[nodiscard]] std::string full_name(const CoordinatorState& state, const CoordinatorMember& m);

/// Labels in natural order of the host names: "a, b". Long lists end with "and 12 more".
[[nodiscard]] std::string label_list(const CoordinatorState& state,
                                     std::vector<const CoordinatorMember*> members);

}  // namespace cxxrun::rendezvous
