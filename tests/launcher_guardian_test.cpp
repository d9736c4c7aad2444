// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <thread>

#include "launcher/guardian.hpp"
#include "support/launcher_run.hpp"

namespace cxxrun::launcher::test {
namespace {

const std::string kProgram = std::string(CXXRUN_FIXTURES) + "/launcher_guarded";

bool running(pid_t pid) {
  const auto process = read_process(pid);
  return process && process->state != 'Z';
}

template <class Done>
bool soon(Done done, Duration patience = kPatience) {
  const Time deadline = EventLoop::now() + patience;
  while (!done()) {
    if (EventLoop::now() >= deadline) return false;
    std::this_thread::sleep_for(1ms);  // there is no event for what another process does
  }
  return true;
}

/// Waits for the end of a process that need not be ours.
bool ends(pid_t pid) {
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd) return errno == ESRCH;
  pollfd end{pidfd.get(), POLLIN, 0};
  return ::poll(&end, 1, static_cast<int>(std::chrono::milliseconds(kPatience).count())) == 1;
}

/// A guardian in a process group of its own, its agent and its workers.
class Job {
 public:
  explicit Job(
      std::vector<std::string> scripts, const std::function<void()>& first = [] {}) {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // what escapes falls to us, and the test sees it
    pid_ = ::fork();
    if (pid_ == 0) {
      ::setpgid(0, 0);
      const int err = ::open(dir.file("stderr").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
      ::dup2(err, 2);
      ::close(err);
      first();
      const std::string at = dir.file("");
      std::vector<char*> argv = {const_cast<char*>(kProgram.c_str()), const_cast<char*>(at.c_str())};
      for (auto& script : scripts) argv.push_back(script.data());
      argv.push_back(nullptr);
      ::execv(kProgram.c_str(), argv.data());
      ::_exit(99);
    }
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  ~Job() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    sweep_descendants();
  }
  bool ready() {
    return soon([&] { return exists(dir.file("ready")); });
  }
  [[nodiscard]] pid_t guardian() const { return pid_; }
  [[nodiscard]] pid_t agent() const { return read_pid(dir.file("agent")); }
  [[nodiscard]] std::string signals() const { return read_text(dir.file("signals")); }
  /// The wait status; -1: it does not end.
  int wait() {
    int status = -1;
    if (ends(pid_) && ::waitpid(pid_, &status, 0) == pid_) pid_ = -1;
    return status;
  }

  TempDir dir;

 private:
  pid_t pid_ = -1;
};

TEST_CASE("guardian: ends as the agent ends", "[launcher]") {
  for (const int code : {0, 1, 7, 126, 127, 137, 255}) {
    Job job({"exit " + std::to_string(code)});
    const int status = job.wait();
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == code);
    CHECK(read_text(job.dir.file("stderr")).empty());
  }
  CHECK_FALSE(has_children());
}

TEST_CASE("guardian: a signal is passed on once, with its sender, and mirrored in the end", "[launcher]") {
  Job job({"exec sleep 1000", "exec sleep 1000"});
  REQUIRE(job.ready());
  REQUIRE(job.agent() != job.guardian());
  CHECK(read_process(job.agent())->session == job.agent());
  ::kill(job.guardian(), SIGTERM);
  const int status = job.wait();
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGTERM);
  CHECK(job.signals() == "SIGTERM " + std::to_string(::getpid()) + " 0\n");
  CHECK_FALSE(has_children());
}

TEST_CASE("guardian: a signal to the whole group comes once", "[launcher]") {
  Job job({"exec sleep 1000"});
  REQUIRE(job.ready());
  ::kill(-job.guardian(), SIGINT);
  const int status = job.wait();
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGINT);
  CHECK(job.signals() == "SIGINT " + std::to_string(::getpid()) + " 0\n");
}

