// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "worker_env/environ.hpp"
#include "worker_env/placement.hpp"

/// Which devices the workers see: what was inherited, --gpus and --virtual-local-rank. Pure.
namespace cxxrun::worker_env {

/// The mask variables of our own environment; unset: the variable is.
struct InheritedMasks {
  std::optional<std::string> cuda;  ///< CUDA_VISIBLE_DEVICES
  std::optional<std::string> hip;   ///< HIP_VISIBLE_DEVICES; an empty one counts as unset, as for PyTorch
  std::optional<std::string> rocr;  ///< ROCR_VISIBLE_DEVICES: below the other two, which count what it leaves
};

/// The entries of a mask, as CUDA reads it: numbers, GPU-... and MIG-... names, up to the first that is none
/// of these.
[[nodiscard]] std::vector<std::string> mask_entries(std::string_view mask);

/// "2", "GPU-1b2c...", "MIG-...".
[[nodiscard]] bool device_name(std::string_view text);

/// What the workers of this node may see.
struct VisibleDevices {
  bool masked = false;  ///< a mask or --gpus says so; else all of the machine
  std::vector<std::string>
      entries;         ///< in order; not masked: "0", "1", ... of `usable`, empty where there is none
  std::string source;  ///< for people: "CUDA_VISIBLE_DEVICES=2,3", "--gpus 2,4"; empty: the machine
};

/// `chosen`: --gpus, empty: not given. `usable`: GPUs of the machine that have a driver; 0: unknown or none.
/// Errors: a chosen device that the mask leaves out, or that the machine does not have.
[[nodiscard]] Result<VisibleDevices> visible_devices(const InheritedMasks& masks, int usable,
                                                     const std::vector<std::string>& chosen);

/// By local rank: the mask variables that differ from ours; all empty where neither --gpus nor
/// --virtual-local-rank is given. Errors: fewer devices than workers with `one_each` (--virtual-local-rank).
[[nodiscard]] Result<std::vector<Variables>> mask_variables(const InheritedMasks& masks,
                                                            const VisibleDevices& visible, bool chosen,
                                                            bool one_each, int workers);

/// The machine's GPUs behind the entries, for placement. Errors: an entry that cannot be found among them.
[[nodiscard]] Result<std::vector<Device>> locate(const InheritedMasks& masks, const VisibleDevices& visible,
                                                 const std::vector<Gpu>& gpus);

}  // namespace cxxrun::worker_env
