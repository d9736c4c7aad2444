// SPDX-License-Identifier: Apache-2.0
#include "base/exit_status.hpp"

#include <sys/wait.h>

#include <csignal>
#include <cstring>

namespace cxxrun {

ExitStatus exit_status_from_waitid(int code, int status) {
  if (code == CLD_EXITED) return Exited{status};
  return Signaled{status, code == CLD_DUMPED};
}

int shell_code(const ExitStatus& status) {
  if (const auto* exited = std::get_if<Exited>(&status)) return exited->code;
  return 128 + std::get<Signaled>(status).signo;
}

std::string text(const ExitStatus& status) {
  if (const auto* exited = std::get_if<Exited>(&status)) return "exit code " + std::to_string(exited->code);
  const auto& signaled = std::get<Signaled>(status);
  return "signal " + std::to_string(signaled.signo) + " (" + signal_name(signaled.signo) + ")" +
         (signaled.core ? ", core dumped" : "");
}

std::string signal_name(int signo) {
  if (signo >= SIGRTMIN && signo <= SIGRTMAX) {
    return signo == SIGRTMIN ? "SIGRTMIN" : "SIGRTMIN+" + std::to_string(signo - SIGRTMIN);
  }
  if (const char* name = ::sigabbrev_np(signo)) return std::string("SIG") + name;
  return "signal " + std::to_string(signo);
}

int signal_number(std::string_view name) {
  if (name.starts_with("SIG")) name.remove_prefix(3);
  if (name.empty()) return -1;
  for (int signo = 1; signo < SIGRTMIN; ++signo) {
    const char* known = ::sigabbrev_np(signo);
    if (known != nullptr && name == known) return signo;
    if (name == std::to_string(signo)) return signo;
  }
  return -1;
}

}  // namespace cxxrun
