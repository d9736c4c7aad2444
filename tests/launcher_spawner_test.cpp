// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <sstream>

#include "base/limits.hpp"
#include "launcher/resources.hpp"
#include "launcher/signals.hpp"
#include "launcher/spawner.hpp"
#include "support/launcher_run.hpp"

namespace cxxrun::launcher::test {
namespace {

int wait_for(pid_t pid) {
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

int spawn_and_wait(const SpawnSpec& spec, const StandardFds& standard = {}) {
  CloneSpawner spawner;
  auto spawned = spawner.spawn(spec, standard);
  REQUIRE(spawned.ok());
  return wait_for(spawned->pid);
}

/// The lines of /proc/PID/status that describe what is inherited.
std::string inherited(const std::string& status) {
  std::istringstream lines(status);
  std::string out;
  for (std::string line; std::getline(lines, line);) {
    for (const char* name : {"Umask:", "Uid:", "Gid:", "Groups:", "SigPnd:", "SigBlk:", "SigIgn:", "SigCgt:",
                             "Cap", "NoNewPrivs:", "Cpus_allowed:", "Seccomp:"}) {
      if (line.starts_with(name)) out += line + "\n";
    }
  }
  return out;
}

std::string what_it_sees(const std::string& into) {
  return "cat /proc/self/status > " + into + ".status; cat /proc/self/limits > " + into +
         ".limits; ls /proc/self/fd > " + into + ".fd; cat /proc/self/oom_score_adj > " + into +
         ".oom; nice > " + into + ".nice; pwd > " + into + ".cwd; umask > " + into + ".umask";
}

TEST_CASE("spawner: a worker sees what a plain exec would", "[launcher]") {
  TempDir dir;
  // In a child with unusual settings; first a plain fork and exec, then ours, after blocking and handling
  // signals.
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::umask(0137);
    (void)!::nice(3);
    (void)!::chdir("/usr");
    const rlimit files{333, 444};
    ::setrlimit(RLIMIT_NOFILE, &files);
    const rlimit core{0, 0};
    ::setrlimit(RLIMIT_CORE, &core);
    std::ofstream("/proc/self/oom_score_adj") << 77;
    const int kept = ::open("/dev/null", O_RDONLY);  // "given to us": not close-on-exec
    ::dup2(kept, 50);
    ::close(kept);
    const SpawnSpec plain = shell(what_it_sees(dir.file("plain")));
    if (::fork() == 0) ::execl("/bin/sh", "sh", "-c", plain.argv[2].c_str(), nullptr);
    ::wait(nullptr);

    const int ours = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    const BlockedSignals blocked;
    ::signal(SIGPIPE, SIG_IGN);
    ::signal(SIGUSR1, [](int) {});
    CloneSpawner spawner;
    auto spawned = spawner.spawn(shell(what_it_sees(dir.file("ours"))), {});
    if (!spawned || ours < 0) ::_exit(1);
    ::_exit(wait_for(spawned->pid));
  }
  REQUIRE(wait_for(pid) == 0);
  for (const char* what : {"limits", "fd", "oom", "nice", "cwd", "umask"}) {
    INFO(what);
    const std::string plain = read_text(dir.file(std::string("plain.") + what));
    CHECK_FALSE(plain.empty());
    CHECK(read_text(dir.file(std::string("ours.") + what)) == plain);
  }
  CHECK(read_text(dir.file("plain.oom")) == "77\n");
  CHECK_THAT(read_text(dir.file("plain.fd")), Catch::Contains("50\n"));
  CHECK(inherited(read_text(dir.file("ours.status"))) == inherited(read_text(dir.file("plain.status"))));
}

TEST_CASE("spawner: a session of its own, the parent's death, CPUs", "[launcher]") {
  TempDir dir;
  SpawnSpec spec = shell("ps -o sid= -p $$ > " + dir.file("sid") + "; echo $$ > " + dir.file("pid") +
                         "; grep Cpus_allowed_list /proc/self/status > " + dir.file("cpus"));
  cpu_set_t ours;
  REQUIRE(::sched_getaffinity(0, sizeof ours, &ours) == 0);
  int last = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(static_cast<std::size_t>(cpu), &ours)) last = cpu;
  }
  spec.cpus = {last};
  CHECK(spawn_and_wait(spec) == 0);
  CHECK(read_pid(dir.file("sid")) == read_pid(dir.file("pid")));
  CHECK(read_text(dir.file("cpus")) == "Cpus_allowed_list:\t" + std::to_string(last) + "\n");
}

/// A temporary file with one letter in it.
UniqueFd letter(char text) {
  char path[] = "/tmp/cxxrun-letter-XXXXXX";
  UniqueFd fd(::mkostemp(path, O_CLOEXEC));
  ::unlink(path);
  REQUIRE(::write(fd.get(), &text, 1) == 1);
  ::lseek(fd.get(), 0, SEEK_SET);
  return fd;
}

