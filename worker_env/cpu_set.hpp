// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cxxrun::worker_env {

/// CPU numbers, ascending, each once.
using CpuSet = std::vector<int>;

/// The kernel's lists: "0-3,8,10-11", with or without a line end; the empty text is the empty set. Nothing
/// for anything else, and where a number reaches limits::kCpusMax.
[[nodiscard]] std::optional<CpuSet> parse_cpu_list(std::string_view text);

/// "0-3,8,10-11"; empty for the empty set.
[[nodiscard]] std::string cpu_list(const CpuSet& cpus);

[[nodiscard]] CpuSet common(const CpuSet& a, const CpuSet& b);

}  // namespace cxxrun::worker_env
