// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <csignal>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/event_loop.hpp"
#include "base/unique_fd.hpp"

namespace cxxrun::launcher {

/// Signal mask and dispositions of this process as the shell handed them to us, before we changed anything.
///
/// capture() reads them on its first call in a process and answers the same ever after (in forked children
/// too): it has to be the first thing that main does. Everything in this folder that changes the mask calls
/// it before.
struct OriginalSignals {
  std::uint64_t mask = 0;     ///< bit n-1: signal n was blocked
  std::uint64_t ignored = 0;  ///< bit n-1: signal n was ignored (nohup, a shell's background job)

  static const OriginalSignals& capture();
  [[nodiscard]] bool is_ignored(int signo) const { return ((ignored >> (signo - 1)) & 1u) != 0; }
};

/// All signals but those of a fault (SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS) and those
/// that were ignored at our start (SIGCHLD apart): left unblocked, the kernel goes on to drop them.
[[nodiscard]] sigset_t blockable_signals();

/// Blocks signals of the calling thread, and threads that it starts, until destruction.
class BlockedSignals {
 public:
  explicit BlockedSignals(const sigset_t& signals = blockable_signals());
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;
  ~BlockedSignals();

 private:
  sigset_t before_{};
};

/// One signal that reached us. Passed on by the guardian: `pid` and `code` are those of the first sender.
struct Received {
  int signo = 0;
  int code = 0;   ///< si_code: SI_USER from kill(2), SI_KERNEL from a terminal or as parent-death signal
  pid_t pid = 0;  ///< sender; 0: the kernel
};

/// Signals as events of a loop. Blocks them for the calling thread while it lives, so build it before other
/// threads; its destruction restores the mask. A signal that was ignored at our start is left ignored and
/// never delivered.
class SignalWatch {
 public:
  using OnSignal = std::function<void(const Received&)>;
  /// Throws std::system_error when there is no descriptor for it.
  SignalWatch(EventLoop& loop, const std::vector<int>& signals, OnSignal on_signal);
  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  void read_all();
  BlockedSignals blocked_;
  UniqueFd fd_;
  OnSignal on_signal_;
  EventLoop::Watch watch_;
};

/// Ends the process by signal `signo` as if it had never been handled: default disposition, unblocked, no
/// core file. As PID 1, where the kernel drops such a signal: exit code 128 + signo. Runs no destructors.
[[noreturn]] void die_by_signal(int signo);

}  // namespace cxxrun::launcher
