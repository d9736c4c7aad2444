// SPDX-License-Identifier: Apache-2.0
#include "cli/plan.hpp"

#include "base/limits.hpp"
#include "cli_support.hpp"

using namespace cxxrun;
using namespace cxxrun::cli;
using namespace cxxrun::cli::test;
using namespace std::chrono_literals;
using Catch::Contains;
using rendezvous::BackendKind;
using rendezvous::Endpoint;

// --- the program ---

TEST_CASE("plan: program, module and stderr") {
  const auto made = good_plan(plan_with({"-m", "pkg.mod", "--x", ""}, machine({})));
  CHECK(made.module);
  CHECK_FALSE(made.no_python);
  CHECK(made.words == Words{"pkg.mod", "--x", ""});
  CHECK_FALSE(made.config.stderr_inherit);
  CHECK(plan({"--stderr", "inherit"}).config.stderr_inherit);
  CHECK(plan_error({"--stderr=both"}) == "--stderr both: must be pipe or inherit");
}

TEST_CASE("torchrun 5, 8: --no-python and --module exclude each other") {
  CHECK(plan_error({"--no-python", "-m"}) == "--module and --no-python exclude each other");
  CHECK(plan_error({"--no-python"}, {{"PET_MODULE", "1"}}) ==
        "PET_MODULE and --no-python exclude each other");
}

TEST_CASE("torchrun 63: no program") {
  for (const Words& words : {Words{}, Words{"--standalone"}, Words{"--"}, Words{""}}) {
    const auto made = plan_with(words, machine({}));
    REQUIRE(std::holds_alternative<PlanError>(made));
    CHECK_THAT(std::get<PlanError>(made).message, Catch::StartsWith("which program shall run?"));
  }
}

// --- sizes ---

TEST_CASE("torchrun 18, 19: --nnodes") {
  const struct {
    const char* text;
    int min, max;  // 0: refused
    const char* message;
  } rows[] = {
      {"1", 1, 1, ""},
      {"2:20", 2, 20, ""},
      {"3:3", 3, 3, ""},
      {"65536", 65536, 65536, ""},
      {"2:20:30", 0, 0, "must be a number of nodes, or MIN:MAX"},
      {"0", 0, 0, "at least 1 node"},
      {"0:2", 0, 0, "at least 1 node"},
      {"3:2", 0, 0, "MIN is larger than MAX"},
      {"-1", 0, 0, "must be a number of nodes, or MIN:MAX"},
      {"", 0, 0, "must be a number of nodes, or MIN:MAX"},
      {":", 0, 0, "must be a number of nodes, or MIN:MAX"},
      {"1:", 0, 0, "must be a number of nodes, or MIN:MAX"},
      {":2", 0, 0, "must be a number of nodes, or MIN:MAX"},
      {"x", 0, 0, "must be a number of nodes, or MIN:MAX"},
      {" 2", 0, 0, "must be a number of nodes, or MIN:MAX"},
      {"2.0", 0, 0, "must be a number of nodes, or MIN:MAX"},
      {"65537", 0, 0, "at most 65536 nodes"},
      {"99999999999999999999", 0, 0, "must be a number of nodes, or MIN:MAX"},
  };
  for (const auto& row : rows) {
    INFO(row.text);
    const Words words{"--nnodes=" + std::string(row.text), "--rdzv-endpoint=h:1"};
    if (row.min == 0) {
      CHECK(plan_error(words) == "--nnodes " + quoted(row.text) + ": " + row.message);
      continue;
    }
    const auto made = plan(words);
    CHECK(rdzv(made).nnodes_min == row.min);
    CHECK(rdzv(made).nnodes_max == row.max);
  }
}

