// SPDX-License-Identifier: Apache-2.0
#include "worker_env/placement.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace cxxrun::worker_env {
namespace {

/// CPUs that belong together, as a core or a core complex.
using Groups = std::vector<CpuSet>;

std::string count_of(int number, const char* what) {
  return std::to_string(number) + ' ' + what + (number == 1 ? "" : "s");
}

class Placer {
 public:
  Placer(const Topology& topology, const PlacementRequest& request)
      : topology_(topology), request_(request), count_(static_cast<std::size_t>(request.workers)) {
    for (const NumaNode& node : topology.nodes) {
      if (CpuSet cpus = common(node.cpus, request.allowed); !cpus.empty())
        nodes_.emplace_back(node.number, std::move(cpus));
    }
    for (const Cpu& cpu : topology.cpus) details_.emplace(cpu.number, cpu);
  }

  Result<std::vector<CpuSet>> place() {
    if (nodes_.empty())
      return plain_error("no NUMA node has a CPU that this process may use (" + allowed() + ")");
    if (request_.devices.empty()) {
      for (std::size_t i = 0; i < count_; ++i) slots_.push_back(nodes_[i * nodes_.size() / count_].first);
    } else if (request_.devices.size() < count_) {
      return plain_error("local rank " + std::to_string(request_.devices.size()) +
                         " has no device: " + count_of(static_cast<int>(request_.devices.size()), "device") +
                         " for " + count_of(request_.workers, "worker"));
    }
    for (const Device& device : request_.devices) slots_.push_back(device.node);
    std::vector<CpuSet> out;
    for (std::size_t i = 0; i < count_; ++i) {
      auto cpus = cpus_of(i);
      if (!cpus) return std::move(cpus).error();
      out.push_back(std::move(*cpus));
    }
    return out;
  }

 private:
  [[nodiscard]] std::string allowed() const {
    return request_.allowed.empty() ? "it knows of none" : "CPUs " + cpu_list(request_.allowed);
  }

  [[nodiscard]] const CpuSet* cpus_of_node(int number) const {
    for (const auto& [node, cpus] : nodes_) {
      if (node == number) return &cpus;
    }
    return nullptr;
  }

  Result<CpuSet> cpus_of(std::size_t rank) const {
    const int node = slots_[rank];
    const CpuSet* cpus = cpus_of_node(node);
    if (cpus == nullptr) return nothing_allowed(rank);
    switch (request_.binding) {
      case Binding::Node: return *cpus;
      case Binding::Socket: return socket_of(*cpus);
      case Binding::Exclusive: return share_of_cores(rank, *cpus);
      case Binding::CoreComplex: {
        Groups groups = groups_of(*cpus, &Cpu::core_complex);
        std::stable_sort(groups.begin(), groups.end(),
                         [](const CpuSet& a, const CpuSet& b) { return a.size() > b.size(); });
        return groups[index_in_node(rank) % groups.size()];
      }
    }
    return *cpus;
  }

  [[nodiscard]] CpuSet socket_of(const CpuSet& cpus) const {
    const int package = details_of(cpus.front()).package;
    CpuSet out;
    for (const auto& [number, others] : nodes_) {
      if (details_of(others.front()).package == package) out.insert(out.end(), others.begin(), others.end());
    }
    std::sort(out.begin(), out.end());
    return out;
  }

  [[nodiscard]] Result<CpuSet> share_of_cores(std::size_t rank, const CpuSet& cpus) const {
    const Groups cores = groups_of(cpus, &Cpu::core);
    const auto sharers = static_cast<std::size_t>(std::count(slots_.begin(), slots_.end(), slots_[rank]));
    if (cores.size() < sharers) {
      return plain_error(who(rank) + " cannot have a core of its own: NUMA node " +
                         std::to_string(slots_[rank]) + " has " +
                         count_of(static_cast<int>(cores.size()), "core") +
                         " that this process may use (CPUs " + cpu_list(cpus) + ") for " +
                         count_of(static_cast<int>(sharers), request_.devices.empty() ? "worker" : "device"));
    }
    const std::size_t each = cores.size() / sharers;
    const std::size_t longer = cores.size() % sharers;  // so many have one more
    const std::size_t index = index_in_node(rank);
    const std::size_t first = index * each + std::min(index, longer);
    CpuSet out;
    for (std::size_t i = first; i < first + each + (index < longer ? 1 : 0); ++i)
      out.insert(out.end(), cores[i].begin(), cores[i].end());
    std::sort(out.begin(), out.end());
    return out;
  }

  /// By a detail that they share, the lowest first.
  [[nodiscard]] Groups groups_of(const CpuSet& cpus, int Cpu::*what) const {
    std::map<int, CpuSet> by;
    for (const int cpu : cpus) by[details_of(cpu).*what].push_back(cpu);
    Groups out;
    for (auto& [shared, members] : by) out.push_back(std::move(members));
    std::sort(out.begin(), out.end());
    return out;
  }

  [[nodiscard]] Cpu details_of(int number) const {
    const auto found = details_.find(number);
    return found == details_.end() ? Cpu{number, -1, number, -1} : found->second;
  }

  /// How many devices (or workers) of the same node come before.
  [[nodiscard]] std::size_t index_in_node(std::size_t rank) const {
    const auto end = slots_.begin() + static_cast<std::ptrdiff_t>(rank);
    return static_cast<std::size_t>(std::count(slots_.begin(), end, slots_[rank]));
  }

  [[nodiscard]] std::string who(std::size_t rank) const {
    std::string out = "local rank " + std::to_string(rank);
    if (!request_.devices.empty()) out += " with " + request_.devices[rank].name;
    return out;
  }

  [[nodiscard]] Error nothing_allowed(std::size_t rank) const {
    const int number = slots_[rank];
    const bool guessed = request_.devices[rank].guessed;  // without devices only nodes with CPUs are taken
    std::string out = who(rank) + ": NUMA node " + std::to_string(number);
    if (guessed) out += " (the firmware does not name the device's)";
    const auto node = std::find_if(topology_.nodes.begin(), topology_.nodes.end(),
                                   [&](const NumaNode& one) { return one.number == number; });
    if (node == topology_.nodes.end()) return plain_error(out + " does not exist here");
    if (node->cpus.empty()) return plain_error(out + " has no CPUs");
    return plain_error(out + " has CPUs " + cpu_list(node->cpus) + ", this process may use " + allowed() +
                       " only");
  }

  const Topology& topology_;
  const PlacementRequest& request_;
  std::size_t count_;
  std::vector<std::pair<int, CpuSet>> nodes_;  ///< those with CPUs that we may use
  std::map<int, Cpu> details_;
  std::vector<int> slots_;  ///< NUMA node of each device, or of each worker where there is none
};

}  // namespace

Result<std::vector<CpuSet>> place(const Topology& topology, const PlacementRequest& request) {
  return Placer(topology, request).place();
}

std::vector<int> cpu_shares(const std::vector<CpuSet>& placed, int usable, int allowed) {
  std::map<int, int> sharers;
  for (const CpuSet& cpus : placed) {
    for (const int cpu : cpus) ++sharers[cpu];
  }
  const double quota = allowed > 0 && usable < allowed ? static_cast<double>(usable) / allowed : 1.0;
  constexpr double kRounding = 1e-6;
  std::vector<int> out;
  for (const CpuSet& cpus : placed) {
    double sum = 0;
    for (const int cpu : cpus) sum += 1.0 / sharers[cpu];
    out.push_back(std::max(1, static_cast<int>(sum * quota + kRounding)));
  }
  return out;
}

}  // namespace cxxrun::worker_env
