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

TEST_CASE("worker environment: an empty or odd entry does no harm", "[worker_env]") {
  CHECK(inherit({"", "NOVALUE", "A=1", "A=2", "=x"}).entries ==
        std::vector<std::string>{"", "NOVALUE", "A=1"});
}
