// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <vector>

#include "rendezvous/member.hpp"

using namespace cxxrun;
using namespace cxxrun::rendezvous;

namespace {

struct Local {
  EventLoop loop;
  std::vector<MemberEvent> events;
  std::unique_ptr<Member> member;

  explicit Local(int max_restarts) {
    Config config;
    config.run_id = "t";
    config.local_world_size = 2;
    config.max_restarts = max_restarts;
    config.host_name = "ha";
    member = make_member(loop, config, [this](MemberEvent e) { events.push_back(std::move(e)); });
  }
  template <class T>
  T next() {
    const Time limit = EventLoop::now() + 10s;
    while (events.empty() && EventLoop::now() < limit) loop.run_once(limit);
    REQUIRE_FALSE(events.empty());
    MemberEvent e = std::move(events.front());
    events.erase(events.begin());
    REQUIRE(std::holds_alternative<T>(e));
    return std::get<T>(std::move(e));
  }
};

Failure exit_7(std::int64_t round) {
  Failure f;
  f.round = round;
  f.rank = 1;
  f.host = "ha";
  f.status = Exited{7};
  return f;
}

}  // namespace

TEST_CASE("local: a round that ends well", "[rendezvous]") {
  Local job(0);
  job.member->ready(4711);
  const auto started = job.next<Started>();
  CHECK(started.world.round == 0);
  CHECK(started.world.world_size == 2);
  CHECK(started.world.role_world_size == 2);
  CHECK(started.world.master_addr == "127.0.0.1");
  CHECK(started.world.master_port == 4711);
  job.member->done(0);
  const auto closed = job.next<Closed>();
  CHECK(closed.outcome == Outcome::Succeeded);
  CHECK(closed.exit_code == 0);
}

TEST_CASE("local: a failure restarts, the next one ends the job with its own code", "[rendezvous]") {
  Local job(1);
  job.member->ready(1);
  job.next<Started>();
  job.member->failed(exit_7(0));
  const auto stopped = job.next<Stopped>();
  CHECK(stopped.cause->status == ExitStatus(Exited{7}));
  job.member->ready(2);
  const auto again = job.next<Started>();
  CHECK(again.world.round == 1);
  CHECK(again.world.restart_count == 1);
  CHECK(again.world.master_port == 2);
  job.member->failed(exit_7(1));
  job.next<Stopped>();
  job.member->ready(3);
  const auto closed = job.next<Closed>();
  CHECK(closed.outcome == Outcome::Failed);
  CHECK(closed.exit_code == 7);
  CHECK(closed.root_cause->rank == 1);
}

TEST_CASE("local: a fence of one node comes back", "[rendezvous]") {
  Local job(0);
  CHECK_FALSE(job.member->fence("f", "x"));
  job.member->ready(1);
  job.next<Started>();
  CHECK(job.member->fence("f", "x"));
  CHECK(job.next<Fenced>().blobs == std::vector<std::string>{"x"});
}

TEST_CASE("local: Ctrl-C closes with 130 and says goodbye", "[rendezvous]") {
  Local job(0);
  job.member->ready(1);
  job.next<Started>();
  bool gone = false;
  job.member->leave(Leaving::StopJob, "SIGINT", 1s, [&] { gone = true; });
  CHECK_FALSE(gone);
  CHECK(job.next<Closed>().exit_code == 130);
  const Time limit = EventLoop::now() + 10s;
  while (!gone && EventLoop::now() < limit) job.loop.run_once(limit);
  CHECK(gone);
}
