// SPDX-License-Identifier: Apache-2.0
#include "launcher/signals.hpp"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

namespace cxxrun::launcher {
namespace {

constexpr std::array kFaults = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS};

OriginalSignals read_signals() {
  OriginalSignals original;
  sigset_t mask;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  for (int signo = 1; signo <= SIGRTMAX; ++signo) {
    const std::uint64_t bit = std::uint64_t{1} << (signo - 1);
    if (::sigismember(&mask, signo) == 1) original.mask |= bit;
    struct sigaction action {};
    if (::sigaction(signo, nullptr, &action) == 0 && action.sa_handler == SIG_IGN) original.ignored |= bit;
  }
  return original;
}

sigset_t set_of(const std::vector<int>& signals) {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signo : signals) {
    if (signo == SIGCHLD || !OriginalSignals::capture().is_ignored(signo)) ::sigaddset(&set, signo);
  }
  return set;
}

}  // namespace

const OriginalSignals& OriginalSignals::capture() {
  static const OriginalSignals at_start = read_signals();
  return at_start;
}

sigset_t blockable_signals() {
  sigset_t set;
  ::sigfillset(&set);
  for (const int signo : kFaults) ::sigdelset(&set, signo);
  const OriginalSignals& original = OriginalSignals::capture();
  for (int signo = 1; signo <= SIGRTMAX; ++signo) {
    if (signo != SIGCHLD && original.is_ignored(signo)) ::sigdelset(&set, signo);
  }
  return set;
}

BlockedSignals::BlockedSignals(const sigset_t& signals) {
  OriginalSignals::capture();
  ::pthread_sigmask(SIG_BLOCK, &signals, &before_);
}
BlockedSignals::~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

SignalWatch::SignalWatch(EventLoop& loop, const std::vector<int>& signals, OnSignal on_signal)
    : blocked_(set_of(signals)), on_signal_(std::move(on_signal)) {
  const sigset_t set = set_of(signals);
  fd_ = UniqueFd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd_) throw std::system_error(errno, std::generic_category(), "watch signals");
  watch_ = loop.watch(fd_.get(), EPOLLIN, [this](std::uint32_t) { read_all(); });
}

void SignalWatch::read_all() {
  // One per event: the handler may destroy this object, and the watch is level-triggered.
  signalfd_siginfo info{};
  if (::read(fd_.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return;
  Received received{static_cast<int>(info.ssi_signo), info.ssi_code, static_cast<pid_t>(info.ssi_pid)};
  if (info.ssi_code == SI_QUEUE)
    received.code = info.ssi_int;  // the guardian puts the first sender's code there
  const OnSignal call = on_signal_;
  call(received);
}

void die_by_signal(int signo) {
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::prctl(PR_SET_DUMPABLE, 0);
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  ::sigaction(signo, &action, nullptr);
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, signo);
  ::kill(::getpid(), signo);
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  ::_exit(128 + signo);
}

}  // namespace cxxrun::launcher
