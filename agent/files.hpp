// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace cxxrun::agent {

/// A new file in the place of an old one: readers see the old text or the new one, never a part. A `path`
/// that is there and is no regular file (a pipe, /dev/stdout) is written as it is. Errors: the system's.
Result<> replace_file(const std::string& path, std::string_view text);

/// Kubernetes' termination log and its like: written only where the file is there already and may be written.
/// True when it was. Never waits for a reader.
bool write_where_it_is(const std::string& path, std::string_view text);

/// A file of the kernel's: at most 16 KiB of it. Nothing: it cannot be read. Never waits.
std::optional<std::string> read_small_file(const std::string& path);

}  // namespace cxxrun::agent
