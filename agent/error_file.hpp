// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace cxxrun::agent {

/// What a worker wrote about its own failure (torchrun's error file; the `record` decorator writes it).
struct ErrorFile {
  std::string message;                               ///< "ValueError: bad batch"
  std::string traceback;                             ///< may be empty
  std::optional<std::chrono::milliseconds> written;  ///< since the epoch, the worker's wall clock
};

/// Reads both forms: `message` as an object {message, extraInfo{py_callstack, timestamp}} and as a text.
/// Nothing when `json` is not such a file: a half-written error file never hides the failure itself.
std::optional<ErrorFile> parse_error_file(std::string_view json);

/// The file at `path`, at most kErrorFileBytesMax. Nothing when it is missing, empty, too long or not valid.
std::optional<ErrorFile> read_error_file(const std::string& path);

}  // namespace cxxrun::agent