TEST_CASE("torchrun 6, 9, 10, 11: --nproc-per-node") {
  CHECK(rdzv(plan({})).local_world_size == 1);
  CHECK(rdzv(plan({"--nproc-per-node=4"})).local_world_size == 4);
  CHECK(rdzv(plan({"--nproc-per-node=cpu"})).local_world_size == 8);
  const auto automatic = plan({"--nproc-per-node=auto"}, {{"OMP_NUM_THREADS", "1"}});
  CHECK(rdzv(automatic).local_world_size == 8);
  CHECK(all_notes(automatic) == "--nproc-per-node auto: 8 usable CPUs, no GPU\n");
  CHECK(plan_error({"--nproc-per-node=gpu"}) ==
        "--nproc-per-node gpu: no GPU is visible here (CUDA_VISIBLE_DEVICES, /proc/driver/nvidia)");
  for (const char* bad : {"unknown", "", "-1", "1.5", "99999999999999999999", "CPU"}) {
    CHECK(plan_error({"--nproc-per-node=" + std::string(bad)}) ==
          "--nproc-per-node " + quoted(bad) + ": must be a number, auto, cpu or gpu");
  }
  CHECK(plan_error({"--nproc-per-node=0"}) == "--nproc-per-node 0: at least 1 worker");
  CHECK(plan_error({"--nproc-per-node=4097"}) == "--nproc-per-node 4097: at most 4096 workers on one node");
  auto facts = machine({});
  facts.usable_gpus = [] { return 3; };
  for (const char* kind : {"gpu", "auto"}) {
    CHECK(rdzv(good_plan(plan_with({"--nproc-per-node", kind, "S"}, facts))).local_world_size == 3);
  }
}

TEST_CASE("torchrun 59: usable CPUs are looked up only where OMP_NUM_THREADS needs them") {
  int calls = 0;
  auto facts = machine({});
  facts.usable_cpus = [&] { return ++calls, 6; };
  CHECK(good_plan(plan_with({"S"}, facts)).config.usable_cpus == 1);
  CHECK(calls == 0);
  CHECK(good_plan(plan_with({"--nproc-per-node=2", "S"}, facts)).config.usable_cpus == 6);
  CHECK(calls == 1);
  facts.environment = lookup({{"OMP_NUM_THREADS", ""}});
  good_plan(plan_with({"--nproc-per-node=2", "S"}, facts));
  CHECK(calls == 1);
}

TEST_CASE("the CPU quota is read only where it can change the threads of a worker") {
  int calls = 0;
  auto facts = machine({});
  facts.usable_cpus = [&] { return ++calls, 3; };
  facts.mask_cpus = [] { return 7; };
  CHECK(good_plan(plan_with({"--nproc-per-node=4", "S"}, facts)).config.usable_cpus / 4 == 1);
  CHECK(calls == 0);
  CHECK(good_plan(plan_with({"--nproc-per-node=3", "S"}, facts)).config.usable_cpus == 3);
  CHECK(calls == 1);
}

// --- restarts and stopping ---

TEST_CASE("torchrun 63: numbers of restarts and stopping") {
  const auto made = plan({"--max-restarts=3", "--shutdown-timeout=1.5", "--monitor-interval=2", "--role=r"});
  CHECK(rdzv(made).max_restarts == 3);
  CHECK(made.config.signals.shutdown_timeout == 1500ms);
  CHECK(rdzv(made).role == "r");
  const struct {
    const char* word;
    const char* message;
  } rows[] = {
      {"--max-restarts=x", "--max-restarts x: must be a whole number, 0 or more"},
      {"--max-restarts=-1", "--max-restarts -1: must be a whole number, 0 or more"},
      {"--max-restarts=1000001", "--max-restarts 1000001: must be a whole number, 0 or more"},
      {"--shutdown-timeout=-1", "--shutdown-timeout -1: must be seconds, 0 to 604800"},
      {"--shutdown-timeout=604801", "--shutdown-timeout 604801: must be seconds, 0 to 604800"},
      {"--shutdown-timeout=", "--shutdown-timeout '': must be seconds, 0 to 604800"},
      {"--monitor-interval=0", "--monitor-interval 0: must be seconds, more than 0"},
      {"--start-method=x", "--start-method x: must be spawn"},
      {"--start-method=fork", "--start-method fork: not yet supported; write spawn"},
      {"--start-method=forkserver", "--start-method forkserver: not yet supported; write spawn"},
  };
  for (const auto& row : rows) CHECK(plan_error({row.word}) == row.message);
  CHECK(plan_error({}, {{"PET_MAX_RESTARTS", "abc"}}) ==
        "PET_MAX_RESTARTS=abc: must be a whole number, 0 or more");
}

TEST_CASE("TORCH_ELASTIC_SHUTDOWN_TIMEOUT is weaker than the option and its variable") {
  const char* name = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT";
  CHECK(plan({}).config.signals.shutdown_timeout == 30s);
  CHECK(plan({}, {{name, "7"}}).config.signals.shutdown_timeout == 7s);
  CHECK(plan({}, {{name, ""}}).config.signals.shutdown_timeout == 30s);
  CHECK(plan({}, {{name, "7"}, {"PET_SHUTDOWN_TIMEOUT", "8"}}).config.signals.shutdown_timeout == 8s);
  CHECK(plan({"--shutdown-timeout=9"}, {{name, "x"}}).config.signals.shutdown_timeout == 9s);
  CHECK_THAT(plan_error({}, {{name, "x"}}), Catch::StartsWith(std::string(name) + "=x: must be seconds"));
}

