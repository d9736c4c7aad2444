// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/world.hpp"

namespace cxxrun::worker_env {

/// What the environment of a worker is made of, besides the world.
struct Facts {
  std::string run_id;
  std::string role = "default";
  int max_restarts = 0;
  std::string signals_to_handle;           ///< TORCHELASTIC_SIGNALS_TO_HANDLE
  int usable_cpus = 1;                     ///< of this node, for OMP_NUM_THREADS
  bool python = false;                     ///< the worker is a Python program: PYTHONUNBUFFERED=1 unless set
  std::string error_file;                  ///< TORCHELASTIC_ERROR_FILE of this local rank; empty: set to the empty text
  std::string store_hint;                  ///< reserved for later; empty
};

/// The complete environment of local rank `local_rank`: `inherited` (our own, "NAME=value") with the ranks of
/// torchrun's section 5 put over it, PET_*, CXXRUN_TOKEN and the surroundings' ranks removed. Pure.
/// The order of `inherited` is kept; what is set here comes last; no name stands twice.
std::vector<std::string> build(const std::vector<std::string>& inherited, const Facts& facts, const World& world,
                               int local_rank);

}  // namespace cxxrun::worker_env
