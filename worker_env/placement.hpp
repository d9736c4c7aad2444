// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "worker_env/topology.hpp"

/// Which CPUs each worker of this node runs on. Pure.
namespace cxxrun::worker_env {

/// One device of the workers; local rank i uses the i-th.
struct Device {
  std::string name;      ///< for people: "GPU 3 (0000:41:00.0)"
  int node = 0;          ///< its NUMA node, 0 or more
  bool guessed = false;  ///< the firmware does not say; node 0 was taken
};

struct PlacementRequest {
  Binding binding = Binding::Node;
  int workers = 1;              ///< local ranks, 1 or more
  CpuSet allowed;               ///< CPUs that we may use ourselves
  std::vector<Device> devices;  ///< empty: the workers use none, and are spread evenly over the NUMA nodes
};

/// CPUs by local rank, none of them empty, all within `allowed`:
/// - Node: those of its device's NUMA node; Socket: of all nodes of that node's package.
/// - Exclusive: a share of the node's physical cores, with all their SMT threads, for each of its devices
/// (without
///   devices: workers); the first ones have one core more where that does not come out even.
/// - CoreComplex: the CPUs of the node that share a last-level cache; its devices (or workers) take such
/// groups in
///   turn, large ones first.
/// Errors: one sentence with the local rank, its device, the node and why there is nothing for it.
[[nodiscard]] Result<std::vector<CpuSet>> place(const Topology& topology, const PlacementRequest& request);

/// How many CPUs each local rank has to itself, at least 1: of a CPU that several have, each counts its part.
/// `usable` of `allowed` CPUs: what a cgroup's quota leaves of those that we may use.
[[nodiscard]] std::vector<int> cpu_shares(const std::vector<CpuSet>& placed, int usable, int allowed);

}  // namespace cxxrun::worker_env