TEST_CASE("spawner: descriptors get their numbers whatever ours are", "[launcher]") {
  const UniqueFd a = letter('a');
  const UniqueFd b = letter('b');
  const UniqueFd c = letter('c');
  TempDir dir;
  // Swapped, and one that stays where it is: each source is another's target.
  SpawnSpec spec = shell("");
  spec.argv[2] = "(head -c1 <&" + std::to_string(a.get()) + "; head -c1 <&" + std::to_string(b.get()) +
                 "; head -c1 <&" + std::to_string(c.get()) + ") > " + dir.file("got");
  spec.fds = {{a.get(), b.get()}, {b.get(), a.get()}, {c.get(), c.get()}};
  CHECK(spawn_and_wait(spec) == 0);
  CHECK(read_text(dir.file("got")) == "bac");
}

TEST_CASE("spawner: standard descriptors", "[launcher]") {
  TempDir dir;
  const UniqueFd in = letter('i');
  const UniqueFd out(::open(dir.file("out").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const UniqueFd err(::open(dir.file("err").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  std::string script = "cat; echo e >&2";
  for (const int ours : {in.get(), out.get(), err.get()}) {
    script += "; ! [ -e /proc/self/fd/" + std::to_string(ours) + " ] || echo leaked " + std::to_string(ours);
  }
  CHECK(spawn_and_wait(shell(script), {in.get(), out.get(), err.get()}) == 0);
  CHECK(read_text(dir.file("err")) == "e\n");
  CHECK(read_text(dir.file("out")) == "i");
}

TEST_CASE("spawner: what cannot start says why and leaves no process", "[launcher]") {
  TempDir dir;
  const auto before = open_descriptors();
  {
    CloneSpawner spawner;
    SpawnSpec missing = shell("");
    missing.program = dir.file("nothing");
    auto got = spawner.spawn(missing, {});
    REQUIRE_FALSE(got.ok());
    CHECK(got.error().code == std::errc::no_such_file_or_directory);

    SpawnSpec directory = shell("");
    directory.program = "/tmp";
    got = spawner.spawn(directory, {});
    REQUIRE_FALSE(got.ok());
    CHECK(got.error().message == "exec /tmp: Permission denied");

    SpawnSpec bad_fd = shell("");
    bad_fd.fds = {{777, 778}};
    got = spawner.spawn(bad_fd, {});
    REQUIRE_FALSE(got.ok());
    CHECK(got.error().code == std::errc::bad_file_descriptor);

    SpawnSpec no_cpu = shell("");
    no_cpu.cpus = {limits::kCpusMax - 1};
    got = spawner.spawn(no_cpu, {});
    REQUIRE_FALSE(got.ok());
    CHECK(got.error().message == "CPU set: Invalid argument");
  }
  CHECK_FALSE(has_children());
  CHECK(open_descriptors() == before);
}

TEST_CASE("resources: few descriptors, and what an error of a limit means", "[launcher]") {
  TempDir dir;
  const pid_t pid = ::fork();
  if (pid == 0) {
    const rlimit before{100, 200};
    ::setrlimit(RLIMIT_NOFILE, &before);
    raise_descriptor_limit();
    rlimit now{};
    ::getrlimit(RLIMIT_NOFILE, &now);
    if (now.rlim_cur != 200 || !check_descriptors(4)) ::_exit(1);
    const auto many = check_descriptors(60);
    if (many || many.error().code.value() != EMFILE) ::_exit(2);
    if (many.error().message.find("raise the limit of open files (`ulimit -n`, 200 now)") ==
        std::string::npos)
      ::_exit(3);
    ::_exit(spawn_and_wait(shell("[ $(ulimit -Sn) = 100 ] && [ $(ulimit -Hn) = 200 ]")));
  }
  CHECK(wait_for(pid) == 0);
  const auto hint = [](int error) { return limit_hint(std::error_code(error, std::generic_category())); };
  CHECK_THAT(hint(EAGAIN), Catch::Contains("ulimit -u") && Catch::Contains("pids.max"));
  CHECK_THAT(hint(ENOMEM), Catch::Contains("memory"));
  CHECK(hint(ENOENT).empty());
}

TEST_CASE("spawner: a worker dies with us, however early", "[launcher]") {
  TempDir dir;
  for (int i = 0; i < 20; ++i) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      CloneSpawner spawner;
      auto spawned = spawner.spawn(shell("exec sleep 1000"), {});
      std::ofstream(dir.file("pid")) << spawned->pid << std::flush;
      ::kill(::getpid(), SIGKILL);
    }
    CHECK(wait_for(pid) == 256 + SIGKILL);
    const pid_t worker = read_pid(dir.file("pid"));
    const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, worker, 0)));
    pollfd end{pidfd.get(), POLLIN, 0};
    CHECK((!pidfd || ::poll(&end, 1, static_cast<int>(std::chrono::milliseconds(kPatience).count())) == 1));
  }
  sweep_descendants();
}

}  // namespace
}  // namespace cxxrun::launcher::test
