// SPDX-License-Identifier: Apache-2.0
#include "worker_env/cpu_set.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "base/limits.hpp"

namespace cxxrun::worker_env {
namespace {

/// Takes a CPU's number off the front.
std::optional<int> take_number(std::string_view& text) {
  int number = 0;
  if (text.empty() || text[0] < '0' || text[0] > '9') return std::nullopt;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (ec != std::errc() || number >= limits::kCpusMax) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

}  // namespace

std::optional<CpuSet> parse_cpu_list(std::string_view text) {
  while (text.ends_with('\n') || text.ends_with(' ')) text.remove_suffix(1);
  CpuSet out;
  if (text.empty()) return out;
  for (;;) {
    const auto first = take_number(text);
    if (!first) return std::nullopt;
    auto last = first;
    if (text.starts_with('-')) {
      text.remove_prefix(1);
      last = take_number(text);
      if (!last || *last < *first) return std::nullopt;
    }
    for (int cpu = *first; cpu <= *last; ++cpu) out.push_back(cpu);
    if (text.empty()) break;
    if (!text.starts_with(',') || out.size() > static_cast<std::size_t>(limits::kCpusMax))
      return std::nullopt;
    text.remove_prefix(1);
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

std::string cpu_list(const CpuSet& cpus) {
  std::string out;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t end = i + 1;
    while (end < cpus.size() && cpus[end] == cpus[end - 1] + 1) ++end;
    if (!out.empty()) out += ',';
    out += std::to_string(cpus[i]);
    if (end > i + 1) out += '-' + std::to_string(cpus[end - 1]);
    i = end;
  }
  return out;
}

CpuSet common(const CpuSet& a, const CpuSet& b) {
  CpuSet out;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(out));
  return out;
}

}  // namespace cxxrun::worker_env
