// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "base/result.hpp"
#include "base/time.hpp"

namespace cxxrun::launcher {

struct GuardOptions {
  /// How long the agent may take to end after SIGTERM, SIGINT, SIGHUP or SIGQUIT, its workers' grace
  /// included; then it is SIGKILLed, with a line that says so. After a second SIGINT or SIGQUIT: kImpatience,
  /// if sooner.
  Duration stop_limit = std::chrono::minutes(10);
  /// More signals than those four that ask the agent to end (bit n-1: signal n): treated as SIGTERM.
  std::uint64_t more_stop_signals = 0;
};

/// Splits this process in three: the caller's pid stays as *outer guardian*, its child is the *inner
/// guardian*, whose child is the *agent*, in which `agent` runs; it must not return.
///
/// The agent is leader of a session of its own (so a signal to the guardians' process groups does not reach
/// it, Ctrl-C neither), a child subreaper, has every blockable signal blocked (blockable_signals(); open a
/// SignalWatch for those you want), and gets guardian_gone_signal() when the inner guardian dies: if
/// guardian_is_gone() then, it must call sweep_descendants() and _exit at once. Its stack is
/// kAgentStackBytes.
///
/// The guardians do nothing but wait. Each passes on to its child, once each, every signal that is sent to it
/// (SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGWINCH, ...; not those ignored at our start); a child that
/// is stopped when it is asked to end is continued. SIGTSTP: passed on; when the child has then stopped
/// itself (raise(SIGSTOP)), or kSuspendWait later, the guardian stops too; SIGCONT is passed on. When the
/// child has ended, however it ended, a guardian SIGKILLs and reaps everything that it left; the outer one
/// then ends as the agent did: same exit code, same signal (exit code 128 + n as PID 1). As PID 1 it reaps
/// strangers. The inner one does the same when the outer one has died, also if it was stopped. So whichever
/// one or two of the three are killed or stopped, nothing that the agent started is left (docs/adr/0002).
///
/// Call it with one thread, nothing half written in stdio, and no child of our own (children that existed
/// before are never touched). Returns only if it fails: errno of the step; then no process was started and
/// nothing has changed but the signal mask.
[[nodiscard]] Error guard(const GuardOptions& options, const std::function<void()>& agent);

/// SIGRTMIN. Reaches the agent when its guardian is gone, and when somebody sends it.
[[nodiscard]] int guardian_gone_signal();

/// In the agent: its guardian has died.
[[nodiscard]] bool guardian_is_gone();

/// Standard descriptors that are closed are opened on the null device, close-on-exec, so that no descriptor
/// of ours gets a number below 3 (and workers still find them closed). guard() calls it.
void reserve_standard_descriptors();

}  // namespace cxxrun::launcher
