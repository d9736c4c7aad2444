// SPDX-License-Identifier: Apache-2.0
#include "launcher/guardian.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <vector>

#include "base/exit_status.hpp"
#include "base/time.hpp"
#include "launcher/process_tree.hpp"
#include "launcher/signals.hpp"

namespace cxxrun::launcher {
namespace {

constexpr auto kSuspendWait = std::chrono::seconds(5);  ///< for the agent to stop its workers and itself

/// The parent's whole life after the fork. Touches as little memory as it can: what it writes is no longer
/// shared.
class Guardian {
 public:
  Guardian(pid_t agent, std::vector<pid_t> not_ours) : agent_(agent), not_ours_(std::move(not_ours)) {}
  [[noreturn]] void run();

 private:
  void take(const siginfo_t& info);
  void pass_on(const siginfo_t& info) const;
  void children_changed();
  void reap_strangers() const;
  void stop_ourselves();
  [[noreturn]] void finish();

  pid_t agent_;
  std::vector<pid_t> not_ours_;  ///< children from before the fork
  bool pid_1_ = ::getpid() == 1;
  bool ended_ = false;
  int end_code_ = 0;  ///< si_code and si_status of the agent's end
  int end_status_ = 0;
  Time stop_at_ = Time::max();  ///< asked to stop (SIGTSTP); when, whatever the agent does
};

void Guardian::run() {
  const sigset_t set = blockable_signals();
  while (!ended_) {
    siginfo_t info{};
    int signo = -1;
    if (stop_at_ == Time::max()) {
      signo = ::sigwaitinfo(&set, &info);
    } else {
      const Duration left = std::max<Duration>(stop_at_ - std::chrono::steady_clock::now(), Duration::zero());
      const timespec limit{static_cast<time_t>(left.count() / 1'000'000'000),
                           static_cast<long>(left.count() % 1'000'000'000)};
      signo = ::sigtimedwait(&set, &info, &limit);
      if (signo < 0 && errno == EAGAIN) stop_ourselves();
    }
    if (signo > 0) take(info);
  }
  finish();
}

void Guardian::take(const siginfo_t& info) {
  switch (info.si_signo) {
    case SIGCHLD: return children_changed();
    case SIGTTIN:
    case SIGTTOU: return;  // we neither read nor set the terminal
    case SIGTSTP: stop_at_ = std::chrono::steady_clock::now() + kSuspendWait; return pass_on(info);
    case SIGCONT: stop_at_ = Time::max(); return pass_on(info);
    default: return pass_on(info);
  }
}

void Guardian::pass_on(const siginfo_t& info) const {
  siginfo_t passed{};
  passed.si_signo = info.si_signo;
  passed.si_code = SI_QUEUE;  // the only kind whose sender one may name
  passed.si_pid = info.si_code == SI_KERNEL ? 0 : info.si_pid;
  passed.si_uid = info.si_uid;
  passed.si_value.sival_int = info.si_code;
  if (::syscall(SYS_rt_sigqueueinfo, agent_, info.si_signo, &passed) != 0) ::kill(agent_, info.si_signo);
}

void Guardian::children_changed() {
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(agent_), &info, WEXITED | WSTOPPED | WNOHANG) == 0 &&
         info.si_pid == agent_) {
    if (info.si_code == CLD_STOPPED) {
      if (stop_at_ != Time::max()) stop_ourselves();
    } else {
      ended_ = true;
      end_code_ = info.si_code;
      end_status_ = info.si_status;
      return;
    }
    info.si_pid = 0;
  }
  if (pid_1_) reap_strangers();
}

/// As PID 1 every orphan of the namespace falls to us. Looks before it reaps, so the agent's end is never
/// taken unseen.
void Guardian::reap_strangers() const {
  for (;;) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0 ||
        info.si_pid == agent_)
      return;
    ::waitid(P_PID, static_cast<id_t>(info.si_pid), &info, WEXITED | WNOHANG);
  }
}

void Guardian::stop_ourselves() {
  stop_at_ = Time::max();
  ::kill(::getpid(), SIGSTOP);  // returns after SIGCONT, which then waits to be passed on
}

void Guardian::finish() {
  // Nothing that we started can be in our own session: the agent left it before it started anything.
  SweepOptions options;
  options.keep = not_ours_;
  if (!pid_1_) options.keep_session = ::getsid(0);
  const Swept swept = sweep_descendants(options);
  const bool exited = end_code_ == CLD_EXITED;
  const bool crashed =
      !exited && (end_status_ == SIGKILL || end_status_ == SIGSEGV || end_status_ == SIGBUS ||
                  end_status_ == SIGABRT || end_status_ == SIGILL || end_status_ == SIGFPE);
  char line[200];
  if (crashed) {
    const int n = std::snprintf(
        line, sizeof line,
        "cxxrun: the agent (pid %d) was killed by %s; stopped %d process%s that it had started\n", agent_,
        signal_name(end_status_).c_str(), swept.killed, swept.killed == 1 ? "" : "es");
    [[maybe_unused]] const auto rc = ::write(2, line, static_cast<std::size_t>(n));
  }
  for (const pid_t pid : swept.stuck) {
    const int n = std::snprintf(line, sizeof line,
                                "cxxrun: process %d does not end, not even by SIGKILL; left behind\n", pid);
    [[maybe_unused]] const auto rc = ::write(2, line, static_cast<std::size_t>(n));
  }
  if (exited) ::_exit(end_status_);
  die_by_signal(end_status_);
}

/// The child's first steps: a session of its own, and bound to the guardian's life.
void become_agent(pid_t guardian) {
  ::setsid();
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::prctl(PR_SET_PDEATHSIG, guardian_gone_signal());
  if (::getppid() != guardian)
    ::_exit(128 + SIGKILL);  // it died before the line above; nothing was started yet
}

}  // namespace

int guardian_gone_signal() { return SIGRTMIN; }

void reserve_standard_descriptors() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    // The lowest free number is this one: those below are open.
    if (::open("/dev/null", (fd == 0 ? O_RDONLY : O_WRONLY) | O_CLOEXEC) < 0) return;
  }
}

Result<pid_t> guard() {
  OriginalSignals::capture();
  reserve_standard_descriptors();
  const sigset_t set = blockable_signals();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  if (OriginalSignals::capture().is_ignored(SIGCHLD))
    ::signal(SIGCHLD, SIG_DFL);  // ignored, ends are not told
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  std::vector<pid_t> not_ours;
  if (has_children()) not_ours = children_of(::getpid());
  const pid_t guardian = ::getpid();
  const pid_t agent = ::fork();
  if (agent < 0) return errno_error(errno, "fork of the agent");
  if (agent == 0) {
    become_agent(guardian);
    return guardian;
  }
  Guardian(agent, std::move(not_ours)).run();
}

}  // namespace cxxrun::launcher
