// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <csignal>

#include "agent/arguments.hpp"
#include "agent/error_file.hpp"
#include "agent/failure_report.hpp"

using namespace cxxrun;
using namespace cxxrun::agent;

TEST_CASE("report: the culprit first, with its last words, then the others", "[agent]") {
  Failure cause;
  cause.round = 2;
  cause.rank = 1;
  cause.local_rank = 1;
  cause.host = "ha";
  cause.pid = 4711;
  cause.status = Exited{3};
  cause.last_words = {"loading", "boom \x1b[31m"};
  rendezvous::Closed closed{rendezvous::Outcome::Failed, 3, "no restart is left", cause};
  const auto text = failure_report(closed, {{0, true, Signaled{SIGTERM}, SIGTERM},
                                            {1, true, Exited{3}, 0},
                                            {2, true, Signaled{SIGTERM}, SIGTERM}});
  CHECK(
      text ==
      "cxxrun: the job failed: rank 1 (local rank 1 on node ha, pid 4711) ended with exit code 3 in round 2\n"
      "  last lines of its stderr:\n"
      "    loading\n"
      "    boom ?[31m\n"
      "  ranks 0,2 here: stopped by cxxrun (SIGTERM), signal 15 (SIGTERM)\n"
      "  exit code: 3\n");
}

TEST_CASE("report: an exception's traceback instead of the last lines", "[agent]") {
  Failure cause;
  cause.rank = 0;
  cause.local_rank = 0;
  cause.host = "hb";
  cause.pid = 4711;
  cause.status = Exited{1};
  cause.message = "ValueError: bad batch";
  cause.traceback = "Traceback:\n  line 3\n";
  cause.last_words = {"not shown"};
  const auto text = failure_report({rendezvous::Outcome::Failed, 1, "", cause}, {});
  CHECK(text.find("  reason: ValueError: bad batch\n  traceback:\n    Traceback:\n      line 3\n") !=
        std::string::npos);
  CHECK(text.find("not shown") == std::string::npos);
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
  CHECK(failure_report({rendezvous::Outcome::Failed, 70, "", cause}, here) ==
        "cxxrun: the job failed in round 0: rank 5 (local rank 1 on node hb) could not be started: start a "
        "process: Resource "
        "temporarily unavailable; raise the limit of processes\n"
        "  rank 4 here: killed again at once: all start, or none\n"
        "  ranks 6-7 here: not started\n"
        "  exit code: 70\n");
}

TEST_CASE("report: a job that ended for want of nodes", "[agent]") {
  CHECK(failure_report({rendezvous::Outcome::NodesMissing, 75, "2 of 3 nodes joined", {}}, {}) ==
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

TEST_CASE("arguments: the macro of torchrun, and nothing else", "[agent]") {
  const std::vector<std::string> in{
      "x${local_rank}", "$local_rank", "$local_rank2", "${HOME}", "$$", "a$local_rank.b", ""};
  const std::vector<std::string> out{"x3", "3", "$local_rank2", "${HOME}", "$$", "a3.b", ""};
  CHECK(with_local_rank(in, 3) == out);
}
