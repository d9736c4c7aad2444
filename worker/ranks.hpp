// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/result.hpp"

namespace cxxrun::worker {

/// Who this process is in the job: what the launcher wrote into its environment. The names are torchrun's, so
/// a program that uses this runs under cxxrun and under torchrun.
struct Ranks {
  int rank = 0;              ///< of this process in the job, 0 <= rank < world_size (RANK)
  int world_size = 1;        ///< processes of all nodes (WORLD_SIZE)
  int local_rank = 0;        ///< of this process on its node (LOCAL_RANK)
  int local_world_size = 1;  ///< processes of this node (LOCAL_WORLD_SIZE)
  int group_rank = 0;        ///< of this node (GROUP_RANK)
  int group_world_size = 1;  ///< nodes (GROUP_WORLD_SIZE)
  int restart_count =
      0;  ///< restarts that failures have cost, equal on all ranks (TORCHELASTIC_RESTART_COUNT)
  std::int64_t round =
      0;  ///< strictly rises with every new start of the group (CXXRUN_ROUND, else restart_count)
  std::string run_id;             ///< TORCHELASTIC_RUN_ID; empty when there is none
  std::string master_addr;        ///< host of the worker store (MASTER_ADDR)
  std::uint16_t master_port = 0;  ///< port of the worker store (MASTER_PORT)
};

/// Looks a variable up; nothing when it is not set.
using Lookup = std::function<std::optional<std::string>(const char* name)>;

/// Reads the ranks from this process's environment.
/// RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT must be there; the others have the values of one process per
/// node. Errors: a variable is missing, no number, or out of range; the sentence names it, its value, and
/// what to do.
[[nodiscard]] Result<Ranks> ranks_from_environment();

/// The same from another source.
[[nodiscard]] Result<Ranks> ranks_from(const Lookup& lookup);

}  // namespace cxxrun::worker
