// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "base/exit_status.hpp"

namespace cxxrun::agent {

/// What a worker wrote about its own failure (torchrun's error file; the `record` decorator writes it).
struct ErrorFile {
  std::string message;                               ///< "ValueError: bad batch"
  std::string traceback;                             ///< may be empty
  std::optional<std::chrono::milliseconds> written;  ///< since the epoch, the worker's wall clock
  std::string raw;                                   ///< the file as it was, at most kErrorFileBytesMax
};

/// Reads both forms: `message` as an object {message, extraInfo{py_callstack, timestamp}} and as a text.
/// Nothing when `json` is not such a file: a half-written error file never hides the failure itself.
std::optional<ErrorFile> parse_error_file(std::string_view json);

/// The file at `path`, at most kErrorFileBytesMax. Nothing when it is missing, empty, too long or not valid.
std::optional<ErrorFile> read_error_file(const std::string& path);

/// The copy for whoever started us: `raw` with `message.errorCode` (torchrun's: the exit code, or minus the
/// signal's number) added where `message` is an object and the code is not 0; else `raw` as it is.
std::string error_file_copy(std::string_view raw, const ExitStatus& status);

/// The same file made from what is known of a failure on another node, or of our own.
std::string error_file_text(std::string_view message, std::string_view traceback,
                            std::chrono::milliseconds wall, const ExitStatus& status);

}  // namespace cxxrun::agent
