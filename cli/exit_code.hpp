// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string_view>

/// The codes of our own; docs/exit-codes.md is the same table for users, a test compares them.
/// Otherwise: 0, the root cause's own code, 128 + n for its signal, or the signal that stopped us.
namespace cxxrun::cli {

enum ExitCode : int {
  kOutputFailed = 1,
  kUsage = 2,
  kRendezvousFailed = 69,
  kInternal = 70,
  kStuckProcess = 71,
  kNodesMissing = 75,
  kMembershipLimit = 77,
  kNotExecutable = 126,
  kNotFound = 127,
};

struct ExitCodeRow {
  int code;
  std::string_view meaning;
};

inline constexpr std::array<ExitCodeRow, 9> kExitCodes{{
    {kOutputFailed, "--help or --version could not be written"},
    {kUsage, "wrong usage: nothing was started"},
    {kRendezvousFailed,
     "rendezvous failed: cannot resolve, refused, no answer within `join_timeout`; wrong run id, token, "
     "version or options; the port is taken by another program"},
    {kInternal, "internal error, or a limit of the system: open files, processes, memory"},
    {kStuckProcess, "a process here cannot be killed"},
    {kNodesMissing,
     "too few nodes at the rendezvous within the time limit (`join_timeout`, `rejoin_timeout`), at first or "
     "later; may be retried"},
    {kMembershipLimit, "limit of membership changes"},
    {kNotExecutable, "the program was found but cannot be executed"},
    {kNotFound, "the program was not found"},
}};

}  // namespace cxxrun::cli
