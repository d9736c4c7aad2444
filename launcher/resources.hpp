// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/resource.h>

#include <optional>
#include <string>
#include <system_error>

#include "base/result.hpp"

namespace cxxrun::launcher {

/// What to do about an error that a limit caused: "; raise the limit of open files (`ulimit -n`, 100 now)"
/// and the like for processes and memory; empty for any other error.
[[nodiscard]] std::string limit_hint(const std::error_code& code);

/// Raises this process's soft limit of open files to the hard one, once; workers get the former back
/// (spawner).
void raise_descriptor_limit();

/// The limit that raise_descriptor_limit() found, where it changed it.
[[nodiscard]] const std::optional<rlimit>& original_descriptor_limit();

/// Are there descriptors enough for so many workers and ourselves? Looks closely only where the limit is low.
/// Errors: EMFILE, with how many are needed.
[[nodiscard]] Result<> check_descriptors(int workers);

}  // namespace cxxrun::launcher
