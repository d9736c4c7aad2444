// SPDX-License-Identifier: Apache-2.0
#include "cli/host.hpp"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/unique_fd.hpp"
#include "cli/numbers.hpp"

namespace cxxrun::cli {
namespace {

constexpr std::size_t kTextBytesMax = 64u << 10;

std::string cannot_read(int number) {
  if (number == EISDIR) return "is a directory, not a file";
  if (number == EFBIG) return "is larger than " + std::to_string(kTextBytesMax) + " bytes";
  return "cannot be read: " + std::generic_category().message(number);
}

std::string_view first_line(std::string_view text) { return text.substr(0, text.find('\n')); }

/// v2: "150000 100000" or "max 100000".
std::optional<double> quota_v2(const std::string& directory) {
  const auto text = read_text(directory + "/cpu.max");
  if (!text) return std::nullopt;
  const std::string_view line = first_line(*text);
  const auto space = line.find(' ');
  const auto quota = whole_number(line.substr(0, space));
  const auto period = space == std::string_view::npos ? std::nullopt : whole_number(line.substr(space + 1));
  if (!quota || !period || *period == 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

std::optional<double> quota_v1(const std::string& directory) {
  const auto quota_text = read_text(directory + "/cpu.cfs_quota_us");
  const auto quota = whole_number(quota_text ? first_line(*quota_text) : std::string_view());  // -1: none
  if (!quota) return std::nullopt;
  const auto period_text = read_text(directory + "/cpu.cfs_period_us");
  const auto period = whole_number(period_text ? first_line(*period_text) : std::string_view());
  if (!period || *period == 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

/// The smallest quota of a group and those above it.
template <class Read>
std::optional<double> smallest(const std::string& mount, std::string path, Read read) {
  std::optional<double> least;
  for (;;) {
    if (const auto quota = read(mount + path)) least = std::min(least.value_or(*quota), *quota);
    const auto slash = path.rfind('/');
    if (slash == std::string::npos || path.empty()) return least;
    path.resize(slash);
  }
}

bool has_controller(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    const auto comma = list.find(',');
    if (list.substr(0, comma) == name) return true;
    if (comma == std::string_view::npos) break;
    list.remove_prefix(comma + 1);
  }
  return false;
}

}  // namespace

int mask_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)));  // more than 1,024 CPUs
}

Result<std::string> read_small_file(const std::string& path) {
  const auto failure = [](int number) {
    return Error{{number, std::generic_category()}, cannot_read(number)};
  };
  const UniqueFd file(
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a FIFO must not hold the start
  if (!file) return failure(errno);
  std::string out;
  char chunk[4096];
  for (;;) {
    const ssize_t n = ::read(file.get(), chunk, sizeof chunk);
    if (n < 0) return failure(errno);
    if (n == 0) return out;
    out.append(chunk, static_cast<std::size_t>(n));
    if (out.size() > kTextBytesMax) return failure(EFBIG);
  }
}

std::optional<std::string> read_text(const std::string& path) {
  auto text = read_small_file(path);
  if (!text) return std::nullopt;
  return std::move(*text);
}

std::optional<ConfigFile> read_config_file(const std::string& path) {
  auto text = read_small_file(path);
  if (text) return ConfigFile{path, std::move(*text), {}};
  const int number = text.error().code.value();
  if (number == ENOENT || number == ENOTDIR) return std::nullopt;
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  if (number == EACCES && ::access(folder.c_str(), X_OK) != 0) return std::nullopt;
  return ConfigFile{path, {}, text.error().message};
}

std::optional<double> cpu_quota(const std::string& root) {
  const auto groups = read_text(root + "/proc/self/cgroup");
  if (!groups) return std::nullopt;
  std::optional<double> least;
  const auto take = [&](std::optional<double> quota) {
    if (quota) least = std::min(least.value_or(*quota), *quota);
  };
  // Lines "ID:CONTROLLERS:PATH"; v2 has ID 0 and no controllers. In a container with its own view the path is
  // "/".
  for (std::string_view rest = *groups; !rest.empty();) {
    const std::string_view line = first_line(rest);
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const auto colon = line.find(':');
    const auto second = colon == std::string_view::npos ? colon : line.find(':', colon + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(colon + 1, second - colon - 1);
    std::string path(line.substr(second + 1));
    if (path == "/") path.clear();
    if (controllers.empty()) {
      take(smallest(root + "/sys/fs/cgroup", path, quota_v2));
    } else if (has_controller(controllers, "cpu")) {
      take(smallest(root + "/sys/fs/cgroup/cpu", path, quota_v1));
    }
  }
  return least;
}

int usable_cpus(const std::string& root) {
  const int cpus = mask_cpus();
  const auto quota = cpu_quota(root);
  if (!quota) return cpus;
  const double most = std::min(*quota, static_cast<double>(cpus));
  const int whole = static_cast<int>(most);
  return std::clamp(whole < most ? whole + 1 : whole, 1, cpus);  // rounded up, without libm
}

worker_env::InheritedMasks inherited_masks(const EnvironmentLookup& environment) {
  return {environment("CUDA_VISIBLE_DEVICES"), environment("HIP_VISIBLE_DEVICES"),
          environment("ROCR_VISIBLE_DEVICES")};
}

int usable_count(const std::vector<worker_env::Gpu>& gpus) {
  return static_cast<int>(
      std::count_if(gpus.begin(), gpus.end(), [](const worker_env::Gpu& gpu) { return gpu.usable; }));
}

int usable_gpus(const EnvironmentLookup& environment, const std::string& root) {
  const auto masks = inherited_masks(environment);
  auto visible = worker_env::visible_devices(masks, 0, {});
  if (visible && visible->masked) return static_cast<int>(visible->entries.size());
  return usable_count(worker_env::read_gpus(root));
}

}  // namespace cxxrun::cli
