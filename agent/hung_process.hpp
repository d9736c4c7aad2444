// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

/// What can be seen from outside of a process that hangs, and how to make it say more.
namespace cxxrun::agent {

/// Where its threads are: "threads: python3 S futex_wait_queue, pt_gloo S ep_poll and 12 more": name, state
/// (as ps has it) and the kernel function that it waits in, where the kernel tells. Empty: it has gone.
/// `root` replaces "/" in tests.
[[nodiscard]] std::string threads_text(pid_t pid, const std::string& root = "");

/// The signal that makes it dump its stacks before it ends, as far as we can know: SIGQUIT where it has a
/// handler for it (Java, Go, a debugger's own), else SIGABRT where it has one (Python's faulthandler, glog),
/// else SIGQUIT, which ends it with a core file where those are wanted.
[[nodiscard]] int dump_signal(pid_t pid, const std::string& root = "");

/// The same for the text of /proc/PID/status. Pure.
[[nodiscard]] int dump_signal_of(std::string_view status);

}  // namespace cxxrun::agent
