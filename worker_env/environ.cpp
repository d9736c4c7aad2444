// SPDX-License-Identifier: Apache-2.0
#include "worker_env/environ.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_set>

namespace cxxrun::worker_env {
namespace {

/// Names that every worker gets from build().
constexpr std::array<std::string_view, 16> kOurs{"LOCAL_RANK",
                                                 "RANK",
                                                 "GROUP_RANK",
                                                 "ROLE_RANK",
                                                 "ROLE_NAME",
                                                 "LOCAL_WORLD_SIZE",
                                                 "WORLD_SIZE",
                                                 "GROUP_WORLD_SIZE",
                                                 "ROLE_WORLD_SIZE",
                                                 "MASTER_ADDR",
                                                 "MASTER_PORT",
                                                 "TORCHELASTIC_RESTART_COUNT",
                                                 "TORCHELASTIC_MAX_RESTARTS",
                                                 "TORCHELASTIC_RUN_ID",
                                                 "TORCHELASTIC_USE_AGENT_STORE",
                                                 "TORCHELASTIC_SIGNALS_TO_HANDLE"};
constexpr std::array<std::string_view, 2> kOursToo{"TORCHELASTIC_ERROR_FILE", "CXXRUN_ROUND"};

/// Ranks of what surrounds us: of our agent, not of a worker.
constexpr std::array<std::string_view, 20> kSurroundings{
    "CXXRUN_TOKEN",    "PMI_RANK",           "PMI_SIZE",           "PMI_FD",
    "PMI_ID",          "PMI_LOCAL_RANK",     "PMI_LOCAL_SIZE",     "PMIX_RANK",
    "PMIX_NAMESPACE",  "SLURM_PROCID",       "SLURM_LOCALID",      "MPI_LOCALRANKID",
    "MPI_LOCALNRANKS", "PALS_RANKID",        "PALS_LOCAL_RANKID",  "ALPS_APP_PE",
    "FLUX_TASK_RANK",  "FLUX_TASK_LOCAL_ID", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_LOCAL_RANK"};
constexpr std::array<std::string_view, 4> kSurroundingPrefixes{"PET_", "OMPI_COMM_WORLD_", "MV2_COMM_WORLD_",
                                                               "PMIX_SERVER_"};

bool is_left_out(std::string_view name) {
  const auto is_name = [&](std::string_view known) { return known == name; };
  return std::any_of(kOurs.begin(), kOurs.end(), is_name) ||
         std::any_of(kOursToo.begin(), kOursToo.end(), is_name) ||
         std::any_of(kSurroundings.begin(), kSurroundings.end(), is_name) ||
         std::any_of(kSurroundingPrefixes.begin(), kSurroundingPrefixes.end(),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

}  // namespace

Inherited inherit(const std::vector<std::string>& own) {
  Inherited out;
  std::unordered_set<std::string_view> seen;
  out.entries.reserve(own.size());
  for (const std::string& entry : own) {
    const std::string_view name = std::string_view(entry).substr(0, entry.find('='));
    if (is_left_out(name) || !seen.insert(name).second) continue;
    out.omp_num_threads |= name == "OMP_NUM_THREADS";
    out.nccl_async_error_handling |= name == "TORCH_NCCL_ASYNC_ERROR_HANDLING";
    out.python_unbuffered |= name == "PYTHONUNBUFFERED";
    out.entries.push_back(entry);
  }
  return out;
}

std::vector<std::string> build(const Inherited& inherited, const Facts& facts, const World& world,
                               int local_rank, const Variables& replaced) {
  std::vector<std::string> out;
  out.reserve(inherited.entries.size() + kOurs.size() + kOursToo.size() + 3 + replaced.size());
  out = inherited.entries;
  for (const auto& [name, value] : replaced)
    std::erase_if(out, [&](const std::string& entry) { return entry.starts_with(name + '='); });
  const auto set = [&](std::string_view name, const std::string& value) {
    out.push_back(std::string(name) + "=" + value);
  };
  const auto number = [&](std::string_view name, std::int64_t value) { set(name, std::to_string(value)); };
  for (const auto& [name, value] : replaced) set(name, value);
  number("LOCAL_RANK", facts.virtual_local_rank ? 0 : local_rank);
  number("RANK", world.base_rank + local_rank);
  number("GROUP_RANK", world.group_rank);
  number("ROLE_RANK", world.base_role_rank + local_rank);
  set("ROLE_NAME", facts.role);
  number("LOCAL_WORLD_SIZE", world.local_world_size);
  number("WORLD_SIZE", world.world_size);
  number("GROUP_WORLD_SIZE", world.group_world_size);
  number("ROLE_WORLD_SIZE", world.role_world_size);
  set("MASTER_ADDR", world.master_addr);
  number("MASTER_PORT", world.master_port);
  number("TORCHELASTIC_RESTART_COUNT", world.restart_count);
  number("TORCHELASTIC_MAX_RESTARTS", facts.max_restarts);
  set("TORCHELASTIC_RUN_ID", facts.run_id);
  set("TORCHELASTIC_USE_AGENT_STORE", world.agent_store ? "True" : "False");
  set("TORCHELASTIC_SIGNALS_TO_HANDLE", facts.signals_to_handle);
  set("TORCHELASTIC_ERROR_FILE", facts.error_file);
  number("CXXRUN_ROUND", world.round);
  if (!inherited.nccl_async_error_handling) set("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
  if (facts.python && !inherited.python_unbuffered) set("PYTHONUNBUFFERED", "1");
  if (!inherited.omp_num_threads && world.local_world_size > 1) {
    number("OMP_NUM_THREADS",
           facts.threads > 0 ? facts.threads : std::max(1, facts.usable_cpus / world.local_world_size));
  }
  return out;
}

}  // namespace cxxrun::worker_env
