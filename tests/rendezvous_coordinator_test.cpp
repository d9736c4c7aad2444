// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <vector>

#include "base/limits.hpp"
#include "rendezvous/line_limiter.hpp"
#include "rendezvous/placement.hpp"

using namespace cxxrun;
using namespace cxxrun::rendezvous;

namespace {

const Time t0 = Time{} + std::chrono::hours(1);

/// A coordinator under test: what it said since the last look.
struct Core {
  CoordinatorConfig config;
  CoordinatorState state;
  Time now = t0;
  Time wake = Time::max();
  std::vector<action::Send> sent;
  std::vector<action::Note> notes;

  explicit Core(int min, int max, int max_restarts = 0) {
    config.run_id = "t";
    config.nnodes_min = min;
    config.nnodes_max = max;
    config.max_restarts = max_restarts;
  }
  void take(const CoordinatorEvent& event) {
    auto next = step(config, std::move(state), event, now);
    state = std::move(next.state);
    wake = next.wake_at;
    CHECK(wake > now);  // else it would tick for ever
    for (auto& a : next.actions) {
      if (auto* s = std::get_if<action::Send>(&a)) sent.push_back(std::move(*s));
      if (auto* n = std::get_if<action::Note>(&a)) notes.push_back(std::move(*n));
    }
  }
  wire::Hello hello(const std::string& host, std::optional<int> node_rank = std::nullopt) const {
    wire::Hello h;
    h.run_id = "t";
    h.incarnation = host;
    h.host_name = host;
    h.nnodes_min = config.nnodes_min;
    h.nnodes_max = config.nnodes_max;
    h.max_restarts = config.max_restarts;
    h.exact_rank = config.exact_ranks;
    h.node_rank = node_rank;
    h.role = "default";
    h.ready = true;
    return h;
  }
  void join(MemberId id, const std::string& host, std::optional<int> node_rank = std::nullopt) {
    take(event::Joined{id, hello(host, node_rank),
                       Link{"10.0.0." + std::to_string(id), "10.0.0.1", true, id == 1}});
  }
  void fail(MemberId id, int code, std::chrono::milliseconds age = {}, bool own_exception = false) {
    Failure f;
    f.round = state.round;
    f.rank = static_cast<int>(id) - 1;
    f.status = Exited{code};
    f.age = age;
    f.own_exception = own_exception;
    take(event::Failed{id, f});
  }
  void ready(MemberId id) { take(event::Ready{id, wire::Ready{state.round, 1}}); }
  void done(MemberId id) { take(event::Done{id, state.round}); }
  template <class T>
  std::optional<T> last(MemberId to) {
    for (auto it = sent.rbegin(); it != sent.rend(); ++it) {
      if (it->to == to && std::holds_alternative<T>(it->message)) return std::get<T>(it->message);
    }
    return std::nullopt;
  }
};

Core running(int min, int max, int nodes, int max_restarts = 0) {
  Core c(min, max, max_restarts);
  for (int i = 1; i <= nodes; ++i) c.join(static_cast<MemberId>(i), "n" + std::to_string(i));
  if (nodes < max) {
    c.now = c.state.last_call_until;
    c.take(event::Tick{});
  }
  REQUIRE(c.state.phase == Phase::Running);
  c.sent.clear();
  return c;
}

}  // namespace

