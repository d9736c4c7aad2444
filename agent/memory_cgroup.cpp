// SPDX-License-Identifier: Apache-2.0
#include "agent/memory_cgroup.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>

#include "agent/files.hpp"
#include "base/text.hpp"

namespace cxxrun::agent {
namespace {

constexpr std::uint64_t kNoLimit = 1ull << 60;  // v1 says "none" as a very large number

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc{} || end == text.data()) return std::nullopt;
  return out;
}

/// The number behind `key` and a blank, at the start of a line.
std::optional<std::uint64_t> value_of(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.size() > key.size() && line.starts_with(key) && line[key.size()] == ' ')
      return number(line.substr(key.size() + 1));
  }
  return std::nullopt;
}

/// "full avg10=12.34 ...": 1234.
int pressure_of(std::string_view text) {
  const auto full = text.find("full avg10=");
  if (full == std::string_view::npos) return 0;
  text.remove_prefix(full + 11);
  const auto dot = text.find('.');
  const auto whole = number(text);
  if (!whole || dot == std::string_view::npos) return 0;
  const auto part = number(text.substr(dot + 1, 2));
  return static_cast<int>(std::min<std::uint64_t>(*whole, 100) * 100 +
                          std::min<std::uint64_t>(part.value_or(0), 99));
}

bool is_folder(const std::string& path) {
  struct stat facts {};
  return ::stat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode);
}

bool has_memory(std::string_view controllers) {
  return ("," + std::string(controllers) + ",").find(",memory,") != std::string::npos;
}

}  // namespace

std::optional<MemoryCgroup> MemoryCgroup::find(const std::string& root) {
  const auto groups = read_small_file(root + "/proc/self/cgroup");
  if (!groups) return std::nullopt;
  std::optional<MemoryCgroup> unified;
  // Lines "ID:CONTROLLERS:PATH"; the unified hierarchy has ID 0 and no controllers.
  for (std::string_view rest = *groups; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const auto colon = line.find(':');
    const auto second = colon == std::string_view::npos ? colon : line.find(':', colon + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(colon + 1, second - colon - 1);
    const bool v2 = controllers.empty();
    if (!v2 && !has_memory(controllers)) continue;
    const std::string name(line.substr(second + 1));
    const std::string mount = root + (v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory");
    std::string path = name == "/" ? "" : name;
    // A container without a view of its own has the host's path, and its own group as the mount.
    if (!is_folder(mount + path)) path.clear();
    MemoryCgroup found(mount, path, name, v2);
    if (!found.counts()) continue;
    if (!v2) return found;
    unified = std::move(found);
  }
  return unified;
}

std::string MemoryCgroup::file(std::string_view which) const {
  return mount_ + path_ + "/" + std::string(which);
}

std::optional<MemoryCounts> MemoryCgroup::counts() const {
  const auto text = read_small_file(file(v2_ ? "memory.events" : "memory.oom_control"));
  if (!text) return std::nullopt;
  const auto kills = value_of(*text, "oom_kill");
  if (!kills) return std::nullopt;
  return MemoryCounts{*kills, value_of(*text, "oom_group_kill").value_or(0)};
}

std::uint64_t MemoryCgroup::limit() const {
  std::uint64_t least = kNoLimit;
  for (std::string path = path_;;) {
    if (const auto text = read_small_file(mount_ + path + (v2_ ? "/memory.max" : "/memory.limit_in_bytes")))
      least = std::min(least, number(*text).value_or(kNoLimit));  // "max"
    const auto slash = path.rfind('/');
    if (slash == std::string::npos) break;
    path.resize(slash);
  }
  return least >= kNoLimit ? 0 : least;
}

MemoryLoad MemoryCgroup::load(std::uint64_t limit) const {
  MemoryLoad out;
  if (const auto text = read_small_file(file(v2_ ? "memory.current" : "memory.usage_in_bytes")))
    out.used = number(*text).value_or(0);
  if (limit == 0 || out.used < limit - limit / 10) return out;
  // Files that were read once fill any limit, and are no reason to die.
  if (const auto text = read_small_file(file("memory.stat"))) {
    const auto cached = value_of(*text, v2_ ? "inactive_file" : "total_inactive_file").value_or(0);
    out.used -= std::min(out.used, cached);
  }
  if (v2_) {
    if (const auto text = read_small_file(file("memory.pressure"))) out.pressure = pressure_of(*text);
  }
  return out;
}

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits{"bytes", "KiB", "MiB", "GiB", "TiB"};
  auto amount = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (amount >= 1024 && unit + 1 < kUnits.size()) {
    amount /= 1024;
    ++unit;
  }
  const bool whole = amount == static_cast<double>(static_cast<std::uint64_t>(amount));
  char text[48];
  std::snprintf(text, sizeof text, whole ? "%.0f %s" : "%.1f %s", amount, kUnits[unit]);
  return text;
}

std::string memory_evidence(const std::string& group, const MemoryCounts& before, const MemoryCounts& after,
                            std::uint64_t limit, bool exact, bool killed) {
  const auto more = [](std::uint64_t was, std::uint64_t is) { return is > was ? is - was : 0; };
  const std::uint64_t kills =
      std::max(more(before.kills, after.kills), more(before.group_kills, after.group_kills));
  if (kills == 0) return {};
  std::string out = !killed ? "" : exact ? "out of memory: " : "perhaps out of memory: ";
  out += "the cgroup " + cleaned(group) + " counted " + std::to_string(kills) + " out-of-memory kill" +
         (kills == 1 ? "" : "s") + (exact ? " in that moment" : " since the workers started");
  out +=
      limit != 0 ? ", limit " + bytes_text(limit) : ", without a limit of its own: the machine had no more";
  if (!killed) out += "; perhaps a helper process of this worker";
  return out;
}

}  // namespace cxxrun::agent
