// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "cli/plan.hpp"

namespace cxxrun::cli {

/// What --dry-run prints: every option with its value and where that comes from, where the nodes would meet,
/// and each worker of this node: command, environment, streams, CPUs. What only the rendezvous knows is "?"
/// (JSON: null). `plan.config.program` and
/// `.environment` must be filled. Nothing of the token is shown.
[[nodiscard]] std::string describe_plan(const RawOptions& options, const LaunchPlan& plan, bool json);

}  // namespace cxxrun::cli