TEST_CASE("coordinator: what a stop costs, and who is to blame", "[rendezvous]") {
  struct Row {
    const char* name;
    std::function<void(Core&)> happens;  // three nodes run, MIN 1, one restart is left
    int restarts;
    int blamed;  // rank, -1: nobody
  };
  const std::vector<Row> rows{
      {"a failure", [](Core& c) { c.fail(2, 7); }, 1, 1},
      {"two failures: the one that came first, though it was told later",
       [](Core& c) {
         c.fail(2, 1);
         c.now += 50ms;
         c.fail(3, 7, 100ms);
       },
       1, 2},
      {"a node dies", [](Core& c) { c.take(event::Cut{3}); }, 0, -1},
      {"a node dies, its peers fail first",
       [](Core& c) {
         c.fail(2, 1);
         c.now += 2ms;
         c.take(event::Cut{3});
       },
       0, -1},
      {"a node dies after a failure with a record of its own",
       [](Core& c) {
         c.fail(2, 1, {}, true);
         c.now += 2ms;
         c.take(event::Cut{3});
       },
       1, 1},
      {"a node fails, then dies: its own failure stays",
       [](Core& c) {
         c.fail(3, 9);
         c.take(event::Cut{3});
       },
       1, 2},
      {"a node leaves, its peers fail",
       [](Core& c) {
         c.take(event::Left{3, wire::Leave{Leaving::Politely, "SIGTERM"}});
         c.now += 5ms;
         c.fail(2, 1, {}, true);
       },
       0, -1},
      {"a node says that it will leave, then its workers fail",
       [](Core& c) {
         c.take(event::GoingAway{3, wire::GoingAway{"SIGTERM"}});
         c.now += 5ms;
         c.fail(3, 1, {}, true);
         c.take(event::Left{3, wire::Leave{Leaving::Politely, "SIGTERM"}});
       },
       0, -1},
      {"a node fails, then says that it will leave: its own failure stays",
       [](Core& c) {
         c.fail(3, 9);
         c.now += 5ms;
         c.take(event::GoingAway{3, wire::GoingAway{"SIGTERM"}});
         c.take(event::Left{3, wire::Leave{Leaving::Politely, "SIGTERM"}});
       },
       1, 2},
      {"a newcomer below MAX", [](Core& c) { c.join(9, "n9"); }, 0, -1},
      {"a newcomer, and what fails because we stopped it",
       [](Core& c) {
         c.join(9, "n9");
         c.now += 5ms;
         c.fail(2, 1);
       },
       0, -1},
      {"a failure of another round is old news",
       [](Core& c) {
         Failure old;
         old.round = 5;
         c.take(event::Failed{2, old});
         c.take(event::Cut{3});
       },
       0, -1},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    Core c = running(1, 4, 3, 1);
    row.happens(c);
    for (const MemberId id : {1ul, 2ul, 3ul}) c.ready(id);
    CHECK(c.state.restarts == row.restarts);
    CHECK(c.state.round == 1);
    CHECK(c.state.phase == Phase::Running);
    if (row.blamed >= 0)
      CHECK_THAT(c.state.gather_reason, Catch::Contains("rank " + std::to_string(row.blamed)));
  }
}

TEST_CASE("coordinator: the end carries the root cause's code to all", "[rendezvous]") {
  Core c = running(3, 3, 3);
  c.fail(2, 1);
  c.now += 500ms;
  c.fail(3, 7, 900ms);
  for (const MemberId id : {1ul, 2ul, 3ul}) c.ready(id);
  CHECK(c.state.phase == Phase::Closed);
  for (const MemberId id : {1ul, 2ul, 3ul}) {
    const auto close = c.last<wire::Close>(id);
    REQUIRE(close);
    CHECK(close->exit_code == 7);
    CHECK(close->root_cause->rank == 2);
  }
  CHECK(c.sent.back().to == 1);  // the host last: it takes us with it
}

TEST_CASE("coordinator: a signal's code is 128 and its number", "[rendezvous]") {
  Core c = running(2, 2, 2);
  Failure f;
  f.rank = 1;
  f.status = Signaled{11, true};
  c.take(event::Failed{2, f});
  c.ready(1);
  c.ready(2);
  CHECK(c.last<wire::Close>(1)->exit_code == 139);
}