// --- ports, store, token ---

TEST_CASE("--port-range") {
  CHECK(rdzv(plan({})).ports.any());
  CHECK(rdzv(plan({"--port-range=5000-5010"})).ports == rendezvous::PortRange{5000, 5010});
  CHECK(rdzv(plan({"--port-range=5000"})).ports == rendezvous::PortRange{5000, 5000});
  for (const char* bad : {"", "x", "0-5", "9-5", "1-65536", "1-2-3", "-5", "5-", "1:2"}) {
    CHECK(plan_error({"--port-range=" + std::string(bad)}) ==
          "--port-range " + quoted(bad) + ": must be FIRST-LAST, within 1 to 65535");
  }
}

TEST_CASE("--worker-store and torchrun's variable for it") {
  CHECK(rdzv(plan({})).agent_store);
  CHECK_FALSE(rdzv(plan({"--worker-store=none"})).agent_store);
  CHECK_FALSE(rdzv(plan({}, {{"TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1"}})).agent_store);
  CHECK(rdzv(plan({}, {{"TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "0"}})).agent_store);
  CHECK(plan_error({"--worker-store=x"}) == "--worker-store x: must be agent or none");
}

TEST_CASE("the token: from the environment or a file, never in a note or error") {
  CHECK(rdzv(plan({})).token.empty());
  CHECK(rdzv(plan({}, {{"CXXRUN_TOKEN", "s3cret"}})).token == "s3cret");
  auto facts = machine({{"CXXRUN_TOKEN", "s3cret"}});
  std::string content = " from file \r\n";
  facts.read_file = [&](const std::string& path) -> Result<std::string> {
    if (path == "/token") return content;
    return plain_error("cannot be read");
  };
  CHECK(rdzv(good_plan(plan_with({"--rdzv-conf=token_file=/token", "S"}, facts))).token == " from file");
  const auto refused = [&](const char* conf) {
    return std::get<PlanError>(plan_with({conf, "S"}, facts)).message;
  };
  CHECK(refused("--rdzv-conf=token_file=/none") == "--rdzv-conf: token_file=/none: cannot be read");
  content = "\n \n";
  CHECK(refused("--rdzv-conf=token_file=/token") == "--rdzv-conf: token_file=/token: is empty");
}

TEST_CASE("torchrun 67: a bad --rdzv-conf is wrong usage") {
  for (const char* bad : {"=1", "a", "a=", "a=1,", "join_timeout=x"}) {
    CHECK_THAT(plan_error({"--rdzv-conf=" + std::string(bad)}), Catch::StartsWith("--rdzv-conf: "));
  }
  CHECK(rdzv(plan({"--rdzv-conf='join_timeout=5,last_call_timeout=1,timeout=5'"})).timeouts.join == 5s);
}

// --- names ---

TEST_CASE("run id: given, the scheduler's, random for one node, none") {
  CHECK(rdzv(plan({})).run_id == "random");
  CHECK(rdzv(plan({"--rdzv-id="})).run_id == "random");
  CHECK(rdzv(plan({"--rdzv-id=x"})).run_id == "x");
  CHECK(rdzv(plan({"--nnodes=2", "--rdzv-endpoint=h"})).run_id == "none");
  CHECK(rdzv(plan({"--nnodes=2"}, {{"SLURM_JOB_NODELIST", "n[1-2]"}, {"SLURM_JOB_ID", "7"}})).run_id ==
        "slurm-7");
  CHECK(rdzv(plan({"--nnodes=2", "--rdzv-id=x"}, {{"SLURM_JOB_NODELIST", "n[1-2]"}, {"SLURM_JOB_ID", "7"}}))
            .run_id == "x");
  CHECK_THAT(plan_error({"--nnodes=2", "--rdzv-endpoint=h", "--rdzv-id="}),
             Catch::StartsWith("--rdzv-id '': give the job a name"));
  CHECK(plan_error({"--rdzv-id=" + std::string(257, 'x')}) ==
        "--rdzv-id " + cxxrun::quoted(std::string(257, 'x')) + ": at most 256 bytes");
  CHECK(rdzv(plan({})).host_name == "here");
}
