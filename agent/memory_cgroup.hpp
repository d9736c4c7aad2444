// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// What the kernel says about the memory of our control group (which is the workers' too): the only evidence
/// that a SIGKILL was for want of memory.
namespace cxxrun::agent {

/// One reading.
struct MemoryCounts {
  std::uint64_t kills = 0;        ///< processes of the group ended for want of memory, since it exists
  std::uint64_t group_kills = 0;  ///< times the whole group was (memory.oom.group=1)
  bool operator==(const MemoryCounts&) const = default;
};

/// How much the group uses.
struct MemoryLoad {
  std::uint64_t used = 0;  ///< bytes; near the limit without those that can simply be given back
  /// Share of the last ten seconds in which every process waited for memory, in 1/100 percent; 0: also where
  /// the kernel does not tell.
  int pressure = 0;
};

/// The group's files. Making one finds the folder (two small reads); each further call is one small read or
/// two, and never throws: what cannot be read counts as nothing known.
class MemoryCgroup {
 public:
  /// `root` replaces "/" in tests. Nothing where the memory of this process is not accounted.
  static std::optional<MemoryCgroup> find(const std::string& root = "");

  [[nodiscard]] const std::string& name() const {
    return name_;
  }  ///< "/kubepods/pod7/abc", as the kernel has it
  [[nodiscard]] std::optional<MemoryCounts> counts() const;
  /// One small read; near `limit` two more: what of it is cached files, and how hard it is to get more.
  [[nodiscard]] MemoryLoad load(std::uint64_t limit) const;
  [[nodiscard]] std::uint64_t limit() const;  ///< bytes; 0: none

 private:
  MemoryCgroup(std::string mount, std::string path, std::string name, bool v2)
      : mount_(std::move(mount)), path_(std::move(path)), name_(std::move(name)), v2_(v2) {}
  [[nodiscard]] std::string file(std::string_view which) const;
  std::string mount_;
  std::string path_;  ///< below `mount_`; empty: the mount itself
  std::string name_;
  bool v2_;
};

/// The sentence for the report, or empty where there is no evidence. `exact`: `before` was read a moment ago,
/// else when the workers started. `killed`: the worker itself was ended by SIGKILL.
[[nodiscard]] std::string memory_evidence(const std::string& group, const MemoryCounts& before,
                                          const MemoryCounts& after, std::uint64_t limit, bool exact,
                                          bool killed);

/// "512 MiB", "1.5 GiB", "300 bytes".
[[nodiscard]] std::string bytes_text(std::uint64_t bytes);

}  // namespace cxxrun::agent
