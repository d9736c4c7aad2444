// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <variant>

namespace cxxrun {

/// The process ended by itself. `code`: 0..255.
struct Exited {
  int code = 0;
  bool operator==(const Exited&) const = default;
};

/// The process was ended by a signal. `core`: a core file was written.
struct Signaled {
  int signo = 0;
  bool core = false;
  bool operator==(const Signaled&) const = default;
};

/// How a process ended. The two kinds never merge: `exit 137` is not SIGKILL.
using ExitStatus = std::variant<Exited, Signaled>;

/// From the si_code and si_status of waitid(2).
[[nodiscard]] ExitStatus exit_status_from_waitid(int code, int status);

/// The code a shell would report: the exit code, or 128 + signal number.
[[nodiscard]] int shell_code(const ExitStatus& status);

/// "exit code 7", "signal 9 (SIGKILL)", "signal 11 (SIGSEGV), core dumped".
[[nodiscard]] std::string text(const ExitStatus& status);

[[nodiscard]] inline bool succeeded(const ExitStatus& status) { return status == ExitStatus{Exited{0}}; }

/// "SIGTERM" for 15, "SIGRTMIN+1", "signal 200" where there is no name.
[[nodiscard]] std::string signal_name(int signo);

/// 15 for "SIGTERM", "TERM", "15"; -1 for no such signal.
[[nodiscard]] int signal_number(std::string_view name);

}  // namespace cxxrun
