// SPDX-License-Identifier: Apache-2.0
#include "launcher/guardian.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <vector>

#include "base/exit_status.hpp"
#include "launcher/process_tree.hpp"
#include "launcher/signals.hpp"

// A sanitizer follows neither a second process in the same memory nor a stack that it does not know.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CXXRUN_SHARED_GUARDS 0
#else
#define CXXRUN_SHARED_GUARDS 1
#endif

namespace cxxrun::launcher {
namespace {

using std::chrono::steady_clock;

constexpr auto kSuspendWait = std::chrono::seconds(5);  ///< for the agent to stop its workers and itself
constexpr auto kImpatience = std::chrono::seconds(20);  ///< for the agent, after the second SIGINT
constexpr auto kOuterWaits = std::chrono::seconds(5);   ///< longer than the inner one, whose turn is first
constexpr auto kStopRace = std::chrono::seconds(1);  ///< a stop that is told so soon after was there before
constexpr auto kLastLook = std::chrono::seconds(1);  ///< for leftovers of an agent that has swept itself
constexpr std::size_t kAgentStackBytes = 1u << 20;
constexpr std::size_t kStackGuardBytes = 4096;
constexpr const char* kInnerName = "run-guard";  ///< another name: `pkill cxxrun` leaves it to clean up

/// What the inner guardian tells the outer one; in memory that both see.
struct Handover {
  bool told = false;    ///< the agent has ended and what it left is gone; how:
  int end_code = 0;     ///< si_code and
  int end_status = 0;   ///< si_status of its end
  int start_errno = 0;  ///< the agent could not be forked
};

void say(const char* text, int length, std::size_t size) {
  const auto bytes = std::min(static_cast<std::size_t>(std::max(length, 0)), size - 1);
  [[maybe_unused]] const auto rc = ::write(2, text, bytes);
}

bool is_crash(int code, int status) {
  return code != CLD_EXITED && (status == SIGKILL || status == SIGSEGV || status == SIGBUS ||
                                status == SIGABRT || status == SIGILL || status == SIGFPE);
}

/// A guardian's whole life. The two share their memory, so while both live neither may touch anything of the
/// C library that has a state (the heap, errno) but the inner one, and that only when the agent has ended.
class Guardian {
 public:
  Guardian(pid_t child, pid_t parent, const GuardOptions& options)
      : child_(child),
        parent_(parent),
        stop_limit_(options.stop_limit),
        more_stop_signals_(options.more_stop_signals) {}
  void run();  ///< until the child has ended
  [[nodiscard]] int end_code() const { return end_code_; }
  [[nodiscard]] int end_status() const { return end_status_; }

 private:
  void wait_and_take(const sigset_t& set);
  void take(const siginfo_t& info);
  void ask_to_end(const siginfo_t& info);
  void pass_on(const siginfo_t& info) const;
  void children_changed();
  void continue_child();
  void reap_strangers() const;
  void stop_ourselves();
  void time_is_up();

