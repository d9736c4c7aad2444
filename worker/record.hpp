// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cxxabi.h>

#include <functional>
#include <type_traits>
#include <utility>

namespace cxxrun::worker {

/// Writes the exception that is being handled as an error record (error_record.hpp): its class, its text, and
/// as details the exceptions nested in it, outermost first. `aloud`: also to stderr, as "DataError: no such
/// shard". Call it in a catch block; outside of one it does nothing.
void record_current_exception(bool aloud) noexcept;

/// Runs a program's real main and tells the launcher what it threw, so that every node's report names the
/// exception instead of an exit code:
///
///   int main() {
///     return cxxrun::worker::record([] { train(); });
///   }
///
/// Returns what `f` returns (0 where that is nothing), or 1 after an exception, which is then on stderr and
/// in the error record. Without a launcher only stderr.
template <class F>
int record(F&& f) {
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<F>>) {
      std::invoke(std::forward<F>(f));
      return 0;
    } else {
      return std::invoke(std::forward<F>(f));
    }
  } catch (abi::__forced_unwind&) {  // pthread_exit and cancellation are no failures, and must go on
    throw;
  } catch (...) {
    record_current_exception(true);
    return 1;
  }
}

/// The same around a part of a program: writes the record and throws the exception on.
template <class F>
std::invoke_result_t<F> record_and_rethrow(F&& f) {
  try {
    return std::invoke(std::forward<F>(f));
  } catch (abi::__forced_unwind&) {
    throw;
  } catch (...) {
    record_current_exception(false);
    throw;
  }
}

}  // namespace cxxrun::worker