TEST_CASE("coordinator: exit codes that no restart follows, and why there was none", "[rendezvous]") {
  struct Row {
    int max_restarts;
    int code;
    bool closed;
    const char* why;
  };
  for (const Row& row : {Row{3, 3, true, "exit code 3 is not one to restart for"}, Row{3, 4, false, ""},
                         Row{3, 137, true, "exit code 137 is not one to restart for"}, Row{0, 3, true, ""}}) {
    INFO(row.max_restarts << " " << row.code);
    Core c = running(2, 2, 2, row.max_restarts);
    c.config.hopeless_codes.set(3);
    c.config.hopeless_codes.set(137);
    c.fail(2, row.code);
    c.ready(1);
    c.ready(2);
    const auto close = c.last<wire::Close>(1);
    REQUIRE(close.has_value() == row.closed);
    if (!close) continue;
    CHECK(close->exit_code == row.code);
    CHECK(close->no_restart == row.why);
    CHECK(c.last<wire::Close>(2)->no_restart == row.why);
    if (row.max_restarts > 0) CHECK_THAT(close->reason, Catch::EndsWith(std::string("(") + row.why + ")"));
  }
  Core c = running(1, 1, 1, 1);
  c.fail(1, 4);
  c.ready(1);
  c.fail(1, 4);
  c.ready(1);
  REQUIRE(c.last<wire::Close>(1));
  CHECK(c.last<wire::Close>(1)->no_restart == "restart 1 of 1 was the last");
}