  pid_t child_;
  pid_t parent_;  ///< the outer guardian; 0: that is us
  Duration stop_limit_;
  std::uint64_t more_stop_signals_;
  bool pid_1_ = ::getpid() == 1;
  bool ended_ = false;
  int end_code_ = 0;  ///< si_code and si_status of the child's end
  int end_status_ = 0;
  bool child_stopped_ = false;
  bool interrupted_ = false;       ///< a SIGINT or SIGQUIT came
  Time asked_at_ = Time::min();    ///< the last time that it was asked to end
  Time stop_at_ = Time::max();     ///< asked to stop (SIGTSTP); when, whatever the child does
  Time give_up_at_ = Time::max();  ///< asked to end; when it is killed
};

void Guardian::run() {
  const sigset_t set = blockable_signals();
  while (!ended_) wait_and_take(set);
}

void Guardian::wait_and_take(const sigset_t& set) {
  siginfo_t info{};
  int signo = -1;
  const Time until = std::min(stop_at_, give_up_at_);
  if (until == Time::max()) {
    signo = ::sigwaitinfo(&set, &info);
  } else {
    const Duration left = std::max<Duration>(until - steady_clock::now(), Duration::zero());
    const timespec limit{static_cast<time_t>(left.count() / 1'000'000'000),
                         static_cast<long>(left.count() % 1'000'000'000)};
    signo = ::sigtimedwait(&set, &info, &limit);
  }
  if (parent_ != 0 && ::getppid() != parent_) {
    // The outer guardian was killed: whoever did it wants all of this gone.
    sweep_descendants();
    die_by_signal(SIGKILL);
  }
  if (signo > 0) {
    take(info);
  } else if (steady_clock::now() >= until) {
    time_is_up();
  }
}

void Guardian::take(const siginfo_t& info) {
  if (((more_stop_signals_ >> (info.si_signo - 1)) & 1u) != 0) return ask_to_end(info);
  switch (info.si_signo) {
    case SIGCHLD: return children_changed();
    case SIGTTIN:
    case SIGTTOU: return;  // we neither read nor set the terminal
    case SIGTERM:
    case SIGHUP:
    case SIGINT:
    case SIGQUIT: return ask_to_end(info);
    case SIGTSTP: stop_at_ = steady_clock::now() + kSuspendWait; return pass_on(info);
    case SIGCONT: stop_at_ = Time::max(); return pass_on(info);
    default: return pass_on(info);
  }
}

void Guardian::ask_to_end(const siginfo_t& info) {
  children_changed();  // has it been stopped before?
  if (ended_) return;
  const Duration more = parent_ == 0 ? kOuterWaits : Duration::zero();
  const bool by_person = info.si_signo == SIGINT || info.si_signo == SIGQUIT;
  asked_at_ = steady_clock::now();
  if (give_up_at_ == Time::max()) give_up_at_ = asked_at_ + stop_limit_ + more;
  if (by_person && interrupted_) give_up_at_ = std::min<Time>(give_up_at_, asked_at_ + kImpatience + more);
  if (by_person) interrupted_ = true;
  pass_on(info);
  if (child_stopped_) continue_child();  // it would not hear us
}

void Guardian::pass_on(const siginfo_t& info) const {
  siginfo_t passed{};
  passed.si_signo = info.si_signo;
  passed.si_code = SI_QUEUE;  // the only kind whose sender one may name
  passed.si_pid = info.si_code == SI_KERNEL ? 0 : info.si_pid;
  passed.si_uid = info.si_uid;
  passed.si_value.sival_int = info.si_code == SI_QUEUE ? info.si_value.sival_int : info.si_code;
  if (::syscall(SYS_rt_sigqueueinfo, child_, info.si_signo, &passed) != 0) ::kill(child_, info.si_signo);
}

void Guardian::children_changed() {
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(child_), &info, WEXITED | WSTOPPED | WCONTINUED | WNOHANG) == 0 &&
         info.si_pid == child_) {
    if (info.si_code == CLD_STOPPED) {
      child_stopped_ = true;
      if (stop_at_ != Time::max()) {
        stop_ourselves();
      } else if (asked_at_ != Time::min() && steady_clock::now() - asked_at_ < kStopRace) {
        continue_child();
      }
    } else if (info.si_code == CLD_CONTINUED) {
      child_stopped_ = false;
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

void Guardian::continue_child() {
  child_stopped_ = false;
  ::kill(child_, SIGCONT);
}

/// As PID 1 every orphan of the namespace falls to us. Looks before it reaps, so the child's end is never
/// taken unseen.
void Guardian::reap_strangers() const {
  for (;;) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0 ||
        info.si_pid == child_)
      return;
    ::waitid(P_PID, static_cast<id_t>(info.si_pid), &info, WEXITED | WNOHANG);
  }
}

void Guardian::stop_ourselves() {
  stop_at_ = Time::max();
  ::kill(::getpid(), SIGSTOP);  // returns after SIGCONT, which then waits to be passed on
}

void Guardian::time_is_up() {
  const Time now = steady_clock::now();
  if (now >= stop_at_) stop_ourselves();
  if (now < give_up_at_) return;
  give_up_at_ = Time::max();
  char line[120];
  const int n = std::snprintf(
      line, sizeof line, "cxxrun: the agent (pid %d) does not end as it was asked to: SIGKILL\n", child_);
  say(line, n, sizeof line);
  ::kill(child_, SIGKILL);
}

void say_killed(const char* who, pid_t pid, int signo, int swept) {
  char line[200];
  const int n = std::snprintf(
      line, sizeof line, "cxxrun: %s (pid %d) was killed by %s; stopped %d process%s that it had started\n",
      who, pid, signal_name(signo).c_str(), swept, swept == 1 ? "" : "es");
  say(line, n, sizeof line);
}

void say_stuck(const std::vector<pid_t>& stuck) {
  for (const pid_t pid : stuck) {
    char line[120];
    const int n = std::snprintf(line, sizeof line,
                                "cxxrun: process %d does not end, not even by SIGKILL; left behind\n", pid);
    say(line, n, sizeof line);
  }
}

/// What the two guardians are started with. Lies in the outer one's frame.
struct Start {
  const GuardOptions& options;
  const std::function<void()>& agent;
  Handover& handover;
  pid_t outer = 0;
  int outer_lives_read = -1;  ///< a pipe whose other end only the outer guardian holds
  int outer_lives_write = -1;
};

pid_t the_guardian = 0;  ///< of the agent

/// The agent's first steps: a session of its own, and bound to its guardian's life.
void become_agent(pid_t guardian) {
  ::setsid();
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::prctl(PR_SET_PDEATHSIG, guardian_gone_signal());
  the_guardian = guardian;
  if (guardian_is_gone()) ::_exit(128 + SIGKILL);  // before the line above; nothing was started yet
}

/// Bound to the outer guardian's life: the parent-death signal says that it is gone, and the end of the pipe
/// wakes us up if we are stopped, when that signal would wait for ever.
void become_inner(const Start& start) {
  ::setsid();
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::close(start.outer_lives_write);
  ::fcntl(start.outer_lives_read, F_SETOWN, ::getpid());
  ::fcntl(start.outer_lives_read, F_SETSIG, SIGCONT);
  ::fcntl(start.outer_lives_read, F_SETFL, O_ASYNC);
  ::prctl(PR_SET_PDEATHSIG, guardian_gone_signal());
  if (::getppid() != start.outer) ::_exit(128 + SIGKILL);
}

int inner_life(void* argument) {
  const Start& start = *static_cast<Start*>(argument);
  become_inner(start);
  const pid_t inner = ::getpid();
  const pid_t agent = ::fork();
  if (agent == 0) {
    ::close(start.outer_lives_read);
    become_agent(inner);
    start.agent();
    ::_exit(128 + SIGABRT);  // it does not return
  }
  if (agent < 0) {
    start.handover.start_errno = errno;
    ::_exit(1);
  }
  ::prctl(PR_SET_NAME, kInnerName);
  Guardian guardian(agent, start.outer, start.options);
  guardian.run();
  const bool crash = is_crash(guardian.end_code(), guardian.end_status());
  SweepOptions options;
  if (!crash) options.limit = kLastLook;
  const Swept swept = sweep_descendants(options);
  if (crash) {
    say_killed("the agent", agent, guardian.end_status(), swept.killed);
    say_stuck(swept.stuck);
  }
  start.handover.end_code = guardian.end_code();
  start.handover.end_status = guardian.end_status();
  start.handover.told = true;
  ::_exit(0);
}

/// The inner guardian costs little where it shares our memory: nothing is copied for it, and it copies
/// nothing.
pid_t start_inner(Start& start) {
#if CXXRUN_SHARED_GUARDS
  void* const stack = ::mmap(nullptr, kStackGuardBytes + kAgentStackBytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
  if (stack == MAP_FAILED) return -1;
  ::mprotect(stack, kStackGuardBytes, PROT_NONE);
  char* const top = static_cast<char*>(stack) + kStackGuardBytes + kAgentStackBytes;
  return ::clone(inner_life, top, CLONE_VM | SIGCHLD, &start);
#else
  const pid_t pid = ::fork();
  if (pid == 0) inner_life(&start);
  return pid;
#endif
}

/// The outer guardian's end: as the agent's.
[[noreturn]] void finish(const Guardian& guardian, pid_t inner, const Handover& handover,
                         std::vector<pid_t> not_ours) {
  // Nothing that we started can be in our own session: the inner guardian left it before it started anything.
  SweepOptions options;
  options.keep = std::move(not_ours);
  if (::getpid() != 1) options.keep_session = ::getsid(0);
  if (handover.told) options.limit = kLastLook;  // it has swept; what is still there does not end
  const Swept swept = sweep_descendants(options);
  const int code = handover.told ? handover.end_code : guardian.end_code();
  const int status = handover.told ? handover.end_status : guardian.end_status();
  if (!handover.told) {
    say_killed("the guard of the agent", inner, status, swept.killed);
    say_stuck(swept.stuck);
  }
  if (code == CLD_EXITED) ::_exit(status);
  die_by_signal(status);
}

/// Memory that stays common to us and a forked child, too.
Handover* shared_handover() {
  void* const page =
      ::mmap(nullptr, sizeof(Handover), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return page == MAP_FAILED ? nullptr : new (page) Handover;
}

}  // namespace

int guardian_gone_signal() { return SIGRTMIN; }
bool guardian_is_gone() { return ::getppid() != the_guardian; }

void reserve_standard_descriptors() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    // The lowest free number is this one: those below are open.
    if (::open("/dev/null", (fd == 0 ? O_RDONLY : O_WRONLY) | O_CLOEXEC) < 0) return;
  }
}

Error guard(const GuardOptions& options, const std::function<void()>& agent) {
  OriginalSignals::capture();
  reserve_standard_descriptors();
  const sigset_t set = blockable_signals();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  if (OriginalSignals::capture().is_ignored(SIGCHLD))
    ::signal(SIGCHLD, SIG_DFL);  // ignored, ends are not told
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  std::vector<pid_t> not_ours;
  if (has_children()) not_ours = children_of(::getpid());
  Handover* const handover = shared_handover();
  if (handover == nullptr) return errno_error(errno, "start the agent");
  int lives[2];
  if (::pipe2(lives, O_CLOEXEC) != 0) return errno_error(errno, "start the agent");
  Start start{options, agent, *handover, ::getpid(), lives[0], lives[1]};
  const pid_t inner = start_inner(start);
  if (inner < 0) return errno_error(errno, "start the agent");
  ::close(lives[0]);
  Guardian guardian(inner, 0, options);
  guardian.run();
  if (handover->start_errno != 0) return errno_error(handover->start_errno, "start the agent");
  finish(guardian, inner, *handover, std::move(not_ours));
}

}  // namespace cxxrun::launcher
