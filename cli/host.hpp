// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "cli/options.hpp"
#include "worker_env/devices.hpp"

namespace cxxrun::cli {

/// What `--nproc-per-node` and OMP_NUM_THREADS need to know of this machine.
///
/// CPUs that this process may use: its affinity mask (which the cpuset is part of), and not more than the CPU
/// quota of its cgroup or of one above it, v1 or v2, rounded up. `root`: "" for this machine; tests put
/// another tree there.
[[nodiscard]] int usable_cpus(const std::string& root = "");

/// The affinity mask alone: one system call.
[[nodiscard]] int mask_cpus();

/// The quota alone, in CPUs; nothing where there is none.
[[nodiscard]] std::optional<double> cpu_quota(const std::string& root);

/// GPUs that a worker would see: those of the masks, else those of the machine that have a driver and a
/// device file.
[[nodiscard]] int usable_gpus(const EnvironmentLookup& environment, const std::string& root = "");

/// The device masks of our environment.
[[nodiscard]] worker_env::InheritedMasks inherited_masks(const EnvironmentLookup& environment);
[[nodiscard]] int usable_count(const std::vector<worker_env::Gpu>& gpus);

/// A small text file, whole. Never waits (a FIFO nobody writes to is empty). Errors, without the path: cannot
/// be read, no file that ends, more than 64 KiB.
[[nodiscard]] Result<std::string> read_small_file(const std::string& path);
/// The same where the reason does not matter.
[[nodiscard]] std::optional<std::string> read_text(const std::string& path);

/// A configuration file with its content or its problem; nothing where there is none, also where its folder
/// is closed to us (a HOME that is somebody else's).
[[nodiscard]] std::optional<ConfigFile> read_config_file(const std::string& path);

}  // namespace cxxrun::cli
