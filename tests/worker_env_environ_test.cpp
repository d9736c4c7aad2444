// SPDX-License-Identifier: Apache-2.0
#include "worker_env/environ.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>

using namespace cxxrun;
using namespace cxxrun::worker_env;

namespace {

std::map<std::string, std::string> as_map(const std::vector<std::string>& entries) {
  std::map<std::string, std::string> out;
  for (const auto& entry : entries) {
    const auto [at, fresh] = out.emplace(entry.substr(0, entry.find('=')), entry.substr(entry.find('=') + 1));
    INFO(entry);
    CHECK(fresh);  // no name stands twice
  }
  return out;
}

World world() {
  World w;
  w.round = 3;
  w.group_rank = 1;
  w.group_world_size = 3;
  w.local_world_size = 2;
  w.base_rank = 4;
  w.world_size = 7;
  w.base_role_rank = 1;
  w.role_world_size = 3;
  w.restart_count = 2;
  w.master_addr = "10.77.0.1";
  w.master_port = 41000;
  return w;
}

Facts facts() {
  Facts f;
  f.run_id = "job7";
  f.role = "trainer";
  f.max_restarts = 5;
  f.signals_to_handle = "SIGTERM,SIGINT";
  f.usable_cpus = 8;
  f.error_file = "/tmp/e.json";
  return f;
}

}  // namespace

