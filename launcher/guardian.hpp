// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include "base/result.hpp"

namespace cxxrun::launcher {

/// Splits this process in two: the caller's pid stays as *guardian*, its child becomes the *agent*.
///
/// Returns only in the agent, with the guardian's pid. The agent then is leader of a session of its own (so a
/// signal to the guardian's process group does not reach it, Ctrl-C neither), a child subreaper, has every
/// blockable signal blocked (blockable_signals(); open a SignalWatch for those you want), and gets
/// guardian_gone_signal() when the guardian dies: then it must call sweep_descendants() and _exit at once.
///
/// The guardian does nothing but wait: it passes on to the agent, once each, every signal that is sent to it
/// (SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGWINCH, ...; not those ignored at our start). SIGTSTP:
/// passed on; when the agent has then stopped itself (raise(SIGSTOP)), or kSuspendWait later, the guardian
/// stops too; SIGCONT is passed on. When the agent has ended, however it ended, the guardian SIGKILLs and
/// reaps everything that it left and ends the same way: same exit code, same signal (exit code 128 + n as PID
/// 1). As PID 1 it reaps strangers.
///
/// Call it with one thread, nothing half written in stdio, and no child of our own (children that existed
/// before are never touched). Errors: errno of fork; then nothing has changed but the signal mask.
Result<pid_t> guard();

/// SIGRTMIN. Reaches the agent when its guardian is gone.
[[nodiscard]] int guardian_gone_signal();

/// Standard descriptors that are closed are opened on the null device, close-on-exec, so that no descriptor
/// of ours gets a number below 3 (and workers still find them closed). guard() calls it.
void reserve_standard_descriptors();

}  // namespace cxxrun::launcher
