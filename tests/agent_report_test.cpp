// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>

#include "agent/arguments.hpp"
#include "agent/error_file.hpp"
#include "agent/failure_report.hpp"
#include "agent/local_time.hpp"
#include "base/unique_fd.hpp"

using namespace cxxrun;
using namespace cxxrun::agent;

namespace {

Failure culprit() {
  Failure cause;
  cause.round = 2;
  cause.rank = 1;
  cause.local_rank = 1;
  cause.host = "ha";
  cause.pid = 4711;
  cause.status = Exited{3};
  return cause;
}

std::string report(const Failure& cause, const std::vector<WorkerEnd>& here = {}) {
  return failure_report({rendezvous::Outcome::Failed, 3, "no restart is left", cause}, here, 3, "");
}

}  // namespace

TEST_CASE("report: the culprit first, with its last words, then the others", "[agent]") {
  Failure cause = culprit();
  cause.last_words = {"loading", "boom \x1b[31m"};
  const Signaled term{SIGTERM};
  const Signaled kill{SIGKILL};
  CHECK(
      report(cause, {{0, true, term, SIGTERM},
                     {1, true, Exited{3}, 0},
                     {2, true, term, SIGTERM},
                     {3, true, term, SIGTERM},
                     {4, true, Exited{0}, SIGTERM},
                     {5, true, kill, SIGKILL},
                     {6, true, Exited{5}, 0},
                     {7, true, Exited{0}, 0},
                     {8, false},
                     {9, true, kill, SIGTERM}}) ==
      "cxxrun: the job failed: rank 1 (local rank 1 on node ha, pid 4711) ended with exit code 3 in round 2\n"
      "  last lines of its stderr:\n"
      "    loading\n"
      "    boom ?[31m\n"
      "  rank 6 here: failed by itself: exit code 5\n"
      "  rank 5 here: stopped by cxxrun with SIGKILL: it had not ended in time\n"
      "  ranks 0, 2-3 here: stopped by cxxrun with SIGTERM\n"
      "  rank 4 here: stopped by cxxrun with SIGTERM, then exit code 0\n"
      "  rank 9 here: stopped by cxxrun with SIGTERM, then signal 9 (SIGKILL)\n"
      "  rank 8 here: still running when this node gave up\n"
      "  rank 7 here: finished\n"
      "  exit code: 3\n");
}

TEST_CASE("report: an exception's traceback instead of the last lines", "[agent]") {
  Failure cause = culprit();
  cause.message = "ValueError: bad batch\nof 3";
  cause.traceback = "Traceback:\n  line 3\n";
  cause.last_words = {"not shown"};
  cause.error_file = "/logs/1/error.json";
  const auto text = report(cause);
  CHECK_THAT(text, Catch::Contains("  reason: ValueError: bad batch\n    of 3\n  traceback:\n    Traceback:\n"
                                   "      line 3\n  its error file: /logs/1/error.json\n"));
  CHECK_THAT(text, !Catch::Contains("not shown"));
}

TEST_CASE("report: evidence, time, why there was no restart, and a chosen code", "[agent]") {
  Failure cause = culprit();
  cause.status = Signaled{SIGKILL};
  cause.evidence = "out of memory: the cgroup /a counted 1 out-of-memory kill in that moment, limit 512 MiB";
  rendezvous::Closed closed{rendezvous::Outcome::Failed, 137, "", cause};
  closed.no_restart = "exit code 137 is not one to restart for";
  const auto text = failure_report(closed, {}, 1, "--exit-code peer-failed=1, else 137",
                                   local_time_text(std::chrono::milliseconds(1'700'000'000'042)));
  CHECK_THAT(text, Catch::Contains("ended with signal 9 (SIGKILL) in round 2\n  when: 2023-11-1"));
  CHECK_THAT(text, Catch::Contains(".042 "));
  CHECK_THAT(text, Catch::Contains("\n  out of memory: the cgroup /a counted"));
  CHECK_THAT(text, Catch::Contains("\n  no restart: exit code 137 is not one to restart for\n"));
  CHECK_THAT(text, Catch::EndsWith("\n  exit code: 1 (--exit-code peer-failed=1, else 137)\n"));
  cause.evidence.clear();
  CHECK_THAT(report(cause), !Catch::Contains("memory"));
}

