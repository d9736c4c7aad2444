// SPDX-License-Identifier: Apache-2.0
#include "launcher/spawner.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <system_error>

#include "base/limits.hpp"
#include "launcher/program.hpp"
#include "launcher/resources.hpp"
#include "launcher/signals.hpp"

// The child runs in our memory on a stack that no sanitizer knows.
#if defined(__SANITIZE_THREAD__)
#define CXXRUN_CHILD_CODE __attribute__((no_sanitize("thread"), noinline))
#else
#define CXXRUN_CHILD_CODE __attribute__((no_sanitize("address", "undefined"), noinline))
#endif

#if defined(__SANITIZE_THREAD__)
// The sanitizer's own clone() takes our child, which shares our memory, for a fork, and from then on ignores
// what the parent's threads do to order their accesses. This name of the C library's function is not
// intercepted.
extern "C" int __clone(int (*function)(void*), void* stack, int flags, void* argument,
                       ...) noexcept;  // NOLINT
#define CXXRUN_CLONE ::__clone
#else
#define CXXRUN_CLONE ::clone
#endif

namespace cxxrun::launcher {
namespace {

constexpr std::size_t kStackBytes = 64u << 10;
constexpr std::size_t kGuardBytes = 4096;
constexpr std::size_t kKernelSignals = 64;

enum class Step { None, Session, DeathSignal, Parent, Cpus, Descriptors, Limit, Signals, Exec };

/// The kernel's own struct sigaction: the C library's wrapper must not run in the child (its sanitizer
/// version least of all).
struct KernelAction {
  void (*handler)(int) = SIG_DFL;
  unsigned long flags = 0;
  void (*restorer)() = nullptr;
  std::uint64_t mask = 0;
};

/// Everything that the child needs, made before it exists; and what it tells back.
struct ChildPlan {
  const char* program = nullptr;
  char* const* argv = nullptr;
  char* const* env = nullptr;
  pid_t parent = 0;
  const unsigned long* cpus = nullptr;  ///< a bit for each; as many words as needed
  std::size_t cpus_bytes = 0;
  const FdMap* fds = nullptr;
  std::size_t fds_count = 0;
  const rlimit* descriptor_limit = nullptr;  ///< to be restored
  std::uint64_t signals_to_default = 0;
  std::uint64_t signals_to_ignore = 0;
  std::uint64_t signal_mask = 0;
  Step failed_step = Step::None;  ///< written by the child
  int failed_errno = 0;           ///< written by the child
};

CXXRUN_CHILD_CODE int fail(ChildPlan* plan, Step step, int error) {
  plan->failed_errno = error;
  plan->failed_step = step;
  ::syscall(SYS_exit_group, 127);
  return 127;
}

CXXRUN_CHILD_CODE bool restore_signals(const ChildPlan* plan) {
  for (std::size_t i = 0; i < kKernelSignals; ++i) {
    const bool to_default = ((plan->signals_to_default >> i) & 1u) != 0;
    const bool to_ignore = ((plan->signals_to_ignore >> i) & 1u) != 0;
    if (!to_default && !to_ignore) continue;
    KernelAction action{};
    if (to_ignore) action.handler = SIG_IGN;
    if (::syscall(SYS_rt_sigaction, i + 1, &action, nullptr, sizeof action.mask) != 0) return false;
  }
  return ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &plan->signal_mask, nullptr, sizeof plan->signal_mask) ==
         0;
}

/// Runs between clone and exec. System calls only: our memory is the parent's, and it waits.
CXXRUN_CHILD_CODE int run_child(void* argument) {
  auto* plan = static_cast<ChildPlan*>(argument);
  if (::syscall(SYS_setsid) < 0) return fail(plan, Step::Session, errno);
  if (::syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0)
    return fail(plan, Step::DeathSignal, errno);
  // The parent may have died before the line above: then nobody would ever send that signal.
  if (::syscall(SYS_getppid) != plan->parent) return fail(plan, Step::Parent, ESRCH);
  if (plan->cpus != nullptr && ::syscall(SYS_sched_setaffinity, 0, plan->cpus_bytes, plan->cpus) < 0)
    return fail(plan, Step::Cpus, errno);
  for (std::size_t i = 0; i < plan->fds_count; ++i) {
    const FdMap& map = plan->fds[i];
    const long rc = map.from == map.to ? ::syscall(SYS_fcntl, map.to, F_SETFD, 0)
                                       : ::syscall(SYS_dup3, map.from, map.to, 0);
    if (rc < 0) return fail(plan, Step::Descriptors, errno);
  }
  if (plan->descriptor_limit != nullptr &&
      ::syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, plan->descriptor_limit, nullptr) != 0) {
    return fail(plan, Step::Limit, errno);
  }
  if (!restore_signals(plan)) return fail(plan, Step::Signals, errno);
  ::syscall(SYS_execve, plan->program, plan->argv, plan->env);
  return fail(plan, Step::Exec, errno);
}

