// SPDX-License-Identifier: Apache-2.0
// CPUs and devices of each worker, from the whole command line.
#include "agent/worker_specs.hpp"
#include "cli_support.hpp"

using namespace cxxrun;
using namespace cxxrun::cli;
using namespace cxxrun::cli::test;
using Catch::Contains;

namespace {

/// Two NUMA nodes of four CPUs; two GPUs at node 1, one at node 0.
Facts server(const Variables& variables) {
  Facts facts = machine(variables);
  facts.gpus = [] {
    return std::vector<worker_env::Gpu>{{"0000:41:00.0", "GPU-a1", 1, true},
                                        {"0000:42:00.0", "GPU-b2", 1, true},
                                        {"0000:81:00.0", "GPU-c3", 0, true}};
  };
  facts.usable_gpus = [] { return 3; };
  facts.topology = [](const worker_env::CpuSet&, worker_env::Binding) {
    worker_env::Topology out{{{0, {0, 1, 2, 3}}, {1, {4, 5, 6, 7}}}, {}};
    for (int cpu = 0; cpu < 8; ++cpu) out.cpus.push_back({cpu, cpu / 4, cpu, cpu / 2 * 2});
    return out;
  };
  return facts;
}

LaunchPlan on_server(Words words, const Variables& variables = {}) {
  words.emplace_back("./train");
  return good_plan(plan_with(words, server(variables)));
}
std::string error_on_server(Words words, const Variables& variables = {}) {
  words.emplace_back("./train");
  const auto made = plan_with(words, server(variables));
  const auto* error = std::get_if<PlanError>(&made);
  if (error == nullptr) return {};
  CHECK(error->exit_code == 2);
  return error->message;
}

/// What the workers get: "NAME=value" of some names, in their order.
Words worker_values(const LaunchPlan& plan, const Words& names) {
  World world;
  world.local_world_size = world.world_size = plan.config.rendezvous.local_world_size;
  Words out;
  for (const auto& spec : agent::worker_specs(plan.config, world)) {
    std::string line;
    for (const auto& name : names) {
      for (const auto& entry : spec.env) {
        if (entry.starts_with(name + "=")) line += (line.empty() ? "" : " ") + entry;
      }
    }
    out.push_back(line);
  }
  return out;
}

}  // namespace

TEST_CASE("placement: nothing is read of the machine that nobody asked for") {
  Facts facts = machine({});
  const auto never = [] { FAIL("read"); };
  facts.gpus = [&] { return never(), std::vector<worker_env::Gpu>{}; };
  facts.allowed_cpus = [&] { return never(), worker_env::CpuSet{}; };
  facts.topology = [&](const worker_env::CpuSet&, worker_env::Binding) {
    return never(), worker_env::Topology{};
  };
  const auto made = good_plan(plan_with({"--nproc-per-node=4", "./train"}, facts));
  CHECK(made.config.placement.cpus.empty());
  CHECK(made.config.placement.masks.empty());
}

TEST_CASE("placement: --numa-binding gives each worker the CPUs at its GPU") {
  using Sets = std::vector<worker_env::CpuSet>;
  CHECK(on_server({"--numa-binding=node", "--nproc-per-node=3"}).config.placement.cpus ==
        Sets{{4, 5, 6, 7}, {4, 5, 6, 7}, {0, 1, 2, 3}});
  CHECK(on_server({"--numa-binding=exclusive", "--nproc-per-node=3"}).config.placement.cpus ==
        Sets{{4, 5}, {6, 7}, {0, 1, 2, 3}});
  CHECK(on_server({"--numa-binding=core-complex", "--nproc-per-node=2"}).config.placement.cpus ==
        Sets{{4, 5}, {6, 7}});
  CHECK(on_server({"--numa-binding=node", "--nproc-per-node=2", "--gpus=2,0"}).config.placement.cpus ==
        Sets{{0, 1, 2, 3}, {4, 5, 6, 7}});
  CHECK(on_server({"--numa-binding=node", "--nproc-per-node=2"}, {{"CUDA_VISIBLE_DEVICES", ""}})
            .config.placement.cpus == Sets{{0, 1, 2, 3}, {4, 5, 6, 7}});
  CHECK(plan({"--numa-binding=exclusive", "--nproc-per-node=2"}).config.placement.cpus ==
        Sets{{0, 1, 2, 3}, {4, 5, 6, 7}});  // no GPU, no NUMA
}

TEST_CASE("placement: what cannot be bound is an error before anything starts") {
  CHECK(error_on_server({"--numa-binding=node", "--nproc-per-node=4"}) ==
        "--numa-binding node: local rank 3 has no device: 3 devices for 4 workers\n  an empty "
        "CUDA_VISIBLE_DEVICES spreads workers that use no GPU over the NUMA nodes");
  CHECK_THAT(error_on_server({"--numa-binding=node"}, {{"CUDA_VISIBLE_DEVICES", "9"}}),
             Contains("device 9 of CUDA_VISIBLE_DEVICES=9 is not among the 3 GPUs here\n"));
  CHECK_THAT(plan_error({"--numa-binding=exclusive", "--nproc-per-node=9"}),
             Contains("local rank 0 cannot have a core of its own: NUMA node 0 has 8 cores"));
}