TEST_CASE("guardian: ignored at our start stays ignored, in the workers too", "[launcher]") {
  Job job({"sleep 0.3; grep SigIgn /proc/self/status >&2; exit 5"}, [] {
    ::signal(SIGHUP, SIG_IGN);
    ::signal(SIGUSR2, SIG_IGN);
  });
  REQUIRE(job.ready());
  ::kill(job.guardian(), SIGHUP);
  ::kill(job.agent(), SIGHUP);
  const int status = job.wait();
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 5);
  CHECK(job.signals().empty());
  CHECK(read_text(job.dir.file("stderr")) == "SigIgn:\t0000000000000801\n");
}

/// Every way in which the pair is killed leaves nothing of the family.
TEST_CASE("guardian: killed by -9, nothing is left", "[launcher]") {
  // O: the outer guardian, I: the inner one, A: the agent; "o" stopped before, and so on.
  const std::string who = GENERATE(as<std::string>{}, "A", "O", "I", "group", "aO", "iO", "iaO", "aI", "oA",
                                   "OI", "IO", "OA", "AO", "IA", "AI");
  INFO(who);
  TempDir dir;
  const std::string d = dir.file("");
  Job job({"cd " + d +
           "; sleep 1000 & echo $! > a; setsid sh -c 'echo $$ > b; exec sleep 1000' & setsid env -i sh -c "
           "'(setsid sh -c \"echo \\$\\$ > c; exec sleep 1000\" &) &'\nwhile ! [ -s a -a -s b -a -s c ]; do "
           "sleep 0.01; done; "
           "echo $$ > family; exec sleep 1000"});
  REQUIRE(soon([&] { return read_pid(dir.file("family")) > 0; }));
  REQUIRE(job.ready());
  const std::vector<pid_t> pids = {job.agent(), read_pid(dir.file("family")), read_pid(dir.file("a")),
                                   read_pid(dir.file("b")), read_pid(dir.file("c"))};
  for (const pid_t pid : pids) REQUIRE(running(pid));
  const pid_t inner = read_process(pids[0])->parent;
  const bool outer_stopped = who.starts_with('o');
  if (who == "group") {
    ::kill(-job.guardian(), SIGKILL);
  } else {
    for (const char c : who) {
      const char upper = static_cast<char>(c & ~0x20);
      const pid_t pid = upper == 'O' ? job.guardian() : upper == 'I' ? inner : pids[0];
      ::kill(pid, c == upper ? SIGKILL : SIGSTOP);
      if (c != upper) REQUIRE(soon([&] { return read_process(pid)->state == 'T'; }));
    }
  }
  for (const pid_t pid : pids) CHECK(ends(pid));
  CHECK(ends(inner));
  if (outer_stopped) ::kill(job.guardian(), SIGCONT);
  const int status = job.wait();
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGKILL);
  if (who == "A") {
    // The worker itself dies by its parent-death signal at the same time: the count is 3 or 4.
    CHECK_THAT(read_text(job.dir.file("stderr")),
               Catch::Matches("cxxrun: the agent \\(pid " + std::to_string(pids[0]) +
                              "\\) was killed by SIGKILL; stopped [34] processes that it had started\n"));
  }
}

TEST_CASE("guardian: an agent that is stopped hears that it shall end", "[launcher]") {
  Job job({"exec sleep 1000"});
  REQUIRE(job.ready());
  ::kill(job.agent(), SIGSTOP);
  REQUIRE(soon([&] { return read_process(job.agent())->state == 'T'; }));
  ::kill(job.guardian(), SIGTERM);
  const int status = job.wait();
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGTERM);
  CHECK_FALSE(has_children());
}

TEST_CASE("guardian: an agent that does not end as asked is killed at the limit", "[launcher]") {
  TempDir dir;
  const std::string deaf = "trap '' TERM; echo x > " + dir.file("deaf") + "; while :; do sleep 1000; done";
  Job job({deaf}, [] { ::setenv("STOP_LIMIT_MS", "200", 1); });
  REQUIRE(job.ready());
  REQUIRE(soon([&] { return exists(dir.file("deaf")); }));
  const pid_t agent = job.agent();
  ::kill(job.guardian(), SIGTERM);
  const int status = job.wait();
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGKILL);
  CHECK_THAT(read_text(job.dir.file("stderr")),
             Catch::StartsWith("cxxrun: the agent (pid " + std::to_string(agent) +
                               ") does not end as it was asked to: SIGKILL\n"));
  CHECK_FALSE(has_children());
}

