// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>

#include <catch2/catch.hpp>

#include "launcher/leftovers.hpp"
#include "launcher/spawner.hpp"
#include "support/launcher_run.hpp"

namespace cxxrun::launcher::test {
namespace {

bool running(pid_t pid) {
  const auto process = read_process(pid);
  return process && process->state != 'Z';
}

TEST_CASE("worker set: every exit code as it was", "[launcher]") {
  const auto before = open_descriptors();
  {
    std::vector<SpawnSpec> specs;
    for (int code = 0; code < 256; ++code) specs.push_back(shell("exit " + std::to_string(code), code));
    Run run;
    REQUIRE(run.start(std::move(specs)).ok());
    REQUIRE(run.until([&] { return run.ended.size() == 256; }));
    CHECK(run.set->alive() == 0);
    std::set<int> seen;
    for (const Ended& ended : run.ended) {
      CHECK(ended.status == ExitStatus{Exited{ended.local_rank}});
      CHECK(ended.our_signal == 0);
      seen.insert(ended.local_rank);
    }
    CHECK(seen.size() == 256);
    CHECK_FALSE(run.gone);
    run.set->stop(SIGTERM, 10s);
    REQUIRE(run.until_gone());
    CHECK(run.gone->empty());
  }
  CHECK_FALSE(has_children());
  CHECK(open_descriptors() == before);
}

TEST_CASE("worker set: signals as they were", "[launcher]") {
  const int signo = GENERATE(SIGSEGV, SIGABRT, SIGKILL, SIGTERM, SIGHUP);
  Run run;
  REQUIRE(run.start({shell("ulimit -c 0; kill -" + std::to_string(signo) + " $$")}).ok());
  REQUIRE(run.until([&] { return run.ended.size() == 1; }));
  CHECK(run.ended[0].status == ExitStatus{Signaled{signo, false}});
  CHECK(run.ended[0].our_signal == 0);
}

TEST_CASE("worker set: all or none", "[launcher]") {
  TempDir dir;
  Run run;
  SpawnSpec bad = shell("", 1);
  bad.program = dir.file("nothing");
  const auto started = run.start({shell("sleep 1000", 0), bad});
  REQUIRE_FALSE(started.ok());
  CHECK(started.error().code == std::errc::no_such_file_or_directory);
  CHECK(started.error().message == "exec " + bad.program + ": No such file or directory");
  CHECK(run.failed_local_rank == 1);
  CHECK_FALSE(has_children());
}

TEST_CASE("worker set: the signal goes to the worker, its helpers live while it saves", "[launcher]") {
  TempDir dir;
  // The helper notes a SIGTERM; the worker, on SIGTERM, asks whether the helper still lives, then ends.
  const std::string script = "(trap 'echo helper-term >> " + dir.file("log") +
                             "; exit' TERM; while :; do sleep 0.05; done) & H=$!; " +
                             "trap 'sleep 0.3; kill -0 $H && echo helper-lives >> " + dir.file("log") +
                             "; exit 3' TERM; touch " + dir.file("ready") + "; while :; do sleep 0.05; done";
  Run run;
  REQUIRE(run.start({shell(script)}).ok());
  REQUIRE(run.until([&] { return exists(dir.file("ready")); }));
  run.set->stop(SIGTERM, kPatience);
  REQUIRE(run.until_gone());
  CHECK(run.gone->empty());
  REQUIRE(run.ended.size() == 1);
  CHECK(run.ended[0].status == ExitStatus{Exited{3}});
  CHECK(run.ended[0].our_signal == SIGTERM);
  CHECK(read_text(dir.file("log")) == "helper-lives\nhelper-term\n");
  CHECK_FALSE(has_children());
}

TEST_CASE("worker set: a wrapper that dies first does not rob the program of its grace", "[launcher]") {
  TempDir dir;
  const std::string inner = "trap \"sleep 0.3; touch " + dir.file("saved") + "; exit\" TERM; touch " +
                            dir.file("ready") + "; while :; do sleep 0.05; done";
  Run run;
  REQUIRE(run.start({shell("sh -c '" + inner + "'; true")}).ok());
  REQUIRE(run.until([&] { return exists(dir.file("ready")); }));
  run.set->stop(SIGTERM, kPatience);
  REQUIRE(run.until_gone());
  CHECK(exists(dir.file("saved")));
}

TEST_CASE("worker set: what ignores SIGTERM is killed after the grace, all at once", "[launcher]") {
  TempDir dir;
  std::vector<SpawnSpec> specs;
  for (int rank = 0; rank < 4; ++rank) {
    specs.push_back(shell(
        "trap '' TERM; touch " + dir.file(std::to_string(rank)) + "; while :; do sleep 0.05; done", rank));
  }
  Run run;
  REQUIRE(run.start(std::move(specs)).ok());
  REQUIRE(run.until([&] {
    return exists(dir.file("0")) && exists(dir.file("1")) && exists(dir.file("2")) && exists(dir.file("3"));
  }));
  run.set->stop(SIGTERM, 300ms);
  run.set->stop(SIGTERM, 1000s);  // a repeated call changes nothing
  REQUIRE(run.until_gone());
  REQUIRE(run.ended.size() == 4);
  for (const Ended& ended : run.ended) {
    CHECK(ended.status == ExitStatus{Signaled{SIGKILL, false}});
    CHECK(ended.our_signal == SIGKILL);
  }
  REQUIRE(run.notes.size() == 1);
  CHECK_THAT(run.notes[0],
             Catch::Contains("rank 0 (pid") && Catch::Contains("did not end after SIGTERM: SIGKILL"));
  CHECK_FALSE(has_children());
}

TEST_CASE("worker set: the end of the grace can be called", "[launcher]") {
  TempDir dir;
  Run run;
  REQUIRE(
      run.start({shell("trap '' TERM; touch " + dir.file("ready") + "; while :; do sleep 0.05; done")}).ok());
  REQUIRE(run.until([&] { return exists(dir.file("ready")); }));
  run.set->stop(SIGTERM, 1000s);
  run.set->end_grace();
  REQUIRE(run.until_gone());
  CHECK(run.gone->empty());
}

/// Ways to leave a process behind; each writes its pid into $F.
struct Escape {
  const char* name;
  const char* script;
};
const Escape kEscapes[] = {
    {"child", "sleep 1000 & echo $! > $F.new; mv $F.new $F"},
    {"session of its own", "setsid sh -c 'echo $$ > $F.new; mv $F.new $F; exec sleep 1000' &"},
    {"daemon", "setsid sh -c '(setsid sh -c \"echo \\$\\$ > $F.new; mv $F.new $F; exec sleep 1000\" &) &'"},
    {"deaf daemon",
     "setsid sh -c '(setsid sh -c \"trap : TERM; trap \\\"\\\" TERM; echo \\$\\$ > $F.new; mv $F.new $F; "
     "exec sleep 1000\" &) &'"},
    {"cleared environment", "setsid env -i sh -c \"echo \\$\\$ > $F.new; mv $F.new $F; exec sleep 1000\" &"},
};

TEST_CASE("worker set: a helper that outlives its successful worker is swept", "[launcher]") {
  const auto escape = GENERATE(from_range(std::begin(kEscapes), std::end(kEscapes)));
  INFO(escape.name);
  TempDir dir;
  Run run;
  const std::string wait = "\nwhile ! [ -e $F ]; do sleep 0.01; done";
  REQUIRE(run.start({shell("F=" + dir.file("pid") + "; export F; " + escape.script + wait)}).ok());
  REQUIRE(run.until([&] { return run.ended.size() == 1; }));
  CHECK(succeeded(run.ended[0].status));
  const pid_t helper = read_pid(dir.file("pid"));
  CHECK(running(helper));
  run.set->stop(SIGTERM, 500ms);
  REQUIRE(run.until_gone());
  CHECK(run.gone->empty());
  CHECK_FALSE(running(helper));
  CHECK_FALSE(has_children());
}

TEST_CASE("worker set: a daemon of a living worker is left alone until that worker has ended", "[launcher]") {
  TempDir dir;
  const std::string daemon = "(setsid sh -c \"trap \\\"touch " + dir.file("told") +
                             "; exit\\\" TERM; touch " + dir.file("up") +
                             "; while :; do sleep 0.02; done\" &); ";
  const std::string saving =
      "trap 'while ! [ -e " + dir.file("saved") + " ]; do sleep 0.02; done; exit 0' TERM; ";
  Run run;
  REQUIRE(
      run.start({shell(daemon + saving + "while :; do sleep 0.02; done", 0), shell("sleep 1000", 1)}).ok());
  REQUIRE(run.until([&] { return exists(dir.file("up")); }));
  run.set->stop(SIGTERM, kPatience);
  REQUIRE(run.until([&] { return run.ended.size() == 1; }));  // rank 1; rank 0 saves
  CHECK(run.ended[0].local_rank == 1);
  run.until([&] { return exists(dir.file("told")); }, 300ms);
  CHECK_FALSE(exists(dir.file("told")));
  std::ofstream(dir.file("saved")) << "x";
  REQUIRE(run.until_gone());
  CHECK(exists(dir.file("told")));
}

TEST_CASE("worker set: whose a process is: by its session, else by RANK, as LOCAL_RANK can be 0 for all",
          "[launcher]") {
  TempDir dir;
  SpawnSpec spec = shell("touch " + dir.file("up") + "; exec sleep 1000", 3);
  spec.env.emplace_back("LOCAL_RANK=0");
  CloneSpawner spawner;
  const auto spawned = spawner.spawn(spec, {});
  REQUIRE(spawned.ok());
  const auto patience = EventLoop::now() + kPatience;
  while (!exists(dir.file("up")) && EventLoop::now() < patience) ::usleep(1000);
  const auto process = read_process(spawned->pid);
  REQUIRE(process);
  CHECK(owner_of(*process, {{1, 0, 2, true}, {2, 1, 3, true}}) == 1);
  CHECK(owner_of(*process, {{1, 0, 3, true}, {spawned->pid, 1, 4, true}}) == 1);
  CHECK(owner_of(*process, {{1, 0, 0, true}}) == -1);
  ::kill(spawned->pid, SIGKILL);
  ::waitpid(spawned->pid, nullptr, 0);
}

TEST_CASE("worker set: destruction leaves nothing", "[launcher]") {
  const auto escape = GENERATE(from_range(std::begin(kEscapes), std::end(kEscapes)));
  INFO(escape.name);
  TempDir dir;
  {
    Run run;
    REQUIRE(run.start({shell("F=" + dir.file("pid") + "; export F; trap '' TERM; " + escape.script +
                             "\nsleep 1000")})
                .ok());
    REQUIRE(run.until([&] { return exists(dir.file("pid")); }));
  }
  CHECK_FALSE(running(read_pid(dir.file("pid"))));
  CHECK_FALSE(has_children());
}

TEST_CASE("worker set: many that fork all the time are all ended", "[launcher]") {
  Run run;
  TempDir dir;
  const std::string busy = "trap '' TERM; touch " + dir.file("up") + "; while :; do (setsid sleep 5 &); done";
  REQUIRE(run.start({shell(busy, 0), shell(busy, 1)}).ok());
  REQUIRE(run.until([&] { return exists(dir.file("up")); }));
  run.set->stop(SIGTERM, 200ms);
  REQUIRE(run.until_gone());
  CHECK(run.gone->empty());
  CHECK_FALSE(has_children());
}

TEST_CASE("worker set: last words are complete when the end is reported", "[launcher]") {
  Run run;
  SpawnSpec spec = shell("i=0; while [ $i -lt 100 ]; do echo word $i >&2; i=$((i+1)); done; exit 7");
  spec.err = {Sink::Console, "", true};
  // An orphan holds the pipe: the report does not wait for it.
  spec.argv[2] = "sleep 1000 & " + spec.argv[2];
  REQUIRE(run.start({spec}).ok());
  REQUIRE(run.until([&] { return run.ended.size() == 1; }));
  REQUIRE(run.ended[0].last_words.size() == 64);
  CHECK(run.ended[0].last_words.back() == "word 99");
  CHECK(run.ended[0].last_words_note.empty());
  run.set->stop(SIGTERM, kPatience);
  REQUIRE(run.until_gone());
}

TEST_CASE("worker set: why there are no last words", "[launcher]") {
  Run run;
  SpawnSpec silent = shell("exit 1", 0);
  silent.err = {Sink::Console, "", true};
  REQUIRE(run.start({silent, shell("exit 1", 1)}).ok());
  REQUIRE(run.until([&] { return run.ended.size() == 2; }));
  for (const Ended& ended : run.ended) {
    CHECK(ended.last_words_note ==
          (ended.local_rank == 0 ? "it wrote nothing to stderr" : "its stderr was not captured"));
  }
}

TEST_CASE("worker set: stderr can stay a terminal", "[launcher]") {
  TempDir dir;
  Run run;
  SpawnSpec spec = shell("[ -t 2 ] && echo terminal > " + dir.file("is") + "; printf 'bye\\n' >&2; exit 4");
  spec.err = {Sink::Terminal, "", true};
  REQUIRE(run.start({spec}).ok());
  REQUIRE(run.until([&] { return run.ended.size() == 1; }));
  CHECK(read_text(dir.file("is")) == "terminal\n");
  CHECK(run.ended[0].last_words == std::vector<std::string>{"bye"});
  run.set->stop(SIGTERM, kPatience);
  REQUIRE(run.until_gone());
}

TEST_CASE("worker set: suspended and resumed", "[launcher]") {
  TempDir dir;
  Run run;
  REQUIRE(run.start({shell("sleep 1000 & echo $! > " + dir.file("pid.new") + "; mv " + dir.file("pid.new") +
                           " " + dir.file("pid") + "; wait")})
              .ok());
  REQUIRE(run.until([&] { return exists(dir.file("pid")); }));
  const pid_t helper = read_pid(dir.file("pid"));
  run.set->suspend();
  CHECK(run.until([&] { return read_process(helper)->state == 'T'; }));
  run.set->resume();
  CHECK(run.until([&] { return read_process(helper)->state == 'S'; }));
  run.set->suspend();
  run.set->stop(SIGTERM, kPatience);  // a stop wakes what was suspended, or it could not end
  REQUIRE(run.until_gone());
}

TEST_CASE("worker set: a signal passed on reaches each worker once, not its helpers", "[launcher]") {
  TempDir dir;
  const auto worker = [&](int rank) {
    const std::string name = dir.file(std::to_string(rank));
    return shell("(trap 'echo helper >> " + name +
                     ".got' USR1; while :; do sleep 0.02; done) & trap 'echo worker >> " + name +
                     ".got' USR1; touch " + name + ".up; while :; do sleep 0.02; done",
                 rank);
  };
  Run run;
  REQUIRE(run.start({worker(0), worker(1)}).ok());
  REQUIRE(run.until([&] { return exists(dir.file("0.up")) && exists(dir.file("1.up")); }));
  run.set->forward(SIGUSR1);
  REQUIRE(run.until([&] { return exists(dir.file("0.got")) && exists(dir.file("1.got")); }));
  run.set->stop(SIGKILL, 0s);
  REQUIRE(run.until_gone());
  CHECK(read_text(dir.file("0.got")) == "worker\n");
  CHECK(read_text(dir.file("1.got")) == "worker\n");
}

TEST_CASE("worker set: children that we had before are not touched", "[launcher]") {
  const pid_t mine = ::fork();
  if (mine == 0) {
    ::execl("/bin/sleep", "sleep", "1000", nullptr);
    ::_exit(127);
  }
  {
    Run run;
    REQUIRE(run.start({shell("sleep 1000 & exit 0")}).ok());
    REQUIRE(run.until([&] { return run.ended.size() == 1; }));
    run.set->stop(SIGTERM, kPatience);
    REQUIRE(run.until_gone());
    CHECK(running(mine));
  }
  CHECK(running(mine));
  ::kill(mine, SIGKILL);
  ::waitpid(mine, nullptr, 0);
  CHECK_FALSE(has_children());
}

TEST_CASE("worker set: a handler may destroy the set", "[launcher]") {
  EventLoop loop;
  std::unique_ptr<WorkerSet> set;
  bool destroyed = false;
  SetHandlers handlers;
  handlers.on_ended = [&](const Ended&) {
    set.reset();
    destroyed = true;
  };
  auto started =
      WorkerSet::start(loop, {shell("exit 1", 0), shell("sleep 1000", 1)}, {}, std::move(handlers));
  REQUIRE(started.ok());
  set = std::move(*started);
  const Time deadline = EventLoop::now() + kPatience;
  while (!destroyed && EventLoop::now() < deadline) loop.run_once(deadline);
  CHECK(destroyed);
  CHECK_FALSE(has_children());
}

}  // namespace
}  // namespace cxxrun::launcher::test