TEST_CASE("torchrun 59: OMP_NUM_THREADS is said in one line, unless it was chosen") {
  CHECK(all_notes(plan({"--nproc-per-node=2"})) ==
        "OMP_NUM_THREADS=4 in each worker: 8 usable CPUs, 2 workers; set it to choose another\n");
  CHECK(all_notes(plan({})).empty());
  CHECK(all_notes(plan({"--nproc-per-node=2"}, {{"OMP_NUM_THREADS", "7"}})).empty());
  CHECK(all_notes(plan({"--nproc-per-node=2"}, {{"OMP_NUM_THREADS", ""}})).empty());
}

TEST_CASE("placement: OMP_NUM_THREADS by the CPUs of each worker") {
  const auto three = on_server({"--numa-binding=node", "--nproc-per-node=3"});
  CHECK(worker_values(three, {"OMP_NUM_THREADS"}) ==
        Words{"OMP_NUM_THREADS=2", "OMP_NUM_THREADS=2", "OMP_NUM_THREADS=4"});
  CHECK(all_notes(three) ==
        "OMP_NUM_THREADS=2 to 4 by the CPUs that each worker is bound to; set it to choose another\n");
  CHECK(worker_values(on_server({"--numa-binding=node"}), {"OMP_NUM_THREADS"}) == Words{""});
  Facts half = server({});
  half.usable_cpus = [] { return 4; };  // a quota
  CHECK(worker_values(good_plan(plan_with({"--numa-binding=node", "--nproc-per-node=3", "S"}, half)),
                      {"OMP_NUM_THREADS"}) ==
        Words{"OMP_NUM_THREADS=1", "OMP_NUM_THREADS=1", "OMP_NUM_THREADS=2"});
}

TEST_CASE("torchrun 24: --virtual-local-rank") {
  const auto made = plan({"--virtual-local-rank", "--nproc-per-node=2"}, {{"CUDA_VISIBLE_DEVICES", "5,7"}});
  CHECK(worker_values(made, {"LOCAL_RANK", "RANK", "CUDA_VISIBLE_DEVICES"}) ==
        Words{"LOCAL_RANK=0 RANK=0 CUDA_VISIBLE_DEVICES=5", "LOCAL_RANK=0 RANK=1 CUDA_VISIBLE_DEVICES=7"});
}

TEST_CASE("torchrun 25: --virtual-local-rank with too few devices") {
  CHECK(
      plan_error({"--virtual-local-rank", "--nproc-per-node=2"}, {{"CUDA_VISIBLE_DEVICES", "5"}}) ==
      "--virtual-local-rank: local rank 1 has no device: CUDA_VISIBLE_DEVICES=5 has 1 device for 2 workers");
  CHECK(
      plan_error({"--nproc-per-node=2"}, {{"CUDA_VISIBLE_DEVICES", "5"}, {"PET_VIRTUAL_LOCAL_RANK", "1"}}) ==
      "PET_VIRTUAL_LOCAL_RANK: local rank 1 has no device: CUDA_VISIBLE_DEVICES=5 has 1 device for 2 "
      "workers");
}

TEST_CASE("torchrun 11: --gpus is what auto and gpu count, and what the workers see") {
  for (const char* kind : {"auto", "gpu"}) {
    const auto made = on_server({"--gpus=2,0", "--nproc-per-node", kind});
    CHECK(worker_values(made, {"CUDA_VISIBLE_DEVICES"}) ==
          Words{"CUDA_VISIBLE_DEVICES=2,0", "CUDA_VISIBLE_DEVICES=2,0"});
  }
  CHECK(worker_values(on_server({"--gpus=2,0", "--virtual-local-rank", "--nproc-per-node=2"}),
                      {"CUDA_VISIBLE_DEVICES"}) == Words{"CUDA_VISIBLE_DEVICES=2", "CUDA_VISIBLE_DEVICES=0"});
  CHECK(error_on_server({"--gpus=1,3"}) == "--gpus 1,3: there is no GPU 3 here: 3 GPUs, counted from 0");
  CHECK(error_on_server({"--gpus=1,3"}, {{"CUDA_VISIBLE_DEVICES", "1,2"}}) ==
        "--gpus 1,3: 3 is not among the devices of CUDA_VISIBLE_DEVICES=1,2");
  CHECK_THAT(error_on_server({"--gpus=x", "--nproc-per-node=auto"}), Contains("--gpus x: must be GPUs"));
}
