// SPDX-License-Identifier: Apache-2.0
#include "worker_env/topology.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>

#include "worker_env_tree.hpp"

using namespace cxxrun::worker_env;
using namespace cxxrun::worker_env::test;

TEST_CASE("CPU lists", "[worker_env]") {
  const std::pair<const char*, CpuSet> good[] = {
      {"", {}},
      {"\n", {}},
      {"0", {0}},
      {"0-3\n", {0, 1, 2, 3}},
      {"8,0-1", {0, 1, 8}},
      {"1-1,1", {1}},
      {"8191", {8191}},
      {"0-1,3-4,6 \n", {0, 1, 3, 4, 6}},
  };
  for (const auto& [text, want] : good) {
    INFO(text);
    CHECK(parse_cpu_list(text) == std::optional(want));
  }
  for (const char* bad : {",", "0,", "-1", "3-1", "0-", "a", "0 1", "8192", "0-8192", "0--1", "0x1", " 0",
                          "99999999999", "0-3:1/2"}) {
    INFO(bad);
    CHECK_FALSE(parse_cpu_list(bad));
  }
  std::string many = "0-8191";
  for (int i = 0; i < 10'000; ++i) many += ",0-8191";
  CHECK_FALSE(parse_cpu_list(many));
  for (const char* list : {"", "0", "0-3", "0-1,3,5-7"}) CHECK(cpu_list(*parse_cpu_list(list)) == list);
  CHECK(common({1, 2, 5}, {2, 3, 5, 9}) == CpuSet{2, 5});
}

TEST_CASE("topology: only what the binding needs", "[worker_env]") {
  const Tree tree;
  two_sockets(tree);
  const CpuSet one{9};
  CHECK(read_topology(one, Binding::Node, tree.root()).cpus == std::vector<Cpu>{{9, -1, -1, -1}});
  CHECK(read_topology(one, Binding::Socket, tree.root()).cpus == std::vector<Cpu>{{9, 0, -1, -1}});
  CHECK(read_topology(one, Binding::Exclusive, tree.root()).cpus == std::vector<Cpu>{{9, -1, 1, -1}});
  CHECK(read_topology(one, Binding::CoreComplex, tree.root()).cpus == std::vector<Cpu>{{9, -1, -1, 0}});
  CHECK(read_topology(one, Binding::Node, tree.root()).nodes.size() == 4);
}

TEST_CASE("topology: node numbers with holes, a node without CPUs, garbage", "[worker_env]") {
  const Tree tree;
  tree.online("0-1");
  tree.write("sys/devices/system/node/online", "0,2,5\n");
  tree.write("sys/devices/system/node/node0/cpulist", "\n");
  tree.write("sys/devices/system/node/node2/cpulist", "0-1\n");
  tree.write("sys/devices/system/node/node5/cpulist", "x\n");
  CHECK(read_topology({0, 1}, Binding::Node, tree.root()).nodes ==
        std::vector<NumaNode>{{0, {}}, {2, {0, 1}}});
  tree.write("sys/devices/system/node/online", "nonsense");
  CHECK(read_topology({0, 1, 7}, Binding::Node, tree.root()).nodes == std::vector<NumaNode>{{0, {0, 1}}});
}

TEST_CASE("topology: the last level of data cache, whatever its number", "[worker_env]") {
  const Tree tree;
  tree.online("0-7");
  tree.cpu(5, 0, "4-5");  // no L3: the L2
  CHECK(read_topology({5}, Binding::CoreComplex, tree.root()).cpus[0].core_complex == 4);
  tree.cpu(5, 0, "4-5", "2-5");
  CHECK(read_topology({5}, Binding::CoreComplex, tree.root()).cpus[0].core_complex == 2);
  tree.write("sys/devices/system/cpu/cpu5/cache/index4/level", "4\n");  // without a list
  CHECK(read_topology({5}, Binding::CoreComplex, tree.root()).cpus[0].core_complex == 2);
}

TEST_CASE("GPUs: the NVIDIA driver's, those of this container usable", "[worker_env]") {
  const Tree tree;
  CHECK(read_gpus(tree.root()).empty());
  tree.gpu(1, "0000:c1:00.0", 1);
  tree.gpu(0, "0000:21:00.0", 0, false);
  CHECK(read_gpus(tree.root()) == std::vector<Gpu>{{"0000:21:00.0", "GPU-0aaaaaaa-0000", 0, false},
                                                   {"0000:c1:00.0", "GPU-1aaaaaaa-0000", 1, true}});
  tree.remove("sys/bus/pci");
  tree.write("proc/driver/nvidia/gpus/0000:21:00.0/information", "");
  tree.write("dev/nvidiactl", "");
  CHECK(read_gpus(tree.root())[0] == Gpu{"0000:21:00.0", "", -1, true});
}

TEST_CASE("GPUs: AMD's, by kfd's numbers", "[worker_env]") {
  const Tree tree;
  const std::string folder = "sys/class/kfd/kfd/topology/nodes/";
  tree.write(folder + "0/properties", "cpu_cores_count 64\nsimd_count 0\n");
  tree.write(folder + "10/properties",
             "simd_count 304\nlocation_id 49408\ndomain 1\ndrm_render_minor 129\nunique_id 3735928559\n");
  tree.write(folder + "2/properties",
             "cpu_cores_count 0\nsimd_count 304\nlocation_id 1280\ndomain 0\n"
             "drm_render_minor 128\nunique_id 12297829382473034410\n");
  tree.write(folder + "3/properties", "");  // of another container
  tree.write("dev/kfd", "");
  tree.write("dev/dri/renderD128", "");
  tree.pci("0001:c1:00.0", "0x1002", "0x038000", 1);
  CHECK(read_gpus(tree.root()) == std::vector<Gpu>{{"0000:05:00.0", "GPU-aaaaaaaaaaaaaaaa", -1, true},
                                                   {"0001:c1:00.0", "GPU-00000000deadbeef", 1, false}});
}

TEST_CASE("GPUs: on the bus without a driver: none is usable", "[worker_env]") {
  const Tree tree;
  tree.pci("0000:21:00.0", "0x10de", "0x030200", 1);
  tree.pci("0000:21:00.1", "0x10de", "0x040300", 1);  // its sound device
  tree.pci("0000:22:00.0", "0x10de", "0x030000", 0);
  tree.pci("0000:23:00.0", "0x8086", "0x030000", 0);
  CHECK(read_gpus(tree.root()) ==
        std::vector<Gpu>{{"0000:21:00.0", "", 1, false}, {"0000:22:00.0", "", 0, false}});
}

TEST_CASE("topology: this machine", "[worker_env]") {
  cpu_set_t set;
  REQUIRE(::sched_getaffinity(0, sizeof set, &set) == 0);
  const CpuSet ours = allowed_cpus();
  CHECK(static_cast<int>(ours.size()) == CPU_COUNT(&set));
  for (const int cpu : ours) CHECK(CPU_ISSET(static_cast<std::size_t>(cpu), &set));
  const Topology here = read_topology(ours, Binding::Exclusive);
  CHECK_FALSE(here.nodes.empty());
  CHECK(here.cpus.size() == ours.size());
}
