// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace cxxrun::worker {

/// Tells the launcher why this worker is about to fail, in the file that it named (TORCHELASTIC_ERROR_FILE,
/// the format of torchrun). The report on every node then shows this sentence instead of an exit code alone.
///
/// Only for failures of one's own. A worker whose peer has gone away writes none: the peer is the cause.
/// `kind`: as an exception's class name, "SnapshotError". `details`: what a traceback would say; may be
/// empty. Too long texts are cut; bytes that are no UTF-8 are replaced. Does nothing without the variable.
/// Errors: the file cannot be written. The file is there as a whole or not at all.
Result<> write_error_record(std::string_view kind, std::string_view message, std::string_view details = "");

/// The record as text. `seconds`: since the epoch.
[[nodiscard]] std::string error_record_json(std::string_view kind, std::string_view message,
                                            std::string_view details, long long seconds);

}  // namespace cxxrun::worker
