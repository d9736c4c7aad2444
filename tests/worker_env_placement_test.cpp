// SPDX-License-Identifier: Apache-2.0
#include "worker_env/placement.hpp"

#include <algorithm>

#include "worker_env/devices.hpp"
#include "worker_env_tree.hpp"

using namespace cxxrun;
using namespace cxxrun::worker_env;
using namespace cxxrun::worker_env::test;

namespace {

using Machine = void (*)(const Tree&);

CpuSet cpus(const std::string& list) {
  const auto out = parse_cpu_list(list);
  REQUIRE(out);
  return *out;
}

/// The CPU lists of the local ranks, or the error.
std::vector<std::string> placed(const Tree& tree, const std::string& allowed, const InheritedMasks& masks,
                                int workers, Binding binding) {
  PlacementRequest request{binding, workers, cpus(allowed), {}};
  const auto gpus = read_gpus(tree.root());
  const auto usable = std::count_if(gpus.begin(), gpus.end(), [](const Gpu& gpu) { return gpu.usable; });
  const auto visible = visible_devices(masks, static_cast<int>(usable), {});
  REQUIRE(visible);
  auto devices = locate(masks, *visible, gpus);
  if (!devices) return {devices.error().message};
  request.devices = std::move(*devices);
  const auto made = place(read_topology(request.allowed, binding, tree.root()), request);
  if (!made) return {made.error().message};
  std::vector<std::string> out;
  for (const auto& set : *made) out.push_back(cpu_list(set));
  return out;
}

constexpr auto N = Binding::Node;
constexpr auto S = Binding::Socket;
constexpr auto X = Binding::Exclusive;
constexpr auto C = Binding::CoreComplex;
using Lists = std::vector<std::string>;

}  // namespace

TEST_CASE("placement: workers with GPUs", "[worker_env]") {
  struct Row {
    const char* name;
    const char* allowed;
    InheritedMasks masks;
    int workers;
    Binding binding;
    Lists want;
  };
  const Row rows[] = {
      {"node of each GPU; the unknown one counts as 0",
       "0-15",
       {},
       5,
       N,
       {"2-3,10-11", "2-3,10-11", "6-7,14-15", "4-5,12-13", "0-1,8-9"}},
      {"fewer workers than GPUs", "0-15", {}, 1, N, {"2-3,10-11"}},
      {"a mask by index, in its order", "0-15", {"3,0", {}, {}}, 2, N, {"4-5,12-13", "2-3,10-11"}},
      {"a mask by name", "0-15", {"GPU-2aaaaaaa-0000,GPU-3a", {}, {}}, 2, N, {"6-7,14-15", "4-5,12-13"}},
      {"old MIG names tell the GPU",
       "0-15",
       {"MIG-GPU-3aaaaaaa-0000/1/0,MIG-GPU-3aaaaaaa-0000/2/0", {}, {}},
       2,
       N,
       {"4-5,12-13", "4-5,12-13"}},
      {"new MIG names do not",
       "0-15",
       {"MIG-1b2c", {}, {}},
       1,
       N,
       {"device MIG-1b2c of CUDA_VISIBLE_DEVICES=MIG-1b2c can be part of more than one GPU here, at "
        "different NUMA "
        "nodes"}},
      {"socket", "0-15", {}, 4, S, {"0-3,8-11", "0-3,8-11", "4-7,12-15", "4-7,12-15"}},
      {"socket within our affinity", "1-6,10", {}, 3, S, {"1-3,10", "1-3,10", "4-6"}},
      {"exclusive: SMT threads stay together", "0-15", {}, 4, X, {"2,10", "3,11", "6-7,14-15", "4-5,12-13"}},
      {"exclusive: shares are by GPUs, not by workers", "0-15", {}, 1, X, {"2,10"}},
      {"exclusive: a core that is half ours", "2,3,10", {"0,1", {}, {}}, 2, X, {"2,10", "3"}},
      {"exclusive: too few cores",
       "2,10,14",
       {"0,1", {}, {}},
       2,
       X,
       {"local rank 0 with GPU 0 (0000:21:00.0) cannot have a core of its own: NUMA node 1 has 1 core that "
        "this "
        "process may use (CPUs 2,10) for 2 devices"}},
      {"core complex: one L3 for two nodes is cut at the node",
       "0-15",
       {},
       3,
       C,
       {"2-3,10-11", "2-3,10-11", "6-7,14-15"}},
      {"nothing of the node is ours",
       "0-3,8-11",
       {},
       3,
       N,
       {"local rank 2 with GPU 2 (0000:a1:00.0): NUMA node 3 has CPUs 6-7,14-15, this process may use CPUs "
        "0-3,8-11 "
        "only"}},
      {"nothing of the guessed node is ours",
       "2-7",
       {"4", {}, {}},
       1,
       N,
       {"local rank 0 with GPU 4 (0000:e1:00.0): NUMA node 0 (the firmware does not name the device's) has "
        "CPUs "
        "0-1,8-9, this process may use CPUs 2-7 only"}},
      {"more workers than GPUs",
       "0-15",
       {"1", {}, {}},
       2,
       N,
       {"local rank 1 has no device: 1 device for 2 workers"}},
      {"a GPU that is not here",
       "0-15",
       {"1,7", {}, {}},
       2,
       N,
       {"device 7 of CUDA_VISIBLE_DEVICES=1,7 is not among the 5 GPUs here"}},
      {"an empty mask: no devices, spread evenly", "0-15", {"", {}, {}}, 2, N, {"0-1,8-9", "4-5,12-13"}},
  };
  const Tree tree;
  two_sockets_with_gpus(tree);
  for (const auto& row : rows) {
    INFO(row.name);
    CHECK(placed(tree, row.allowed, row.masks, row.workers, row.binding) == row.want);
  }
}

