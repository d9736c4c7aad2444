// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/coordinator.hpp"

namespace cxxrun::rendezvous {

/// The answer to one HTTP request on the control port, head and body; the connection closes after it.
/// `head`: the request's lines up to the empty one. `token`: empty: none; else all but /healthz needs it as
/// bearer. Pure but for `now`.
[[nodiscard]] std::string http_answer(std::string_view head, std::string_view token,
                                      const CoordinatorConfig& config, const CoordinatorState& state,
                                      Time now);

}  // namespace cxxrun::rendezvous
