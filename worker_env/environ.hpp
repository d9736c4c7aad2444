// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/world.hpp"

/// The environment of a worker (torchrun's section 5). Pure.
namespace cxxrun::worker_env {

/// What the environment of a worker is made of, besides the world.
struct Facts {
  std::string run_id;
  std::string role = "default";
  int max_restarts = 0;
  std::string signals_to_handle;  ///< TORCHELASTIC_SIGNALS_TO_HANDLE
  int usable_cpus = 1;            ///< of this node, for OMP_NUM_THREADS
  int threads = 0;  ///< OMP_NUM_THREADS of this worker, of a worker with CPUs of its own; 0: by usable_cpus
  bool virtual_local_rank = false;  ///< LOCAL_RANK=0
  bool python = false;              ///< the worker is a Python program: PYTHONUNBUFFERED=1 unless set
  std::string error_file;  ///< TORCHELASTIC_ERROR_FILE of this local rank; empty: set to the empty text
};

/// Variables, name and value.
using Variables = std::vector<std::pair<std::string, std::string>>;

/// What of our own environment all workers get, in its order; made once for all of them.
struct Inherited {
  std::vector<std::string> entries;  ///< "NAME=value"
  bool omp_num_threads = false;      ///< these were set by the user: they stay
  bool nccl_async_error_handling = false;
  bool python_unbuffered = false;
};

/// `own`: our environment. Left out: what every worker gets a value of its own for, PET_* (a launcher inside
/// a worker would take them for its options), CXXRUN_TOKEN (a secret), and the ranks of a surrounding MPI or
/// scheduler (a library inside a worker would take them for the worker's rank; docs/reference.md lists them).
/// The first of two entries of one name counts, as for getenv(3).
Inherited inherit(const std::vector<std::string>& own);

/// The complete environment of one worker: the inherited entries but for those of `replaced`, then ours and
/// `replaced`. No name stands twice. OMP_NUM_THREADS, unless the user set it and where there is more than one
/// worker here: facts.threads, else usable CPUs / workers, at least 1.
std::vector<std::string> build(const Inherited& inherited, const Facts& facts, const World& world,
                               int local_rank, const Variables& replaced = {});

}  // namespace cxxrun::worker_env
