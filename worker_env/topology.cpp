// SPDX-License-Identifier: Apache-2.0
#include "worker_env/topology.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string_view>

#include "base/limits.hpp"
#include "base/unique_fd.hpp"

namespace cxxrun::worker_env {
namespace {

constexpr std::size_t kFileBytesMax = 64u << 10;
constexpr std::size_t kNamesMax = 4'096;  ///< of one folder
constexpr int kCacheLevelsMax = 16;

/// The begin of a file; nothing where it cannot be read.
std::optional<std::string> read(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return std::nullopt;
  std::string out;
  char chunk[4096];
  for (ssize_t n = 0; out.size() < kFileBytesMax; out.append(chunk, static_cast<std::size_t>(n))) {
    n = ::read(file.get(), chunk, sizeof chunk);
    if (n < 0) return std::nullopt;
    if (n == 0) break;
  }
  return out;
}

template <class Number = int>
std::optional<Number> number_in(std::string_view text, int base = 10) {
  while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
  if (base == 16 && text.starts_with("0x")) text.remove_prefix(2);
  Number number = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  return ec == std::errc() ? std::optional(number) : std::nullopt;
}

std::optional<int> read_number(const std::string& path) {
  const auto text = read(path);
  return text ? number_in(*text) : std::nullopt;
}

std::optional<CpuSet> read_list(const std::string& path) {
  const auto text = read(path);
  return text ? parse_cpu_list(*text) : std::nullopt;
}

/// What stands behind `name` in its line.
std::string_view value_of(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    const auto end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (!line.starts_with(name)) continue;
    line.remove_prefix(name.size());
    const auto first = line.find_first_not_of(" \t");
    if (first == std::string_view::npos) return {};
    return line.substr(first, line.find_last_not_of(" \t") - first + 1);
  }
  return {};
}

std::vector<std::string> names_in(const std::string& folder) {
  struct Close {
    void operator()(DIR* dir) const { ::closedir(dir); }
  };
  std::vector<std::string> out;
  const std::unique_ptr<DIR, Close> dir(::opendir(folder.c_str()));
  if (!dir) return out;
  while (const dirent* entry = ::readdir(dir.get())) {  // NOLINT(concurrency-mt-unsafe)
    if (entry->d_name[0] != '.' && out.size() < kNamesMax) out.emplace_back(entry->d_name);
  }
  std::sort(out.begin(), out.end());
  return out;
}

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

int numa_node_of(const std::string& root, const std::string& bus_id) {
  return read_number(root + "/sys/bus/pci/devices/" + bus_id + "/numa_node").value_or(-1);
}

std::vector<NumaNode> read_nodes(const std::string& root, const CpuSet& cpus) {
  std::vector<NumaNode> out;
  const std::string folder = root + "/sys/devices/system/node";
  for (const int number : read_list(folder + "/online").value_or(CpuSet{})) {
    if (auto list = read_list(folder + "/node" + std::to_string(number) + "/cpulist"))
      out.push_back({number, std::move(*list)});
  }
  if (out.empty()) out.push_back({0, cpus});
  return out;
}

int read_core_complex(const std::string& cpu_folder) {
  int level = 0;
  int first = -1;
  for (int i = 0; i < kCacheLevelsMax; ++i) {
    const std::string cache = cpu_folder + "/cache/index" + std::to_string(i);
    const auto this_level = read_number(cache + "/level");
    if (!this_level) break;
    if (*this_level <= level || read(cache + "/type").value_or("").starts_with("Instruction")) continue;
    const auto sharers = read_list(cache + "/shared_cpu_list");
    if (!sharers || sharers->empty()) continue;
    level = *this_level;
    first = sharers->front();
  }
  return first;
}

Cpu read_cpu(const std::string& root, int number, Binding binding) {
  Cpu cpu;
  cpu.number = number;
  const std::string folder = root + "/sys/devices/system/cpu/cpu" + std::to_string(number);
  switch (binding) {
    case Binding::Node: break;
    case Binding::Socket:
      cpu.package = read_number(folder + "/topology/physical_package_id").value_or(-1);
      break;
    case Binding::Exclusive: {
      const auto siblings = read_list(folder + "/topology/thread_siblings_list");
      cpu.core = siblings && !siblings->empty() ? siblings->front() : number;
      break;
    }
    case Binding::CoreComplex: cpu.core_complex = read_core_complex(folder); break;
  }
  return cpu;
}

std::vector<Gpu> nvidia_by_driver(const std::string& root) {
  std::vector<Gpu> out;
  const std::string folder = root + "/proc/driver/nvidia/gpus";
  for (const auto& bus_id : names_in(folder)) {
    const std::string text = read(folder + "/" + bus_id + "/information").value_or("");
    Gpu gpu{bus_id, std::string(value_of(text, "GPU UUID:")), numa_node_of(root, bus_id), false};
    const auto minor = number_in(value_of(text, "Device Minor:"));
    gpu.usable = exists(root + "/dev/nvidia" + (minor ? std::to_string(*minor) : "ctl"));
    out.push_back(std::move(gpu));
  }
  return out;
}

/// The numbers of kfd's nodes, which are not all GPUs and no text order.
std::vector<int> kfd_nodes(const std::string& folder) {
  std::vector<int> out;
  for (const auto& name : names_in(folder)) {
    if (const auto number = number_in(name)) out.push_back(*number);
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<Gpu> amd_by_driver(const std::string& root) {
  std::vector<Gpu> out;
  const std::string folder = root + "/sys/class/kfd/kfd/topology/nodes";
  for (const int node : kfd_nodes(folder)) {
    const std::string text = read(folder + "/" + std::to_string(node) + "/properties").value_or("");
    const auto field = [&](const char* name) {
      return number_in<std::uint64_t>(value_of(text, name)).value_or(0);
    };
    if (field("simd_count ") == 0) continue;  // a CPU, or another container's
    const auto place = static_cast<unsigned>(field("location_id "));
    char bus_id[32];
    std::snprintf(bus_id, sizeof bus_id, "%04x:%02x:%02x.%x", static_cast<unsigned>(field("domain ")),
                  place >> 8 & 0xffu, place >> 3 & 0x1fu, place & 7u);
    char uuid[32];
    std::snprintf(uuid, sizeof uuid, "GPU-%016llx", static_cast<unsigned long long>(field("unique_id ")));
    const std::string device = "/dev/dri/renderD" + std::to_string(field("drm_render_minor "));
    out.push_back(
        {bus_id, uuid, numa_node_of(root, bus_id), exists(root + device) && exists(root + "/dev/kfd")});
  }
  return out;
}

std::vector<Gpu> nvidia_on_the_bus(const std::string& root) {
  constexpr int kVendor = 0x10de;
  constexpr int kDisplay = 0x0300;  // VGA
  constexpr int k3d = 0x0302;
  std::vector<Gpu> out;
  const std::string folder = root + "/sys/bus/pci/devices";
  for (const auto& bus_id : names_in(folder)) {
    const auto hex = [&](const char* file) {
      return number_in(read(folder + "/" + bus_id + file).value_or(""), 16).value_or(0);
    };
    if (hex("/vendor") != kVendor) continue;
    const int kind = hex("/class") >> 8;
    if (kind == kDisplay || kind == k3d) out.push_back({bus_id, {}, numa_node_of(root, bus_id), false});
  }
  return out;
}

}  // namespace

Topology read_topology(const CpuSet& cpus, Binding binding, const std::string& root) {
  Topology out;
  const auto online = read_list(root + "/sys/devices/system/cpu/online");
  const CpuSet running = online ? common(cpus, *online) : cpus;
  out.nodes = read_nodes(root, running);
  out.cpus.reserve(running.size());
  for (const int number : running) out.cpus.push_back(read_cpu(root, number, binding));
  return out;
}

std::vector<Gpu> read_gpus(const std::string& root) {
  auto out = nvidia_by_driver(root);
  if (out.empty()) out = amd_by_driver(root);
  if (out.empty()) out = nvidia_on_the_bus(root);
  return out;
}

CpuSet allowed_cpus() {
  constexpr int kWordBits = 8 * sizeof(unsigned long);
  std::vector<unsigned long> words(static_cast<std::size_t>(limits::kCpusMax / kWordBits));
  CpuSet out;
  const long bytes = ::syscall(SYS_sched_getaffinity, 0, words.size() * sizeof(unsigned long), words.data());
  for (int cpu = 0; cpu < 8 * bytes; ++cpu) {
    if ((words[static_cast<std::size_t>(cpu / kWordBits)] >> (cpu % kWordBits) & 1u) != 0) out.push_back(cpu);
  }
  return out;
}

}  // namespace cxxrun::worker_env
