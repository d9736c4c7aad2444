// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "cli/choices.hpp"
#include "cli/host.hpp"
#include "cli/rules.hpp"
#include "worker_env/devices.hpp"
#include "worker_env/placement.hpp"

namespace cxxrun::cli {
namespace {

/// Looks at the machine only as far as an option asks for it.
class Placement : Choices {
 public:
  Placement(const RawOptions& options, const Facts& facts, LaunchPlan& plan)
      : Choices(options, facts, plan),
        config_(plan.config),
        placement_(plan.config.placement),
        workers_(plan.config.rendezvous.local_world_size) {}

  Problem make() {
    const bool asked = placement_.virtual_local_rank || placement_.numa_binding || !placement_.gpus.empty();
    if (asked) {
      masks_ = inherited_masks(facts_.environment);
      gpus_ = facts_.gpus();
      if (auto error = devices()) return error;
      if (auto error = cpus()) return error;
    }
    threads();
    return std::nullopt;
  }

 private:
  Problem devices() {
    auto visible = worker_env::visible_devices(masks_, usable_count(gpus_), placement_.gpus);
    if (!visible) return wrong(Opt::Gpus, visible.error().message);
    visible_ = std::move(*visible);
    auto made = worker_env::mask_variables(masks_, visible_, !placement_.gpus.empty(),
                                           placement_.virtual_local_rank, workers_);
    if (!made) return wrong(place(Opt::VirtualLocalRank) + ": " + made.error().message);
    placement_.masks = std::move(*made);
    return std::nullopt;
  }

  Problem cpus() {
    if (!placement_.numa_binding) return std::nullopt;
    auto devices = worker_env::locate(masks_, visible_, gpus_);
    if (!devices) return wrong(Opt::NumaBinding, devices.error().message + kWithoutDevices);
    const bool too_few = !devices->empty() && devices->size() < static_cast<std::size_t>(workers_);
    for (const auto& device : *devices) {
      if (device.guessed) note(device.name + ": the firmware names no NUMA node for it, 0 is taken");
    }
    allowed_ = facts_.allowed_cpus();
    auto placed = worker_env::place(facts_.topology(allowed_, *placement_.numa_binding),
                                    {*placement_.numa_binding, workers_, allowed_, std::move(*devices)});
    if (!placed) return wrong(Opt::NumaBinding, placed.error().message + (too_few ? kWithoutDevices : ""));
    placement_.cpus = std::move(*placed);
    return std::nullopt;
  }

  /// What OpenMP would take for itself is said once, unless somebody chose it.
  void threads() {
    if (workers_ == 1 || facts_.environment("OMP_NUM_THREADS")) return;
    const std::string choose = "; set it to choose another";
    if (placement_.cpus.empty()) {
      note("OMP_NUM_THREADS=" + std::to_string(std::max(1, config_.usable_cpus / workers_)) +
           " in each worker: " + std::to_string(config_.usable_cpus) + " usable CPUs, " +
           std::to_string(workers_) + " workers" + choose);
      return;
    }
    placement_.threads =
        worker_env::cpu_shares(placement_.cpus, facts_.usable_cpus(), static_cast<int>(allowed_.size()));
    const auto [least, most] = std::minmax_element(placement_.threads.begin(), placement_.threads.end());
    note("OMP_NUM_THREADS=" + std::to_string(*least) +
         (*least == *most ? "" : " to " + std::to_string(*most)) +
         " by the CPUs that each worker is bound to" + choose);
  }

  static constexpr const char* kWithoutDevices =
      "\n  an empty CUDA_VISIBLE_DEVICES spreads workers that use no GPU over the NUMA nodes";

  agent::Config& config_;
  agent::PlacementOptions& placement_;
  int workers_;
  worker_env::InheritedMasks masks_;
  std::vector<worker_env::Gpu> gpus_;
  worker_env::VisibleDevices visible_;
  worker_env::CpuSet allowed_;
};

}  // namespace

std::optional<PlanError> plan_placement(const RawOptions& options, const Facts& facts, LaunchPlan& plan) {
  return Placement(options, facts, plan).make();
}

}  // namespace cxxrun::cli