/// The steps that make the child's descriptors, such that none overwrites the source of a later one.
class DescriptorPlan {
 public:
  Result<> prepare(const SpawnSpec& spec, const StandardFds& standard) {
    if (standard.in >= 0) steps_.push_back({standard.in, 0});
    if (standard.out >= 0) steps_.push_back({standard.out, 1});
    if (standard.err >= 0) steps_.push_back({standard.err, 2});
    steps_.insert(steps_.end(), spec.fds.begin(), spec.fds.end());
    int highest = 2;
    for (const FdMap& step : steps_) highest = std::max({highest, step.from, step.to});
    for (FdMap& step : steps_) {
      if (step.from == step.to || !is_target(step.from)) continue;
      UniqueFd moved(::fcntl(step.from, F_DUPFD_CLOEXEC, highest + 1));
      if (!moved) return errno_error(errno, "descriptor " + std::to_string(step.from));
      step.from = moved.get();
      moved_.push_back(std::move(moved));
    }
    return kOk;
  }
  [[nodiscard]] const std::vector<FdMap>& steps() const { return steps_; }

 private:
  [[nodiscard]] bool is_target(int fd) const {
    return std::any_of(steps_.begin(), steps_.end(), [fd](const FdMap& step) { return step.to == fd; });
  }
  std::vector<FdMap> steps_;
  std::vector<UniqueFd> moved_;
};

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> out;
  out.reserve(strings.size() + 1);
  for (const std::string& text : strings) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

/// As sched_setaffinity(2) has it; a cpu_set_t ends at 1,024.
std::vector<unsigned long> cpu_words(const std::vector<int>& cpus) {
  constexpr std::size_t kWordBits = 8 * sizeof(unsigned long);
  std::vector<unsigned long> out;
  for (const int cpu : cpus) {
    assert(cpu >= 0 && cpu < limits::kCpusMax);
    const auto bit = static_cast<std::size_t>(cpu);
    if (out.size() <= bit / kWordBits) out.resize(bit / kWordBits + 1);
    out[bit / kWordBits] |= 1ul << (bit % kWordBits);
  }
  return out;
}

std::string describe(Step step, const SpawnSpec& spec) {
  switch (step) {
    case Step::None: return "nothing";
    case Step::Session: return "new session";
    case Step::DeathSignal: return "parent-death signal";
    case Step::Parent: return "the agent has ended";
    case Step::Cpus: return "CPU set";
    case Step::Descriptors: return "descriptors";
    case Step::Limit: return "limit of open files";
    case Step::Signals: return "signal mask";
    case Step::Exec: return "exec " + spec.program;
  }
  return {};
}

/// All signals, those of the C library too: no handler of ours may run in the child.
class AllBlocked {
 public:
  AllBlocked() { ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &kAll, &before_, sizeof before_); }
  AllBlocked(const AllBlocked&) = delete;
  AllBlocked& operator=(const AllBlocked&) = delete;
  ~AllBlocked() { ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before_, nullptr, sizeof before_); }

 private:
  static constexpr std::uint64_t kAll = ~std::uint64_t{0};
  std::uint64_t before_ = 0;
};

}  // namespace

CloneSpawner::CloneSpawner() {
  const OriginalSignals& original = OriginalSignals::capture();
  for (int signo = 1; signo <= SIGRTMAX; ++signo) {
    struct sigaction action {};
    if (signo == SIGKILL || signo == SIGSTOP || ::sigaction(signo, nullptr, &action) != 0) continue;
    const std::uint64_t bit = std::uint64_t{1} << (signo - 1);
    const bool ignored = action.sa_handler == SIG_IGN;  // a handler's address is neither of the two
    if (original.is_ignored(signo) && !ignored) signals_to_ignore_ |= bit;
    if (!original.is_ignored(signo) && action.sa_handler != SIG_DFL) signals_to_default_ |= bit;
  }
  stack_ = ::mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (stack_ == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "memory for a stack");
  ::mprotect(stack_, kGuardBytes, PROT_NONE);
}

CloneSpawner::~CloneSpawner() { ::munmap(stack_, kGuardBytes + kStackBytes); }

Result<Spawned> CloneSpawner::spawn(const SpawnSpec& spec, const StandardFds& standard) {
  DescriptorPlan descriptors;
  if (auto ready = descriptors.prepare(spec, standard); !ready) return std::move(ready).error();
  const auto argv = pointers(spec.argv);
  const auto env = pointers(spec.env);
  const auto cpus = cpu_words(spec.cpus);

  ChildPlan plan;
  plan.program = spec.program.c_str();
  plan.argv = argv.data();
  plan.env = env.data();
  plan.parent = ::getpid();
  plan.cpus = cpus.empty() ? nullptr : cpus.data();
  plan.cpus_bytes = cpus.size() * sizeof cpus[0];
  plan.fds = descriptors.steps().data();
  plan.fds_count = descriptors.steps().size();
  if (const auto& limit = original_descriptor_limit()) plan.descriptor_limit = &*limit;
  plan.signals_to_default = signals_to_default_;
  plan.signals_to_ignore = signals_to_ignore_;
  plan.signal_mask = OriginalSignals::capture().mask;

  int pidfd = -1;
  pid_t pid = -1;
  int clone_errno = 0;
  {
    const AllBlocked no_handlers;
    char* const top = static_cast<char*>(stack_) + kGuardBytes + kStackBytes;
    pid = CXXRUN_CLONE(run_child, top, CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, &plan, &pidfd);
    clone_errno = errno;
  }
  if (pid < 0) return errno_error(clone_errno, "start a process");
  UniqueFd owned(pidfd);
  if (plan.failed_step != Step::None) {
    siginfo_t info{};
    ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED);
    if (plan.failed_step == Step::Exec) return exec_error(plan.failed_errno, spec.program);
    return errno_error(plan.failed_errno, describe(plan.failed_step, spec));
  }
  return Spawned{pid, std::move(owned)};
}

}  // namespace cxxrun::launcher
