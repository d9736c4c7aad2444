// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "cli/plan.hpp"

/// Parts of make_plan() that have files of their own. Each checks its options and fills its part of `plan`;
/// the first error ends it.
namespace cxxrun::cli {

/// Where the nodes meet: backend, endpoint, node rank; needs the sizes and --rdzv-conf in the plan already.
std::optional<PlanError> plan_meeting(const RawOptions& options, const Facts& facts, LaunchPlan& plan);

/// Logs, failures, signals, the options of placement, watching.
std::optional<PlanError> plan_extras(const RawOptions& options, const Facts& facts, LaunchPlan& plan);

/// CPUs, threads and device masks of each worker, from the options that plan_extras() has read.
std::optional<PlanError> plan_placement(const RawOptions& options, const Facts& facts, LaunchPlan& plan);

/// What the options say about the end, as far as it is valid: also for a plan that has an error elsewhere.
agent::FailureOptions failure_options(const RawOptions& options, const Facts& facts);

}  // namespace cxxrun::cli
