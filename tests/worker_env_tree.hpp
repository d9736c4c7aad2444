// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "worker_env/topology.hpp"

namespace cxxrun::worker_env::test {

/// Another machine's /sys, /proc and /dev in a folder that goes with its owner.
class Tree {
 public:
  Tree() {
    std::string name = (std::filesystem::temp_directory_path() / "cxxrun-tree-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    root_ = name;
  }
  ~Tree() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  [[nodiscard]] std::string root() const { return root_.string(); }

  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path, std::ios::binary) << text;
  }
  void remove(const std::string& path) const { std::filesystem::remove_all(root_ / path); }

  void online(const std::string& list) const { write("sys/devices/system/cpu/online", list + "\n"); }

  /// NUMA nodes 0, 1, ... by their CPUs.
  void nodes(const std::vector<std::string>& lists) const {
    write("sys/devices/system/node/online", "0-" + std::to_string(lists.size() - 1) + "\n");
    for (std::size_t i = 0; i < lists.size(); ++i)
      write("sys/devices/system/node/node" + std::to_string(i) + "/cpulist", lists[i] + "\n");
  }

  /// `complex`: CPUs with one L3; empty: there is none.
  void cpu(int number, int package, const std::string& siblings, const std::string& complex = "") const {
    const std::string folder = "sys/devices/system/cpu/cpu" + std::to_string(number);
    write(folder + "/topology/physical_package_id", std::to_string(package) + "\n");
    write(folder + "/topology/thread_siblings_list", siblings + "\n");
    cache(folder, 0, 1, "Data", siblings);
    cache(folder, 1, 1, "Instruction", siblings);
    cache(folder, 2, 2, "Unified", siblings);
    if (!complex.empty()) cache(folder, 3, 3, "Unified", complex);
  }

  /// As the NVIDIA driver shows it, number `minor`; without its device file where this is a container of
  /// others.
  void gpu(int minor, const std::string& bus_id, int node, bool device_file = true) const {
    write("proc/driver/nvidia/gpus/" + bus_id + "/information",
          "Model: \t\t NVIDIA X\nIRQ:   \t\t 0\nGPU UUID: \t GPU-" + std::to_string(minor) +
              "aaaaaaa-0000\nBus Type: \t PCIe\nDevice Minor: \t " + std::to_string(minor) + "\n");
    pci(bus_id, "0x10de", "0x030200", node);
    if (device_file) write("dev/nvidia" + std::to_string(minor), "");
  }
  void pci(const std::string& bus_id, const std::string& vendor, const std::string& kind, int node) const {
    const std::string folder = "sys/bus/pci/devices/" + bus_id;
    write(folder + "/vendor", vendor + "\n");
    write(folder + "/class", kind + "\n");
    write(folder + "/numa_node", std::to_string(node) + "\n");
  }

 private:
  void cache(const std::string& folder, int index, int level, const std::string& kind,
             const std::string& shared) const {
    const std::string here = folder + "/cache/index" + std::to_string(index);
    write(here + "/level", std::to_string(level) + "\n");
    write(here + "/type", kind + "\n");
    write(here + "/shared_cpu_list", shared + "\n");
  }

  std::filesystem::path root_;
};

/// Two sockets, two nodes in each, two cores with two threads in each node: core n has CPUs n and n + 8.
inline void two_sockets(const Tree& tree) {
  tree.online("0-15");
  tree.nodes({"0-1,8-9", "2-3,10-11", "4-5,12-13", "6-7,14-15"});
  for (int core = 0; core < 8; ++core) {
    const int package = core / 4;
    const std::string pair = std::to_string(core) + "," + std::to_string(core + 8);
    const std::string socket = package == 0 ? "0-3,8-11" : "4-7,12-15";
    tree.cpu(core, package, pair, socket);
    tree.cpu(core + 8, package, pair, socket);
  }
}

/// The same with five GPUs: two at node 1, one at node 3, one at node 2, one at a place that the firmware
/// keeps to itself.
inline void two_sockets_with_gpus(const Tree& tree) {
  two_sockets(tree);
  tree.gpu(0, "0000:21:00.0", 1);
  tree.gpu(1, "0000:22:00.0", 1);
  tree.gpu(2, "0000:a1:00.0", 3);
  tree.gpu(3, "0000:c1:00.0", 2);
  tree.gpu(4, "0000:e1:00.0", -1);
}

/// One node of 16 cores without SMT, four and four with one L3; CPUs 14 and 15 are offline.
inline void core_complexes(const Tree& tree) {
  tree.online("0-13");
  tree.nodes({"0-13"});
  for (int core = 0; core < 14; ++core) {
    const int first = core / 4 * 4;
    tree.cpu(core, 0, std::to_string(core),
             std::to_string(first) + "-" + std::to_string(std::min(13, first + 3)));
  }
}

/// A kernel without NUMA and a hypervisor that says nothing of cores and caches.
inline void virtual_machine(const Tree& tree) { tree.online("0-3"); }

}  // namespace cxxrun::worker_env::test
