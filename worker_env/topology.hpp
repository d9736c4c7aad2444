// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "worker_env/cpu_set.hpp"

/// What /sys and /proc say about this machine's CPUs and GPUs. Read only for those who ask for a placement:
/// a file costs some ten microseconds, and there are several for each CPU.
namespace cxxrun::worker_env {

/// --numa-binding.
enum class Binding { Node, Socket, Exclusive, CoreComplex };

struct NumaNode {
  int number = 0;
  CpuSet cpus;  ///< online; empty: memory only
  bool operator==(const NumaNode&) const = default;
};

/// One CPU (an SMT thread). Only what the binding needs is filled in.
struct Cpu {
  int number = 0;
  int package = -1;       ///< physical package id; -1: unknown
  int core = -1;          ///< lowest CPU of the same physical core, itself where that is unknown
  int core_complex = -1;  ///< lowest CPU that shares the last level of data cache; -1: unknown
  bool operator==(const Cpu&) const = default;
};

struct Gpu {
  std::string bus_id;     ///< "0000:41:00.0"
  std::string uuid = {};  ///< "GPU-..."; empty: unknown
  int node = -1;          ///< NUMA node; negative: the firmware does not say
  bool usable = false;  ///< a driver runs it, and its device file is here: a container has its own GPUs' only
  bool operator==(const Gpu&) const = default;
};

struct Topology {
  std::vector<NumaNode> nodes;  ///< ascending; a kernel without NUMA: one, number 0, with all CPUs
  std::vector<Cpu> cpus;        ///< ascending: those that were asked for and are online
};

/// `root`: "" for this machine; tests put another tree there. What is missing in it is unknown, never an
/// error.
[[nodiscard]] Topology read_topology(const CpuSet& cpus, Binding binding, const std::string& root = "");

/// The GPUs that the NVIDIA driver lists (/proc/driver/nvidia/gpus) in the order of their bus ids, else AMD's
/// in the order of /sys/class/kfd, else the NVIDIA GPUs on the PCI bus, none of them usable.
[[nodiscard]] std::vector<Gpu> read_gpus(const std::string& root = "");

/// The CPUs that this thread may run on, also more than a cpu_set_t has room for. Empty: the kernel does not
/// tell.
[[nodiscard]] CpuSet allowed_cpus();

}  // namespace cxxrun::worker_env