TEST_CASE("report: long texts are one screen, and their end stays", "[agent]") {
  Failure cause = culprit();
  for (int i = 1; i <= 64; ++i) cause.last_words.push_back("line " + std::to_string(i));
  cause.last_words.push_back(std::string(100'000, 'x'));
  std::vector<WorkerEnd> here;
  for (int i = 2; i < 200; ++i) here.push_back({i, true, Exited{i}, 0});
  const auto text = report(cause, here);
  CHECK(std::count(text.begin(), text.end(), '\n') < 45);
  CHECK_THAT(text, Catch::Contains("(the last 30 of 65 lines):\n    line 36\n"));
  CHECK_THAT(text, Catch::Contains("xxx...\n"));
  CHECK_THAT(text, Catch::Contains("more here ended in other ways\n"));
  CHECK(text.size() < 4'000);
}

TEST_CASE("report: within a number of bytes", "[agent]") {
  Failure cause = culprit();
  for (int i = 1; i <= 64; ++i)
    cause.last_words.push_back(std::string(300, 'y') + "\xc3\xa4 " + std::to_string(i));
  rendezvous::Closed closed{rendezvous::Outcome::Failed, 3, "", cause};
  const auto text = failure_report_within(4'096, closed, {}, 3, "");
  CHECK(text.size() <= 4'096);
  CHECK_THAT(text, Catch::StartsWith("cxxrun: the job failed: rank 1"));
  CHECK_THAT(text, Catch::Contains(" 64\n"));
  CHECK_THAT(text, Catch::EndsWith("exit code: 3\n"));
  closed.root_cause.reset();
  closed.reason.assign(300, 'r');
  for (std::size_t most = 100; most < 104; ++most)
    CHECK(failure_report_within(most, closed, {}, 3, "").size() <= most);
}

TEST_CASE("report: a worker that could not be started, and what that meant for the others", "[agent]") {
  Failure cause;
  cause.rank = 5;
  cause.local_rank = 1;
  cause.host = "hb";
  cause.status = Exited{70};
  cause.message = "start a process: Resource temporarily unavailable; raise the limit of processes";
  cause.own_exception = true;
  std::vector<WorkerEnd> here(4);
  for (int i = 0; i < 4; ++i) {
    here[static_cast<std::size_t>(i)].rank = 4 + i;
    here[static_cast<std::size_t>(i)].start = i < 1 ? WorkerEnd::Start::Undone : WorkerEnd::Start::Never;
  }
  CHECK(failure_report({rendezvous::Outcome::Failed, 70, "", cause}, here, 70, "") ==
        "cxxrun: the job failed in round 0: rank 5 (local rank 1 on node hb) could not be started: start a "
        "process: Resource "
        "temporarily unavailable; raise the limit of processes\n"
        "  rank 4 here: killed again at once: all start, or none\n"
        "  ranks 6-7 here: not started\n"
        "  exit code: 70\n");
}

TEST_CASE("report: a job that ended for want of nodes", "[agent]") {
  CHECK(failure_report({rendezvous::Outcome::NodesMissing, 75, "2 of 3 nodes joined", {}}, {}, 75, "") ==
        "cxxrun: the job ended: 2 of 3 nodes joined\n  exit code: 75\n");
}

TEST_CASE("error file: both forms, and what is none", "[agent]") {
  const auto record = parse_error_file(
      R"({"message": {"message": "ValueError: x", "extraInfo": {"py_callstack": "Traceback", "timestamp": "1700000000"}}})");
  REQUIRE(record);
  CHECK(record->message == "ValueError: x");
  CHECK(record->traceback == "Traceback");
  CHECK(record->written == std::chrono::milliseconds(1'700'000'000'000));
  const auto plain = parse_error_file(R"({"message": "out of disk", "timestamp": 12.5})");
  REQUIRE(plain);
  CHECK(plain->message == "out of disk");
  CHECK(plain->written == std::chrono::milliseconds(12'500));
  for (const char* bad : {"", "garbage", "{", "[]", "{}", R"({"message": 3})", "null"}) {
    INFO(bad);
    CHECK_FALSE(parse_error_file(bad));
  }
}

TEST_CASE("error file: the copy for whoever started us has the exit code", "[agent]") {
  const char* record = R"({"message":{"extraInfo":{"timestamp":"1"},"message":"E: x"}})";
  CHECK(error_file_copy(record, Exited{3}) ==
        R"({"message":{"errorCode":3,"extraInfo":{"timestamp":"1"},"message":"E: x"}})");
  CHECK(error_file_copy(record, Signaled{SIGSEGV}) ==
        R"({"message":{"errorCode":-11,"extraInfo":{"timestamp":"1"},"message":"E: x"}})");
  CHECK(error_file_copy(record, Exited{0}) == record);
  CHECK(error_file_copy(R"({"message": "x", "timestamp": 1})", Exited{3}) ==
        R"({"message": "x", "timestamp": 1})");
  CHECK(error_file_copy("garbage", Exited{3}) == "garbage");
  const auto made = parse_error_file(
      error_file_text("E: \xff", "trace", std::chrono::milliseconds(1'700'000'000'900), Exited{3}));
  REQUIRE(made);
  CHECK(made->traceback == "trace");
  CHECK(made->written == std::chrono::milliseconds(1'700'000'000'000));
}

TEST_CASE("error file: whole seconds become the file's own time", "[agent]") {
  char name[] = "/tmp/cxxrun-test-XXXXXX";
  const UniqueFd file(::mkstemp(name));
  REQUIRE(file);
  const auto write = [&](long long seconds, const timespec& changed) {
    const std::string text = error_file_text("E", "", std::chrono::seconds(seconds), Exited{1});
    REQUIRE(::pwrite(file.get(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
    const timespec times[2] = {changed, changed};
    REQUIRE(::futimens(file.get(), times) == 0);
    return read_error_file(name)->written->count();
  };
  CHECK(write(1'700'000'000, {1'700'000'000, 250'000'000}) == 1'700'000'000'250);
  CHECK(write(1'700'000'000, {1'700'000'001, 250'000'000}) == 1'700'000'000'000);
  CHECK(write(1'700'000'000, {1'600'000'000, 250'000'000}) == 1'700'000'000'000);
  ::unlink(name);
}

TEST_CASE("arguments: the macro of torchrun, and nothing else", "[agent]") {
  const std::vector<std::string> in{
      "x${local_rank}", "$local_rank", "$local_rank2", "${HOME}", "$$", "a$local_rank.b", ""};
  const std::vector<std::string> out{"x3", "3", "$local_rank2", "${HOME}", "$$", "a3.b", ""};
  CHECK(with_local_rank(in, 3) == out);
}
