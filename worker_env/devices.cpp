// SPDX-License-Identifier: Apache-2.0
#include "worker_env/devices.hpp"

#include <algorithm>
#include <charconv>

namespace cxxrun::worker_env {
namespace {

constexpr std::string_view kCuda = "CUDA_VISIBLE_DEVICES";
constexpr std::string_view kHip = "HIP_VISIBLE_DEVICES";
constexpr std::string_view kRocr = "ROCR_VISIBLE_DEVICES";
constexpr int kIndexMax = 4'095;

std::optional<int> index_of(std::string_view text) {
  int number = 0;
  if (text.empty() || text[0] < '0' || text[0] > '9') return std::nullopt;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (ec != std::errc() || end != text.data() + text.size() || number > kIndexMax) return std::nullopt;
  return number;
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::string joined(const std::vector<std::string>& entries) {
  std::string out;
  for (const auto& entry : entries) out += (out.empty() ? "" : ",") + entry;
  return out;
}

std::vector<std::string> numbers(std::size_t count) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(std::to_string(i));
  return out;
}

bool is_set(const std::optional<std::string>& mask) { return mask && !mask->empty(); }

std::string assignment(std::string_view name, const std::string& value) {
  return std::string(name) + '=' + value;
}

VisibleDevices inherited(const InheritedMasks& masks, int usable) {
  if (is_set(masks.hip)) return {true, mask_entries(*masks.hip), assignment(kHip, *masks.hip)};
  if (masks.cuda) return {true, mask_entries(*masks.cuda), assignment(kCuda, *masks.cuda)};
  if (is_set(masks.rocr))
    return {true, numbers(mask_entries(*masks.rocr).size()), assignment(kRocr, *masks.rocr)};
  return {false, numbers(static_cast<std::size_t>(std::max(0, usable))), {}};
}

std::string count_of(std::size_t number, const char* what) {
  return std::to_string(number) + ' ' + what + (number == 1 ? "" : "s");
}

/// The GPUs that the upper masks count: those of this container, and what ROCR_VISIBLE_DEVICES leaves.
class Machine {
 public:
  Machine(const InheritedMasks& masks, const std::vector<Gpu>& gpus) {
    for (const Gpu& gpu : gpus) {
      if (gpu.usable) gpus_.push_back(gpu);
    }
    if (gpus_.empty()) gpus_ = gpus;
    if (!is_set(masks.rocr)) return;
    std::vector<Gpu> left;
    for (const auto& entry : mask_entries(*masks.rocr)) {
      if (const auto gpu = find(entry)) left.push_back(*gpu);
    }
    gpus_ = std::move(left);
  }

  [[nodiscard]] std::optional<Gpu> find(std::string_view entry) const {
    if (const auto index = index_of(entry)) {
      const auto at = static_cast<std::size_t>(*index);
      return at < gpus_.size() ? std::optional(gpus_[at]) : std::nullopt;
    }
    if (entry.starts_with("MIG-GPU-")) {  // MIG-GPU-<uuid>/<instance>/<instance>, until driver 470
      entry.remove_prefix(4);
      return by_uuid(entry.substr(0, entry.find('/')));
    }
    return entry.starts_with("MIG-") ? only_node() : by_uuid(entry);
  }
  [[nodiscard]] std::size_t count() const { return gpus_.size(); }

 private:
  /// CUDA takes the begin of a name where it names one GPU.
  [[nodiscard]] std::optional<Gpu> by_uuid(std::string_view begin) const {
    std::optional<Gpu> out;
    for (const Gpu& gpu : gpus_) {
      if (!gpu.uuid.starts_with(begin)) continue;
      if (out) return std::nullopt;
      out = gpu;
    }
    return out;
  }
  /// Which GPU a MIG device is part of only the driver's library tells; where all are at one node, it does
  /// not matter.
  [[nodiscard]] std::optional<Gpu> only_node() const {
    for (const Gpu& gpu : gpus_) {
      if (gpu.node != gpus_.front().node) return std::nullopt;
    }
    return gpus_.empty() ? std::nullopt : std::optional(gpus_.front());
  }

  std::vector<Gpu> gpus_;
};

}  // namespace

bool device_name(std::string_view text) {
  if (index_of(text)) return true;
  return (text.starts_with("GPU-") || text.starts_with("MIG-")) && text.size() > 4;
}

std::vector<std::string> mask_entries(std::string_view mask) {
  std::vector<std::string> out;
  for (;;) {
    const auto comma = mask.find(',');
    const std::string_view entry = trimmed(mask.substr(0, comma));
    if (!device_name(entry)) return out;
    out.emplace_back(entry);
    if (comma == std::string_view::npos) return out;
    mask.remove_prefix(comma + 1);
  }
}

Result<VisibleDevices> visible_devices(const InheritedMasks& masks, int usable,
                                       const std::vector<std::string>& chosen) {
  VisibleDevices out = inherited(masks, usable);
  if (chosen.empty()) return out;
  for (const auto& name : chosen) {
    const bool listed = std::find(out.entries.begin(), out.entries.end(), name) != out.entries.end();
    if (listed) continue;
    if (out.masked) return plain_error(name + " is not among the devices of " + out.source);
    if (usable > 0 && index_of(name))
      return plain_error("there is no GPU " + name + " here: " + count_of(out.entries.size(), "GPU") +
                         ", counted from 0");
  }
  return VisibleDevices{true, chosen, "--gpus " + joined(chosen)};
}

Result<std::vector<Variables>> mask_variables(const InheritedMasks& masks, const VisibleDevices& visible,
                                              bool chosen, bool one_each, int workers) {
  std::vector<Variables> out(static_cast<std::size_t>(workers));
  if (!chosen && !one_each) return out;
  const bool unknown = !visible.masked && visible.entries.empty();
  if (one_each && !unknown && visible.entries.size() < out.size()) {
    return plain_error("local rank " + std::to_string(visible.entries.size()) + " has no device: " +
                       (visible.source.empty() ? std::string("this machine") : visible.source) + " has " +
                       count_of(visible.entries.size(), "device") + " for " + count_of(out.size(), "worker"));
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::string value = joined(visible.entries);
    if (one_each) value = unknown ? std::to_string(i) : visible.entries[i];
    if (is_set(masks.hip)) out[i].emplace_back(kHip, value);
    out[i].emplace_back(kCuda, std::move(value));
  }
  return out;
}

Result<std::vector<Device>> locate(const InheritedMasks& masks, const VisibleDevices& visible,
                                   const std::vector<Gpu>& gpus) {
  const Machine machine(masks, gpus);
  std::vector<Device> out;
  for (const auto& entry : visible.entries) {
    const auto gpu = machine.find(entry);
    if (!gpu) {
      const std::string of = visible.source.empty() ? "" : " of " + visible.source;
      const bool mig = entry.starts_with("MIG-");
      return plain_error("device " + entry + of +
                         (mig ? " can be part of more than one GPU here, at different NUMA nodes"
                              : " is not among the " + count_of(machine.count(), "GPU") + " here"));
    }
    const std::string name = (index_of(entry) ? "GPU " : "") + entry + " (" + gpu->bus_id + ")";
    out.push_back({name, std::max(0, gpu->node), gpu->node < 0});
  }
  return out;
}

}  // namespace cxxrun::worker_env
