// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "agent/timer_table.hpp"

using namespace cxxrun::agent;

namespace {

std::string line(const std::string& rest) { return R"({"version":1,)" + rest + "}"; }

const std::string kGood = R"("pid":7,"scope_id":"s","expiration_time":100.5,"signal":9)";

}  // namespace

TEST_CASE("timer: a request is one object of version 1", "[agent]") {
  const auto request = parse_timer_request(line(kGood));
  REQUIRE(request);
  CHECK(request->pid == 7);
  CHECK(request->scope == "s");
  CHECK(request->expires == 100.5);
  CHECK(request->signo == 9);
  // Only to be known: nothing is ended.
  CHECK(parse_timer_request(line(R"("pid":7,"scope_id":"s","expiration_time":1,"signal":-5)"))->signo == 0);
}

TEST_CASE("timer: everything else is no request", "[agent]") {
  const std::string bad[] = {"",
                             "x",
                             "[]",
                             "{}",
                             R"({"version":2,)" + kGood + "}",
                             line(R"("pid":0,"scope_id":"s","expiration_time":1,"signal":9)"),
                             line(R"("pid":-1,"scope_id":"s","expiration_time":1,"signal":9)"),
                             line(R"("pid":99999999,"scope_id":"s","expiration_time":1,"signal":9)"),
                             line(R"("pid":"7","scope_id":"s","expiration_time":1,"signal":9)"),
                             line(R"("pid":7,"scope_id":1,"expiration_time":1,"signal":9)"),
                             line(R"("pid":7,"scope_id":"s","expiration_time":"1","signal":9)"),
                             line(R"("pid":7,"scope_id":"s","expiration_time":1e300,"signal":9)"),
                             line(R"("pid":7,"scope_id":"s","expiration_time":1,"signal":65)"),
                             line(R"("pid":7,"scope_id":"s","expiration_time":1)"),
                             std::string(4'000, '[')};
  for (const auto& text : bad) {
    CAPTURE(text);
    CHECK_FALSE(parse_timer_request(text));
  }
}

TEST_CASE("timer: lines come in any pieces, and long ones are dropped", "[agent]") {
  TimerLines lines;
  std::vector<std::string> out;
  CHECK(lines.feed("a\nb", out) == 0);
  CHECK(lines.feed("c\n\n", out) == 0);
  CHECK(out == std::vector<std::string>{"a", "bc"});
  out.clear();
  CHECK(lines.feed(std::string(5'000, 'x'), out) == 1);
  CHECK(lines.feed("more of it\nnext\n", out) == 0);
  CHECK(out == std::vector<std::string>{"next"});
}

TEST_CASE("timer: the table", "[agent]") {
  TimerTable table;
  CHECK_FALSE(table.next());
  table.take({7, "a", 100, 9});
  table.take({7, "b", 90, 15});
  table.take({8, "a", 95, 9});
  table.take({9, "known", 1, 0});  // without a signal it never expires
  CHECK(table.next() == 90.0);
  table.take({8, "a", 120, 9});  // a later time replaces the earlier
  CHECK(table.expired(89).empty());
  const auto first = table.expired(100);
  REQUIRE(first.size() == 1);  // each process once, with what expired first
  CHECK(first[0].pid == 7);
  CHECK(first[0].scope == "b");
  CHECK(first[0].signo == 15);
  CHECK(table.next() == 120.0);
  table.shift(10);
  CHECK(table.next() == 130.0);
  CHECK(table.take({8, "a", -1, 9}) == TimerTable::Took::Released);
  CHECK_FALSE(table.next());
  CHECK(table.size() == 1);
}

TEST_CASE("timer: the table is bounded", "[agent]") {
  TimerTable table;
  int taken = 0;
  while (table.take({1, std::to_string(taken), 1, 9}) == TimerTable::Took::Set) ++taken;
  CHECK(taken == 16'384);
  CHECK(table.take({1, "0", 2, 9}) == TimerTable::Took::Set);  // one that is known may change
}

TEST_CASE("timer: the verdict drives no terminal", "[agent]") {
  CHECK(verdict_text({7, "step", 1, 9}) == "it hung: its timer step expired, so it got SIGKILL");
  CHECK(verdict_text({7, "a\x1b[2J", 1, 15}) ==
        R"(it hung: its timer 'a\x1b[2J' expired, so it got SIGTERM)");
}
