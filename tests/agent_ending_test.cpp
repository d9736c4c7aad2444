// SPDX-License-Identifier: Apache-2.0
#include "agent/ending.hpp"

#include <catch2/catch.hpp>
#include <csignal>

using namespace cxxrun;
using namespace cxxrun::agent;
using rendezvous::Closed;
using rendezvous::Outcome;

namespace {

Closed failed_on(int group_rank) {
  Failure cause;
  cause.rank = 3;
  cause.group_rank = group_rank;
  cause.status = Exited{7};
  return {Outcome::Failed, 7, "rank 3 failed", cause};
}

FailureOptions all_chosen() {
  FailureOptions options;
  options.exit_codes = {102, 169, 175, 143, 1};
  return options;
}

struct Row {
  const char* what;
  EndFacts facts;
  int exit_code, signo;  ///< without --exit-code
  int chosen;            ///< with all five; then never by a signal
  const char* outcome;
};

}  // namespace

TEST_CASE("ending: each kind of end, its code, and the code that the user may choose", "[agent]") {
  const Closed missing{Outcome::NodesMissing, 75, "1 of 2", {}};
  const Closed refused{Outcome::Refused, 69, "refused", {}};
  const Closed wrong{Outcome::Refused, 2, "rank out of range", {}};
  const Row rows[] = {{"all well", {{0, 0}, Closed{}, true, 0}, 0, 0, 0, "succeeded"},
                      {"a spare of a failed job", {{0, 0}, failed_on(0), false, -1}, 0, 0, 0, "failed"},
                      {"a worker here", {{7, 0}, failed_on(1), true, 1}, 7, 0, 7, "failed"},
                      {"a worker elsewhere", {{7, 0}, failed_on(1), true, 0}, 7, 0, 1, "failed"},
                      {"never all there", {{75, 0}, missing, false, -1}, 75, 0, 169, "nodes-missing"},
                      {"a node was lost", {{75, 0}, missing, true, 0}, 75, 0, 175, "nodes-missing"},
                      {"cannot meet", {{69, 0}, refused, false, -1}, 69, 0, 169, "refused"},
                      {"no port", {{69, 0}, {}, false, -1}, 69, 0, 169, "refused"},
                      {"no log folder", {{2, 0}, {}, false, -1}, 2, 0, 102, "usage"},
                      {"cannot start", {{70, 0}, {}, false, -1}, 70, 0, 70, "not-started"},
                      {"wrong sizes", {{2, 0}, wrong, false, -1}, 2, 0, 102, "refused"},
                      {"SIGTERM", {{143, SIGTERM}, {}, true, 0}, 143, SIGTERM, 143, "stopped"},
                      {"SIGINT elsewhere",
                       {{130, 0}, Closed{Outcome::Interrupted, 130, "", {}}, true, 0},
                       130,
                       0,
                       143,
                       "interrupted"},
                      {"cannot be killed", {{71, 0}, {}, true, 0}, 71, 0, 71, "stuck"}};
  for (const Row& row : rows) {
    INFO(row.what);
    const Ending plain = ending({}, row.facts);
    CHECK(plain.end.exit_code == row.exit_code);
    CHECK(plain.end.signo == row.signo);
    CHECK(plain.outcome == row.outcome);
    CHECK(plain.code_note.empty());
    const Ending chosen = ending(all_chosen(), row.facts);
    CHECK(chosen.end.exit_code == row.chosen);
    CHECK(chosen.end.signo == 0);
    CHECK(chosen.outcome == row.outcome);
  }
  CHECK(ending(all_chosen(), rows[3].facts).code_note == "--exit-code peer-failed=1, else 7");
}