TEST_CASE("coordinator: a node that goes with its memory full is told so", "[rendezvous]") {
  const auto said = [](MemoryUse use, Duration before) { return memory_sentence({use, t0 - before}, t0); };
  CHECK(said({}, 1s).empty());
  CHECK(said({899, 1000, 0}, 1s).empty());
  CHECK(said({950, 1000, 0}, 1s) == ", memory at 95.0 % of its limit 1.0 s before");
  CHECK(said({997, 1000, 0}, 200ms) ==
        ", memory at 99.7 % of its limit 200 ms before: probably out of memory");
  CHECK(said({950, 1000, 2'000}, 200ms) ==
        ", memory at 95.0 % of its limit 200 ms before: probably out of memory");
  CHECK(said({1100, 1000, 0}, -1s) == ", memory at 100.0 % of its limit 0 ms before: probably out of memory");
  Core c = running(2, 2, 2);
  c.take(event::Cut{2, {{997, 1000, 0}, c.now - 200ms}});
  REQUIRE(c.last<wire::Stop>(1));
  CHECK_THAT(
      c.last<wire::Stop>(1)->reason,
      Catch::EndsWith("is gone: its process ended, memory at 99.7 % of its limit 200 ms before: probably "
                      "out of memory"));
  c.ready(1);
  c.now = c.wake;
  while (c.state.phase != Phase::Closed && c.wake != Time::max()) {
    c.now = std::max(c.now, c.wake);
    c.take(event::Tick{});
  }
  REQUIRE(c.last<wire::Close>(1));
  CHECK(c.last<wire::Close>(1)->exit_code == 75);
  CHECK_THAT(c.last<wire::Close>(1)->reason,
             Catch::Contains("probably out of memory; only 1 of 2 nodes were there"));
}

TEST_CASE("coordinator: MIN starts after the last call, MAX at once", "[rendezvous]") {
  Core c(2, 3);
  c.join(1, "a");
  c.join(2, "b");
  CHECK(c.state.phase == Phase::Gathering);
  CHECK_THAT(sentence(c.config, c.state, c.now),
             Catch::Contains("2 of 2..3 nodes joined: a, b") && Catch::Contains("30 s"));
  c.now += 29s;
  c.take(event::Tick{});
  CHECK(c.state.phase == Phase::Gathering);
  c.now += 1s;
  c.take(event::Tick{});
  CHECK(c.state.phase == Phase::Running);
  Core full(2, 2);
  full.join(1, "a");
  full.join(2, "b");
  CHECK(full.state.phase == Phase::Running);
}

TEST_CASE("coordinator: below MIN it says for whom it waits and what then", "[rendezvous]") {
  Core c(3, 3);
  c.join(1, "a");
  c.join(2, "b");
  c.now += 188s;
  c.take(event::Tick{});
  CHECK(sentence(c.config, c.state, c.now) ==
        "2 of 3 nodes joined: a, b; waiting for 1 more, 412 s left; then: exit 75");
  c.now = t0 + 600s;
  c.take(event::Tick{});
  CHECK(c.last<wire::Close>(1)->outcome == Outcome::NodesMissing);
  CHECK(c.last<wire::Close>(2)->exit_code == 75);
  std::size_t notices = 0;
  for (const auto& s : c.sent) notices += std::holds_alternative<wire::Notice>(s.message) ? 1u : 0u;
  CHECK(notices <= 10);
}

TEST_CASE("coordinator: with no restart left nobody waits longer than 30 s for a lost node", "[rendezvous]") {
  for (const int max_restarts : {0, 1}) {
    Core c = running(3, 3, 3, max_restarts);
    c.take(event::Cut{3});
    c.ready(1);
    c.ready(2);
    c.now += 31s;
    c.take(event::Tick{});
    CHECK((c.state.phase == Phase::Closed) == (max_restarts == 0));
  }
}

TEST_CASE("coordinator: a silent loss is fenced, a death is not", "[rendezvous]") {
  Core dead = running(1, 3, 3);
  dead.take(event::Cut{3});
  dead.ready(1);
  dead.ready(2);
  CHECK(dead.state.phase == Phase::Running);
  Core silent = running(1, 3, 3);
  silent.take(event::Silent{3});
  silent.ready(1);
  silent.ready(2);
  CHECK(silent.state.phase == Phase::Gathering);
  silent.now += fence_timeout(silent.config.timeouts);
  silent.take(event::Tick{});
  CHECK(silent.state.phase == Phase::Running);
}

TEST_CASE("coordinator: behind NAT a lost connection may come back", "[rendezvous]") {
  Core c(1, 2);
  c.take(event::Joined{1, c.hello("a"), Link{"10.0.0.1", "10.0.0.1", true, true}});
  c.take(event::Joined{2, c.hello("b"), Link{"192.0.2.1", "10.0.0.1", false, false}});
  REQUIRE(c.state.phase == Phase::Running);
  c.take(event::Cut{2});
  CHECK(c.state.phase == Phase::Running);
  SECTION("in time: nothing happens") {
    auto back = c.hello("b");
    back.ready = false;
    back.running = true;
    back.round = 0;
    c.now += 500ms;
    c.take(event::Joined{7, back, Link{"192.0.2.1", "10.0.0.1", false, false}});
    c.now += 5s;
    c.take(event::Tick{});
    CHECK(c.state.phase == Phase::Running);
    CHECK(c.state.round == 0);
  }
  SECTION("too late: it is lost") {
    c.now += 1s;
    c.take(event::Tick{});
    CHECK(c.state.phase == Phase::Stopping);
  }
}

TEST_CASE("coordinator: a node whose workers ended well may go", "[rendezvous]") {
  Core c = running(3, 3, 3);
  c.done(3);
  c.take(event::Cut{3});
  CHECK(c.state.phase == Phase::Running);
  c.done(1);
  c.done(2);
  CHECK(c.last<wire::Close>(1)->outcome == Outcome::Succeeded);
}

TEST_CASE("coordinator: a job that is about to end does not begin again for a newcomer", "[rendezvous]") {
  Core c = running(1, 3, 2);
  c.done(1);
  c.join(3, "n3");
  CHECK(c.state.phase == Phase::Running);
  c.done(2);
  CHECK(c.last<wire::Close>(1)->exit_code == 0);
  CHECK(c.last<wire::Close>(3)->exit_code == 0);
}

TEST_CASE("coordinator: spares wait, step in, and end with 0", "[rendezvous]") {
  Core c = running(2, 2, 2);
  c.join(3, "spare");
  CHECK(c.state.phase == Phase::Running);
  c.take(event::Cut{2});
  c.ready(1);
  CHECK(c.state.phase == Phase::Running);
  CHECK(c.last<wire::Start>(3)->world.group_rank == 1);
  c.join(4, "spare2");
  c.fail(1, 5);
  c.ready(1);
  c.ready(3);
  CHECK(c.last<wire::Close>(3)->exit_code == 5);
  CHECK(c.last<wire::Close>(4)->exit_code == 0);
}

TEST_CASE("coordinator: an interrupt ends all with 130, a late agent is told", "[rendezvous]") {
  Core c = running(2, 2, 2);
  c.take(event::Left{2, wire::Leave{Leaving::StopJob, "SIGINT"}});
  CHECK(c.last<wire::Close>(1)->exit_code == 130);
  CHECK(c.last<wire::Goodbye>(2));
  c.join(5, "late");
  CHECK(c.last<wire::Close>(5)->late);
}

TEST_CASE("coordinator: the host leaves, and says so to all", "[rendezvous]") {
  Core c = running(2, 3, 3);
  c.take(event::Left{1, wire::Leave{Leaving::Politely, "SIGTERM"}});
  CHECK_THAT(c.last<wire::Stop>(2)->reason, Catch::Contains("hosts the rendezvous"));
  CHECK(c.last<wire::Goodbye>(1));
}

TEST_CASE("coordinator: a polite leave is told at once, and the next round waits for its end",
          "[rendezvous]") {
  Core c = running(2, 3, 3);
  c.take(event::GoingAway{3, wire::GoingAway{"SIGTERM"}});
  CHECK(c.state.phase == Phase::Stopping);
  CHECK_THAT(c.last<wire::Stop>(2)->reason, Catch::Contains("n3 (10.0.0.3) leaves: SIGTERM"));
  CHECK_FALSE(c.last<wire::Stop>(3));  // it stops already
  c.ready(1);
  c.ready(2);
  CHECK(c.state.phase == Phase::Stopping);  // its workers may still live
  c.now = c.wake;
  c.take(event::Tick{});
  CHECK_THAT(c.last<wire::Notice>(1)->sentence, Catch::Contains("waiting for the workers to end on n3"));
  c.take(event::Left{3, wire::Leave{Leaving::Politely, "SIGTERM"}});
  CHECK(c.last<wire::Goodbye>(3));
  CHECK(c.state.round == 1);
  CHECK(c.state.restarts == 0);
}

TEST_CASE("coordinator: the host's leave ends with no new round that dies with it", "[rendezvous]") {
  Core c = running(2, 3, 3);
  c.take(event::GoingAway{1, wire::GoingAway{"SIGTERM"}});
  CHECK_THAT(c.last<wire::Stop>(2)->reason, Catch::Contains("hosts the rendezvous"));
  c.ready(2);
  c.ready(3);
  c.sent.clear();
  c.take(event::Left{1, wire::Leave{Leaving::Politely, "SIGTERM"}});
  CHECK(c.last<wire::Goodbye>(1));
  CHECK_FALSE(c.last<wire::Start>(2));
  c.now += 60s;
  c.take(event::Tick{});
  CHECK_FALSE(c.last<wire::Start>(2));
}

TEST_CASE("coordinator: who leaves after its workers ended well stops nobody", "[rendezvous]") {
  Core c = running(2, 2, 2);
  c.done(2);
  c.take(event::GoingAway{2, wire::GoingAway{"SIGTERM"}});
  c.take(event::Left{2, wire::Leave{Leaving::Politely, "SIGTERM"}});
  CHECK(c.state.phase == Phase::Running);
  c.done(1);
  CHECK(c.last<wire::Close>(1)->exit_code == 0);
}

TEST_CASE("coordinator: suspended is told to the others, and named while they wait", "[rendezvous]") {
  Core c = running(2, 2, 2);
  c.take(event::Suspended{2, true});
  CHECK_THAT(c.last<wire::Notice>(1)->sentence, Catch::Contains("n2 (10.0.0.2) is suspended"));
  CHECK_FALSE(c.last<wire::Notice>(2));
  CHECK_THAT(sentence(c.config, c.state, c.now), Catch::Contains("n2 (suspended)"));
  c.sent.clear();
  c.take(event::Suspended{2, true});  // nothing new
  CHECK(c.sent.empty());
  c.take(event::Suspended{2, false});
  CHECK_THAT(c.last<wire::Notice>(1)->sentence, Catch::Contains("goes on"));
}

TEST_CASE("coordinator: a fence gives every node all parts, by rank", "[rendezvous]") {
  Core c = running(3, 3, 3);
  const auto part = [&](MemberId id, const std::string& name, const std::string& blob) {
    c.take(event::FencePart{id, wire::Fence{0, name, blob}});
  };
  SECTION("all parts") {
    part(3, "f", "three");
    part(1, "f", "one");
    CHECK_FALSE(c.last<wire::Fenced>(1));
    part(2, "f", "two");
    for (const MemberId id : {1ul, 2ul, 3ul})
      CHECK(c.last<wire::Fenced>(id)->blobs == std::vector<std::string>{"one", "two", "three"});
    c.sent.clear();
    part(2, "f", "two");  // its connection was lost with the answer
    CHECK(c.last<wire::Fenced>(2)->total == 3);
    CHECK_FALSE(c.last<wire::Fenced>(1));
  }
  SECTION("long parts come in several messages") {
    for (const MemberId id : {1ul, 2ul, 3ul}) part(id, "f", std::string(limits::kFenceBlobBytesMax, 'x'));
    CHECK(c.last<wire::Fenced>(1)->blobs.size() == 3);
    Core many = running(12, 12, 12);
    for (MemberId id = 1; id <= 12; ++id)
      many.take(event::FencePart{id, wire::Fence{0, "f", std::string(limits::kFenceBlobBytesMax, 'x')}});
    int parts = 0;
    for (const auto& s : many.sent) {
      const auto* m = std::get_if<wire::Fenced>(&s.message);
      if (m == nullptr || s.to != 5) continue;
      CHECK(m->first == parts);
      CHECK(m->total == 12);
      CHECK(wire::encode(*m).size() < limits::kFrameBytesMax);
      parts += static_cast<int>(m->blobs.size());
    }
    CHECK(parts == 12);
  }
  SECTION("all parts together have a limit, and all nodes hear of it") {
    Core many = running(60, 60, 60);
    for (MemberId id = 1; id <= 60; ++id)
      many.take(event::FencePart{id, wire::Fence{0, "f", std::string(limits::kFenceBlobBytesMax, 'x')}});
    for (const MemberId id : {1ul, 60ul})
      CHECK_THAT(many.last<wire::Fenced>(id)->error, Catch::Contains("larger"));
    CHECK(many.state.fences.at("f").parts.empty());
  }
  SECTION("the number of open fences has a limit") {
    for (int i = 0; i < 64; ++i) part(1, "f" + std::to_string(i), "x");
    CHECK_FALSE(c.last<wire::Fenced>(1));
    part(1, "one more", "x");
    CHECK_FALSE(c.last<wire::Fenced>(1)->error.empty());
    part(2, "f0", "x");
    part(3, "f0", "x");
    CHECK(c.last<wire::Fenced>(3)->error.empty());
    c.sent.clear();
    part(1, "another", "x");  // one that is complete made room
    CHECK_FALSE(c.last<wire::Fenced>(1));
  }
  SECTION("a node that has gone gives no part") {
    part(1, "f", "one");
    c.done(3);
    c.take(event::Cut{3});
    CHECK_FALSE(c.last<wire::Fenced>(1)->error.empty());
    part(2, "g", "two");
    CHECK_FALSE(c.last<wire::Fenced>(2)->error.empty());
  }
  SECTION("not of this round, too large, not in the round: nothing") {
    c.take(event::FencePart{1, wire::Fence{7, "f", ""}});
    part(1, "f", std::string(limits::kFenceBlobBytesMax + 1, 'x'));
    part(99, "f", "x");
    CHECK(c.state.fences.empty());
  }
}

TEST_CASE("coordinator: nodes with one host name are told apart", "[rendezvous]") {
  struct Row {
    const char* name;
    bool hints;
    bool one_address;
    std::string names;
  };
  const std::vector<Row> rows{
      {"by node rank", true, true, "a, vm#0, vm#1"},
      {"by address", false, false, "a, vm (10.0.0.2), vm (10.0.0.3)"},
      {"by the order of joining", false, true, "a, vm#0, vm#1"},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    Core c(4, 4);
    c.join(1, "a");
    for (const MemberId id : {2ul, 3ul}) {
      auto h = c.hello("vm", row.hints ? std::optional<int>(3 - static_cast<int>(id)) : std::nullopt);
      h.incarnation = std::to_string(id);
      const std::string address = row.one_address ? "127.0.0.1" : "10.0.0." + std::to_string(id);
      c.take(event::Joined{id, h, Link{address, "10.0.0.1", true, false}});
    }
    CHECK_THAT(sentence(c.config, c.state, c.now), Catch::Contains("nodes joined: " + row.names + ";"));
  }
}

TEST_CASE("coordinator: a failure names the node that is meant", "[rendezvous]") {
  Core c(2, 2);
  for (const MemberId id : {1ul, 2ul}) {
    auto h = c.hello("vm");
    h.incarnation = std::to_string(id);
    c.take(event::Joined{id, h, Link{"127.0.0.1", "127.0.0.1", true, id == 1}});
  }
  Failure f;
  f.rank = 1;
  f.host = "vm";
  f.status = Exited{7};
  c.take(event::Failed{2, f});
  CHECK(c.last<wire::Stop>(1)->cause->host == "vm#1");
}

TEST_CASE("coordinator: a disagreement names both nodes with what their users wrote", "[rendezvous]") {
  Core c(2, 2);
  c.join(1, "ha");
  auto other = c.hello("hb");
  other.nnodes_min = other.nnodes_max = 3;
  c.take(event::Joined{2, other, Link{"10.0.0.2", "10.0.0.1", true, false}});
  const std::string want =
      "--nnodes differs: hb (10.0.0.2) has 3, the job at ha (10.0.0.1) has 2; start all nodes with the same "
      "options";
  CHECK(c.last<wire::Refused>(2)->sentence == want);
  REQUIRE(c.notes.size() == 1);
  CHECK(c.notes[0].sentence == "refused hb (10.0.0.2): " + want);
  CHECK(c.notes[0].stranger);
  CHECK_FALSE(c.notes[0].told);
}

TEST_CASE("coordinator: a second job with the same id hears that it is a spare, and that it ran nothing",
          "[rendezvous]") {
  Core c = running(2, 2, 2);
  c.config.run_id = "t";
  c.join(3, "other");
  const auto warned = c.last<wire::Notice>(3);
  REQUIRE(warned);
  CHECK_THAT(warned->sentence, Catch::Contains("spare of run id 't'") && Catch::Contains("n1 (10.0.0.1)") &&
                                   Catch::Contains("--rdzv-id"));
  c.done(1);
  c.done(2);
  CHECK_THAT(c.last<wire::Notice>(3)->sentence, Catch::Contains("ran no worker"));
  CHECK(c.last<wire::Close>(3)->exit_code == 0);
}

TEST_CASE("lines that strangers cause: each once in the gap, and not too many", "[rendezvous]") {
  LineLimiter limiter(60s, 3);
  CHECK(limiter.may_say("a", t0));
  CHECK_FALSE(limiter.may_say("a", t0 + 59s));
  CHECK(limiter.may_say("b", t0 + 1s));
  CHECK(limiter.may_say("c", t0 + 2s));
  CHECK_FALSE(limiter.may_say("d", t0 + 3s));
  CHECK(limiter.may_say("a", t0 + 60s));
  CHECK(limiter.may_say("e", t0 + 62s));
}

TEST_CASE("coordinator: a fresh one goes on with the rounds and restarts of its members", "[rendezvous]") {
  Core c(2, 2, 3);
  c.join(1, "a");
  auto survivor = c.hello("b");
  survivor.epoch = 4;
  survivor.round = 6;
  survivor.round_size = 2;
  survivor.restart_count = 2;
  c.take(event::Joined{2, survivor, Link{"10.0.0.2", "10.0.0.1", true, false}});
  const auto start = c.last<wire::Start>(2);
  REQUIRE(start);
  CHECK(start->world.round == 7);
  CHECK(start->epoch == 5);
  CHECK(start->world.restart_count == 2);
}

TEST_CASE("coordinator: a fresh one waits for a job that has run no longer than its last one would have",
          "[rendezvous]") {
  for (const int min : {1, 2}) {
    Core c(min, 2, 0);
    auto survivor = c.hello("b");
    survivor.epoch = 1;
    survivor.round = 0;
    survivor.round_size = 2;
    c.take(event::Joined{2, survivor, Link{"10.0.0.2", "10.0.0.1", true, true}});
    CHECK(c.state.phase ==
          (min == 1 ? Phase::Running : Phase::Gathering));  // enough are here: no last call again
    c.now += 31s;
    c.take(event::Tick{});
    if (min == 2) CHECK(c.last<wire::Close>(2)->exit_code == 75);
  }
}

TEST_CASE("placement: natural order", "[rendezvous]") {
  const std::vector<std::string> sorted{"", "n", "n1", "n01", "n2", "n2a", "n10", "n10x", "node", "z"};
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    for (std::size_t j = 0; j < sorted.size(); ++j) {
      INFO(sorted[i] << " < " << sorted[j]);
      if (sorted[i] == "n1" || sorted[j] == "n1") continue;  // against n01 only the text decides
      CHECK(natural_less(sorted[i], sorted[j]) == (i < j));
    }
  }
}

TEST_CASE("placement: who gets which group rank", "[rendezvous]") {
  struct Node {
    MemberId id;
    const char* host;
    std::optional<int> hint;
  };
  struct Row {
    const char* name;
    std::vector<Node> nodes;  // id 1 owns the endpoint
    std::vector<MemberId> by_rank;
  };
  const std::vector<Row> rows{
      {"endpoint's host first, then by name", {{3, "n10", {}}, {2, "n2", {}}, {1, "z", {}}}, {1, 2, 3}},
      {"unique hints", {{1, "a", 2}, {2, "b", 0}, {3, "c", 1}}, {2, 3, 1}},
      {"hints from 1", {{1, "a", 3}, {2, "b", 1}, {3, "c", 2}}, {2, 3, 1}},
      {"equal hints are none", {{3, "c", 0}, {1, "x", 0}, {2, "b", 0}}, {1, 2, 3}},
      {"some without: none", {{3, "c", 0}, {1, "x", 1}, {2, "b", {}}}, {1, 2, 3}},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    Core c(3, 3);
    for (const Node& n : row.nodes) c.join(n.id, n.host, n.hint);
    REQUIRE(c.state.phase == Phase::Running);
    for (std::size_t i = 0; i < row.by_rank.size(); ++i) {
      CHECK(c.last<wire::Start>(row.by_rank[i])->world.group_rank == static_cast<int>(i));
    }
  }
}

TEST_CASE("placement: survivors keep their ranks, a newcomer fills the hole", "[rendezvous]") {
  Core c = running(2, 3, 3);
  c.take(event::Cut{2});
  c.join(9, "a-new-one");
  c.ready(1);
  c.ready(3);
  CHECK(c.last<wire::Start>(1)->world.group_rank == 0);
  CHECK(c.last<wire::Start>(9)->world.group_rank == 1);
  CHECK(c.last<wire::Start>(3)->world.group_rank == 2);
}

TEST_CASE("placement: different sizes and roles", "[rendezvous]") {
  Core c(3, 3);
  const int sizes[] = {1, 3, 2};
  const char* roles[] = {"train", "eval", "train"};
  for (int i = 0; i < 3; ++i) {
    auto h = c.hello("n" + std::to_string(i));
    h.local_world_size = sizes[i];
    h.role = roles[i];
    c.take(event::Joined{static_cast<MemberId>(i + 1), h, Link{"10.0.0.1", "10.0.0.1", true, i == 0}});
  }
  const auto world = [&](MemberId id) { return c.last<wire::Start>(id)->world; };
  CHECK(world(1).world_size == 6);
  CHECK(world(2).base_rank == 1);
  CHECK(world(3).base_rank == 4);
  CHECK(world(3).base_role_rank == 1);
  CHECK(world(3).role_world_size == 3);
  CHECK(world(2).base_role_rank == 0);
  CHECK(world(2).role_world_size == 3);
}

TEST_CASE("placement: the advertised address is one that the others reach", "[rendezvous]") {
  Core c(2, 2);
  auto host = c.hello("a");
  host.own_local = "127.0.0.1 4000";  // its own name means 127.0.1.1 there
  c.take(event::Joined{1, host, Link{"127.0.0.1", "127.0.0.1", true, true}});
  auto guest = c.hello("b");
  guest.own_local = "10.77.0.2 5000";
  c.take(event::Joined{2, guest, Link{"10.77.0.2", "10.77.0.1", true, false}});
  CHECK(c.last<wire::Start>(2)->world.master_addr == "10.77.0.1");
}