TEST_CASE("guardian: the signal of its death means nothing from anybody else", "[launcher]") {
  Job job({"exec sleep 1000"});
  REQUIRE(job.ready());
  const pid_t inner = read_process(job.agent())->parent;
  for (const pid_t pid : {job.guardian(), inner, job.agent()}) ::kill(pid, guardian_gone_signal());
  ::kill(job.guardian(), SIGTERM);
  const int status = job.wait();
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGTERM);
}

TEST_CASE("guardian: stopped and continued", "[launcher]") {
  Job job({"exec sleep 1000"});
  REQUIRE(job.ready());
  ::kill(job.guardian(), SIGTSTP);
  CHECK(soon([&] { return read_process(job.guardian())->state == 'T'; }));
  CHECK(read_process(job.agent())->state == 'T');
  const auto workers = children_of(job.agent());
  REQUIRE(workers.size() == 1);
  CHECK(soon([&] { return read_process(workers[0])->state == 'T'; }));
  ::kill(job.guardian(), SIGCONT);
  CHECK(soon([&] { return read_process(workers[0])->state != 'T'; }));
  CHECK(soon([&] { return job.signals().find("SIGCONT") != std::string::npos; }));
  ::kill(job.guardian(), SIGTERM);
  const int status = job.wait();
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGTERM);
}

TEST_CASE("guardian: children from before are left alone", "[launcher]") {
  TempDir dir;
  const std::string before = dir.file("before");
  Job job({"exit 0"}, [&] {
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::setsid();
      std::ofstream(before) << ::getpid();
      ::execl("/bin/sleep", "sleep", "1000", nullptr);
    }
    while (!exists(before)) ::usleep(1000);
  });
  CHECK(job.wait() == 0);
  const pid_t pid = read_pid(before);
  CHECK(running(pid));
}

TEST_CASE("guardian: as PID 1 it reaps strangers, passes signals on and ends with 128 + n", "[launcher]") {
  if (::geteuid() != 0) {
    WARN("skipped: a pid namespace needs root");
    return;
  }
  TempDir dir;
  const std::string at = dir.file("");
  const pid_t outer = ::fork();
  if (outer == 0) {
    if (::unshare(CLONE_NEWPID | CLONE_NEWNS) != 0) ::_exit(80);
    const pid_t first = ::fork();
    if (first == 0) {
      ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
      if (::mount("proc", "/proc", "proc", 0, nullptr) != 0) ::_exit(81);
      // A stranger: a child from before whose own child outlives it and ends as PID 1's.
      const pid_t parent = ::fork();
      if (parent == 0) {
        const std::string script = "(sleep 0.2; echo $$ > " + at + "orphan) & exit 0";
        ::execl("/bin/sh", "sh", "-c", script.c_str(), nullptr);
      }
      const std::string script = "while ! [ -e " + at +
                                 "orphan ]; do sleep 0.02; done; sleep 0.2; ps -eo stat,args > " + at +
                                 "ps; echo x > " + at + "seen; exec sleep 1000";
      ::execl(kProgram.c_str(), kProgram.c_str(), at.c_str(), script.c_str(), nullptr);
      ::_exit(82);
    }
    if (!soon([&] { return exists(at + "seen"); })) ::_exit(83);
    ::kill(first, SIGTERM);
    int status = 0;
    ::waitpid(first, &status, 0);
    ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 84);
  }
  int status = 0;
  REQUIRE(::waitpid(outer, &status, 0) == outer);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 128 + SIGTERM);
  const std::string listing = read_text(at + "ps");
  CHECK(listing.find("launcher_guarded") != std::string::npos);
  CHECK(listing.find("\nZ") == std::string::npos);
}

}  // namespace
}  // namespace cxxrun::launcher::test
