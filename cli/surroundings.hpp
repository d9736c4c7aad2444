// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "cli/options.hpp"

/// What a scheduler or an operator says about the job in the environment (docs/reference.md has the table).
/// Pure.
namespace cxxrun::cli {

/// Where the nodes can meet, and which of them this is, as far as the surroundings tell.
struct Surroundings {
  std::string scheduler;     ///< for people: "MASTER_ADDR", "Slurm", "LeaderWorkerSet"; empty: none
  std::string host;          ///< endpoint; empty: none
  std::optional<int> port;   ///< unset: the default
  std::string run_id;        ///< the scheduler's job id; empty: none
  bool other_hosts = false;  ///< they name hosts besides this machine
  std::string short_list;    ///< a host list that was too short to count, as a phrase; empty: none
};

/// `nodes`: how many the job needs; a host list counts only with at least as many hosts. MASTER_ADDR comes
/// before an allocation's list. Errors: a list or port that cannot be read.
Result<Surroundings> look_around(const EnvironmentLookup& environment, int nodes);

/// Which node of the job this is, for the order: Slurm, LeaderWorkerSet, RANK of a PyTorchJob. Nothing where
/// the surroundings do not tell. Never a size.
std::optional<int> node_rank_hint(const EnvironmentLookup& environment);

/// Slurm's host list grammar: "gpu[01-03,07],login1", "rack[1-2]n[08-09]"; digits keep their zeros.
/// Errors: brackets that do not match, ranges that run backwards, more than kNodesMax hosts.
Result<std::vector<std::string>> expand_host_list(std::string_view text);

}  // namespace cxxrun::cli