TEST_CASE("placement: workers without GPUs", "[worker_env]") {
  struct Row {
    const char* name;
    Machine machine;
    const char* allowed;
    int workers;
    Binding binding;
    Lists want;
  };
  const Row rows[] = {
      {"evenly over the nodes, neighbours together",
       two_sockets,
       "0-15",
       8,
       N,
       {"0-1,8-9", "0-1,8-9", "2-3,10-11", "2-3,10-11", "4-5,12-13", "4-5,12-13", "6-7,14-15", "6-7,14-15"}},
      {"not even", two_sockets, "0-15", 3, N, {"0-1,8-9", "2-3,10-11", "4-5,12-13"}},
      {"sockets", two_sockets, "0-15", 2, S, {"0-3,8-11", "4-7,12-15"}},
      {"exclusive",
       two_sockets,
       "0-15",
       8,
       X,
       {"0,8", "1,9", "2,10", "3,11", "4,12", "5,13", "6,14", "7,15"}},
      {"exclusive, two workers, four nodes", two_sockets, "0-15", 2, X, {"0-1,8-9", "4-5,12-13"}},
      {"exclusive, too many",
       two_sockets,
       "0-15",
       9,
       X,
       {"local rank 0 cannot have a core of its own: NUMA node 0 has 2 cores that this process may use (CPUs "
        "0-1,8-9) for 3 workers"}},
      {"only nodes with CPUs of ours", two_sockets, "6,14,1,9", 2, N, {"1,9", "6,14"}},
      {"core complexes in turn, the large ones first",
       core_complexes,
       "0-13",
       5,
       C,
       {"0-3", "4-7", "8-11", "12-13", "0-3"}},
      {"core complexes that affinity cuts", core_complexes, "3-13", 3, C, {"4-7", "8-11", "12-13"}},
      {"exclusive without SMT, not even", core_complexes, "0-13", 4, X, {"0-3", "4-7", "8-10", "11-13"}},
      {"offline CPUs", core_complexes, "0-15", 1, N, {"0-13"}},
      {"virtual machine: node", virtual_machine, "0-3", 2, N, {"0-3", "0-3"}},
      {"virtual machine: socket", virtual_machine, "1-2", 2, S, {"1-2", "1-2"}},
      {"virtual machine: exclusive", virtual_machine, "0-3", 2, X, {"0-1", "2-3"}},
      {"virtual machine: one complex", virtual_machine, "0-3", 2, C, {"0-3", "0-3"}},
  };
  for (const auto& row : rows) {
    INFO(row.name);
    const Tree tree;
    row.machine(tree);
    CHECK(placed(tree, row.allowed, {}, row.workers, row.binding) == row.want);
  }
}

TEST_CASE("placement: no CPU at all", "[worker_env]") {
  const Tree tree;
  two_sockets(tree);
  CHECK(placed(tree, "20-21", {}, 1, N) ==
        Lists{"no NUMA node has a CPU that this process may use (CPUs 20-21)"});
  CHECK(placed(tree, "", {}, 1, N) ==
        Lists{"no NUMA node has a CPU that this process may use (it knows of none)"});
}

TEST_CASE("placement: every worker has CPUs of ours and, if exclusive, alone", "[worker_env]") {
  const Tree tree;
  two_sockets(tree);
  const CpuSet ours = cpus("0-6,8-14");
  for (const Binding binding : {N, S, X, C}) {
    for (int workers = 1; workers <= 16; ++workers) {
      const auto made = place(read_topology(ours, binding, tree.root()), {binding, workers, ours, {}});
      if (!made) {
        CHECK(binding == X);  // 7 cores, not for each
        continue;
      }
      REQUIRE(made->size() == static_cast<std::size_t>(workers));
      CpuSet seen;
      for (const CpuSet& set : *made) {
        CHECK_FALSE(set.empty());
        CHECK(common(set, ours) == set);
        if (binding == X) CHECK(common(set, seen).empty());
        seen.insert(seen.end(), set.begin(), set.end());
        std::sort(seen.begin(), seen.end());
      }
    }
  }
}

TEST_CASE("CPU shares: of a CPU that several have, each counts its part", "[worker_env]") {
  const auto shares = [](const Lists& lists, int usable, int allowed) {
    std::vector<CpuSet> sets;
    for (const auto& list : lists) sets.push_back(cpus(list));
    return cpu_shares(sets, usable, allowed);
  };
  CHECK(shares({"0-3", "4-7"}, 8, 8) == std::vector{4, 4});
  CHECK(shares({"0-3", "0-3", "4-7"}, 8, 8) == std::vector{2, 2, 4});
  CHECK(shares({"0", "0", "0"}, 8, 8) == std::vector{1, 1, 1});
  CHECK(shares({"0-8", "0-8", "0-8"}, 9, 9) == std::vector{3, 3, 3});
  CHECK(shares({"0-7", "8-15"}, 4, 16) == std::vector{2, 2});  // a quota of 4 CPUs
  CHECK(shares({"0-1"}, 1, 0) == std::vector{2});
}