TEST_CASE("worker environment: every variable", "[worker_env]") {
  const auto env = as_map(build(inherit({"HOME=/h"}), facts(), world(), 1));
  const std::map<std::string, std::string> want{{"HOME", "/h"},
                                                {"LOCAL_RANK", "1"},
                                                {"RANK", "5"},
                                                {"GROUP_RANK", "1"},
                                                {"ROLE_RANK", "2"},
                                                {"ROLE_NAME", "trainer"},
                                                {"LOCAL_WORLD_SIZE", "2"},
                                                {"WORLD_SIZE", "7"},
                                                {"GROUP_WORLD_SIZE", "3"},
                                                {"ROLE_WORLD_SIZE", "3"},
                                                {"MASTER_ADDR", "10.77.0.1"},
                                                {"MASTER_PORT", "41000"},
                                                {"TORCHELASTIC_RESTART_COUNT", "2"},
                                                {"TORCHELASTIC_MAX_RESTARTS", "5"},
                                                {"TORCHELASTIC_RUN_ID", "job7"},
                                                {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                                {"TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT"},
                                                {"TORCHELASTIC_ERROR_FILE", "/tmp/e.json"},
                                                {"CXXRUN_ROUND", "3"},
                                                {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
                                                {"OMP_NUM_THREADS", "4"}};
  CHECK(env == want);
}

TEST_CASE("worker environment: what a worker must not get", "[worker_env]") {
  const std::vector<std::string> own{
      "RANK=9",          "WORLD_SIZE=3",           "PET_NNODES=3",         "CXXRUN_TOKEN=secret",
      "SLURM_PROCID=2",  "OMPI_COMM_WORLD_RANK=1", "PMI_RANK=0",           "SLURM_JOB_ID=7",
      "NCCL_DEBUG=INFO", "LD_PRELOAD=/x.so",       "MASTER_ADDR=localhost"};
  const auto env = as_map(build(inherit(own), facts(), world(), 0));
  for (const char* gone :
       {"PET_NNODES", "CXXRUN_TOKEN", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"}) {
    INFO(gone);
    CHECK_FALSE(env.contains(gone));
  }
  CHECK(env.at("RANK") == "4");
  CHECK(env.at("MASTER_ADDR") == "10.77.0.1");
  CHECK(env.at("SLURM_JOB_ID") == "7");
  CHECK(env.at("NCCL_DEBUG") == "INFO");
  CHECK(env.at("LD_PRELOAD") == "/x.so");
}

TEST_CASE("worker environment: what the user set stays", "[worker_env]") {
  Facts python = facts();
  python.python = true;
  const auto env =
      as_map(build(inherit({"OMP_NUM_THREADS=7", "TORCH_NCCL_ASYNC_ERROR_HANDLING=0", "PYTHONUNBUFFERED="}),
                   python, world(), 0));
  CHECK(env.at("OMP_NUM_THREADS") == "7");
  CHECK(env.at("TORCH_NCCL_ASYNC_ERROR_HANDLING") == "0");
  CHECK(env.at("PYTHONUNBUFFERED").empty());
}

TEST_CASE("worker environment: OMP_NUM_THREADS", "[worker_env]") {
  struct Row {
    const char* name;
    int workers;
    int cpus;
    const char* want;
  };
  const auto row = GENERATE(values<Row>({{"one worker: not touched", 1, 8, nullptr},
                                         {"four CPUs, two workers", 2, 4, "2"},
                                         {"more workers than CPUs", 8, 2, "1"}}));
  INFO(row.name);
  World w = world();
  w.local_world_size = row.workers;
  Facts f = facts();
  f.usable_cpus = row.cpus;
  const auto env = as_map(build(inherit({}), f, w, 0));
  if (row.want == nullptr) {
    CHECK_FALSE(env.contains("OMP_NUM_THREADS"));
  } else {
    CHECK(env.at("OMP_NUM_THREADS") == row.want);
  }
}

TEST_CASE("worker environment: CPUs and devices of one worker", "[worker_env]") {
  Facts f = facts();
  f.threads = 3;
  f.virtual_local_rank = true;
  const auto inherited = inherit({"CUDA_VISIBLE_DEVICES=5,7", "CUDA_VISIBLE_DEVICES_X=1", "A=1"});
  const auto env = as_map(build(inherited, f, world(), 1, {{"CUDA_VISIBLE_DEVICES", "7"}}));
  CHECK(env.at("CUDA_VISIBLE_DEVICES") == "7");
  CHECK(env.at("CUDA_VISIBLE_DEVICES_X") == "1");
  CHECK(env.at("A") == "1");
  CHECK(env.at("LOCAL_RANK") == "0");
  CHECK(env.at("RANK") == "5");
  CHECK(env.at("ROLE_RANK") == "2");
  CHECK(env.at("OMP_NUM_THREADS") == "3");
  CHECK(as_map(build(inherited, f, world(), 1)).at("CUDA_VISIBLE_DEVICES") == "5,7");
}

TEST_CASE("torchrun 20, 37, 38: what tells a program of its launcher, or is left to it", "[worker_env]") {
  const auto env = [](const std::vector<std::string>& own) {
    return as_map(build(inherit(own), facts(), world(), 0));
  };
  CHECK(env({}).at("TORCHELASTIC_RUN_ID") == "job7");  // 20
  CHECK(env({"TORCHELASTIC_RUN_ID=old"}).at("TORCHELASTIC_RUN_ID") == "job7");
  CHECK(env({}).at("TORCH_NCCL_ASYNC_ERROR_HANDLING") == "1");  // 37
  CHECK(env({"TORCH_NCCL_ASYNC_ERROR_HANDLING=0"}).at("TORCH_NCCL_ASYNC_ERROR_HANDLING") == "0");
  CHECK_FALSE(env({}).contains("TORCHELASTIC_TIMER_FILE"));  // 38
  CHECK(env({"TORCHELASTIC_TIMER_FILE=/t"}).at("TORCHELASTIC_TIMER_FILE") == "/t");
  CHECK_FALSE(env({}).contains("CUDA_VISIBLE_DEVICES"));
}

/// Every variable by which schedulers, operators and starters tell a process its place. None may be taken for
/// a worker's: ranks and sizes of processes are replaced by ours or go; what describes node and job stays.
TEST_CASE("worker environment: nothing of a scheduler passes for a rank of ours", "[worker_env]") {
  const std::map<std::string, std::string> ours{{"RANK", "4"},
                                                {"WORLD_SIZE", "7"},
                                                {"LOCAL_RANK", "0"},
                                                {"LOCAL_WORLD_SIZE", "2"},
                                                {"GROUP_RANK", "1"},
                                                {"GROUP_WORLD_SIZE", "3"},
                                                {"ROLE_RANK", "1"},
                                                {"ROLE_WORLD_SIZE", "3"},
                                                {"ROLE_NAME", "trainer"},
                                                {"MASTER_ADDR", "10.77.0.1"},
                                                {"MASTER_PORT", "41000"}};
  const std::vector<std::string> gone{"PET_MASTER_ADDR",
                                      "PET_MASTER_PORT",
                                      "PET_NODE_RANK",
                                      "PET_NNODES",
                                      "PET_NPROC_PER_NODE",
                                      "PET_RDZV_ENDPOINT",
                                      "PET_RDZV_ID",
                                      "SLURM_PROCID",
                                      "SLURM_LOCALID",
                                      "PALS_RANKID",
                                      "PALS_LOCAL_RANKID",
                                      "JSM_NAMESPACE_RANK",
                                      "JSM_NAMESPACE_LOCAL_RANK",
                                      "FLUX_TASK_RANK",
                                      "FLUX_TASK_LOCAL_ID",
                                      "OMPI_COMM_WORLD_RANK",
                                      "OMPI_COMM_WORLD_SIZE",
                                      "OMPI_COMM_WORLD_LOCAL_RANK",
                                      "OMPI_COMM_WORLD_NODE_RANK",
                                      "PMI_RANK",
                                      "PMI_SIZE",
                                      "PMI_FD",
                                      "PMI_ID",
                                      "PMI_LOCAL_RANK",
                                      "PMI_LOCAL_SIZE",
                                      "PMIX_RANK",
                                      "PMIX_NAMESPACE",
                                      "PMIX_SERVER_URI41",
                                      "MV2_COMM_WORLD_RANK",
                                      "MPI_LOCALRANKID",
                                      "MPI_LOCALNRANKS",
                                      "ALPS_APP_PE",
                                      "CXXRUN_TOKEN"};
  const std::vector<std::string> stay{"JOB_COMPLETION_INDEX",
                                      "LWS_LEADER_ADDRESS",
                                      "LWS_WORKER_INDEX",
                                      "VC_MASTER_HOSTS",
                                      "VC_WORKER_HOSTS",
                                      "VC_TASK_INDEX",
                                      "SLURM_STEP_NODELIST",
                                      "SLURM_JOB_NODELIST",
                                      "SLURM_NODEID",
                                      "SLURM_JOB_ID",
                                      "SLURM_LAUNCH_NODE_IPADDR",
                                      "PBS_NODEFILE",
                                      "PBS_NODENUM",
                                      "LSB_DJOB_HOSTFILE",
                                      "LSB_MCPU_HOSTS",
                                      "LSB_HOSTS",
                                      "PE_HOSTFILE",
                                      "FLUX_JOB_NNODES",
                                      "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS",
                                      "AWS_BATCH_JOB_NODE_INDEX",
                                      "SM_HOSTS",
                                      "SM_CURRENT_HOST",
                                      "AZ_BATCH_MASTER_NODE",
                                      "NODE_RANK",
                                      "AZUREML_CR_NODE_RANK",
                                      "SKYPILOT_NODE_IPS",
                                      "SKYPILOT_NODE_RANK",
                                      "RAY_ADDRESS"};
  std::vector<std::string> own;
  for (const auto& [name, value] : ours) own.push_back(name + "=theirs");
  for (const auto& name : gone) own.push_back(name + "=theirs");
  for (const auto& name : stay) own.push_back(name + "=theirs");
  const auto env = as_map(build(inherit(own), facts(), world(), 0));
  for (const auto& [name, value] : ours) {
    INFO(name);
    CHECK(env.at(name) == value);
  }
  for (const auto& name : gone) {
    INFO(name);
    CHECK_FALSE(env.contains(name));
  }
  for (const auto& name : stay) {
    INFO(name);
    CHECK(env.at(name) == "theirs");
  }
}

TEST_CASE("worker environment: an empty or odd entry does no harm", "[worker_env]") {
  CHECK(inherit({"", "NOVALUE", "A=1", "A=2", "=x"}).entries ==
        std::vector<std::string>{"", "NOVALUE", "A=1"});
}
