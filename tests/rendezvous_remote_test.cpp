// SPDX-License-Identifier: Apache-2.0
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/limits.hpp"
#include "net/frame.hpp"
#include "net/socket.hpp"
#include "rendezvous/coordinator_server.hpp"
#include "rendezvous/member.hpp"
#include "rendezvous/message.hpp"

using namespace cxxrun;
using namespace cxxrun::rendezvous;

namespace {

constexpr Duration kLimit = 20s;

std::uint16_t free_port() {
  const auto listener = net::listen(net::parse_address("127.0.0.1"), 0);
  return listener->port;
}

/// Several agents in one process, on one loop; each hosted coordinator has its own thread.
struct Job {
  struct Agent {
    std::unique_ptr<Member> member;
    std::deque<MemberEvent> events;
    std::vector<std::string> words;
  };
  EventLoop loop;
  Config config;
  std::deque<Agent> agents;

  explicit Job(int nodes, int max_restarts = 0) {
    config.backend = BackendKind::C10d;
    config.endpoint = {"127.0.0.1", free_port()};
    config.run_id = "t";
    config.nnodes_min = config.nnodes_max = nodes;
    config.max_restarts = max_restarts;
    config.timeouts.join = 15s;
    config.timeouts.rejoin = 1s;
  }
  Agent& add(const std::string& host) {
    Config own = config;
    own.host_name = host;
    return add(own);
  }
  Agent& add(const Config& own) {
    Agent& agent = agents.emplace_back();
    agent.member = make_member(loop, own, [&agent](MemberEvent e) {
      if (const auto* w = std::get_if<Waiting>(&e)) {
        agent.words.push_back(w->sentence);
      } else {
        agent.events.push_back(std::move(e));
      }
    });
    return agent;
  }
  bool until(const std::function<bool()>& what, Duration within = kLimit) {
    const Time limit = EventLoop::now() + within;
    while (!what() && EventLoop::now() < limit) loop.run_once(limit);
    return what();
  }
  template <class T>
  T next(Agent& agent) {
    until([&] { return !agent.events.empty(); });
    REQUIRE_FALSE(agent.events.empty());
    MemberEvent e = std::move(agent.events.front());
    agent.events.pop_front();
    if (const auto* closed = std::get_if<Closed>(&e)) INFO("closed: " << closed->reason);
    REQUIRE(std::holds_alternative<T>(e));
    return std::get<T>(std::move(e));
  }
  /// All say ready with store ports 1000, 1001, ...; gives the worlds by agent.
  std::vector<World> start() {
    std::vector<World> worlds;
    for (std::size_t i = 0; i < agents.size(); ++i)
      agents[i].member->ready(static_cast<std::uint16_t>(1000 + i));
    for (auto& agent : agents) worlds.push_back(next<Started>(agent).world);
    return worlds;
  }
};

Failure failure(std::int64_t round, int rank, int code) {
  Failure f;
  f.round = round;
  f.rank = rank;
  f.host = "h" + std::to_string(rank);
  f.pid = 4711;
  f.status = Exited{code};
  f.last_words = {"one", "two"};
  return f;
}

/// A stranger on the port.
UniqueFd stranger(std::uint16_t port, std::string_view bytes) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto to = net::socket_address(*net::parse_address("127.0.0.1"), port);
  REQUIRE(::connect(fd.get(), to.get(), to.size) == 0);
  (void)!::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  return fd;
}
std::string read_all(int fd) {
  const timeval limit{20, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  std::string out;
  char buffer[4096];
  for (ssize_t n; (n = ::recv(fd, buffer, sizeof buffer, 0)) > 0;)
    out.append(buffer, static_cast<std::size_t>(n));
  return out;
}

}  // namespace

TEST_CASE("c10d: three nodes, one round, all done", "[rendezvous]") {
  Job job(3);
  for (const char* host : {"n10", "n2", "n1"}) job.add(host);
  const auto worlds = job.start();
  std::vector<int> ranks;
  for (const auto& w : worlds) {
    ranks.push_back(w.group_rank);
    CHECK(w.round == 0);
    CHECK(w.group_world_size == 3);
    CHECK(w.world_size == 3);
    CHECK(w.base_rank == w.group_rank);
    CHECK(w.master_addr == "127.0.0.1");
    CHECK(w.master_port == worlds[0].master_port);
    CHECK(w.agent_store);
  }
  std::sort(ranks.begin(), ranks.end());
  CHECK(ranks == std::vector{0, 1, 2});
  for (auto& agent : job.agents) agent.member->done(0);
  for (auto& agent : job.agents) CHECK(job.next<Closed>(agent).outcome == Outcome::Succeeded);
}

TEST_CASE("c10d: a failure reaches all nodes, restarts all, and ends the job at the second time",
          "[rendezvous]") {
  Job job(2, 1);
  job.add("a");
  job.add("b");
  const auto first = job.start();
  job.agents[1].member->failed(failure(0, 1, 7));
  for (auto& agent : job.agents) {
    const auto stopped = job.next<Stopped>(agent);
    CHECK(stopped.cause->status == ExitStatus(Exited{7}));
    CHECK(stopped.cause->last_words.size() == 2);
  }
  const auto second = job.start();
  CHECK(second[0].round == 1);
  CHECK(second[0].restart_count == 1);
  CHECK(second[1].restart_count == 1);
  CHECK(second[0].group_rank == first[0].group_rank);
  job.agents[0].member->failed(failure(1, 0, 3));
  for (auto& agent : job.agents) job.next<Stopped>(agent);
  for (auto& agent : job.agents) agent.member->ready(1);
  for (auto& agent : job.agents) {
    const auto closed = job.next<Closed>(agent);
    CHECK(closed.outcome == Outcome::Failed);
    CHECK(closed.exit_code == 3);
    CHECK(closed.root_cause->rank == 0);
  }
}

TEST_CASE("c10d: the death of a guest stops the others at once, and costs no restart", "[rendezvous]") {
  Job job(2);
  job.config.nnodes_min = 1;
  job.add("a");
  job.add("b");
  job.start();
  job.agents[1].member.reset();
  CHECK_FALSE(job.next<Stopped>(job.agents[0]).cause);
  job.agents[0].member->ready(7);
  const auto world = job.next<Started>(job.agents[0]).world;
  CHECK(world.group_world_size == 1);
  CHECK(world.round == 1);
  CHECK(world.restart_count == 0);
}

TEST_CASE("c10d: below MIN all that are left end with 75", "[rendezvous]") {
  Job job(2);
  job.add("a");
  job.add("b");
  job.start();
  job.agents[1].member.reset();
  job.next<Stopped>(job.agents[0]);
  job.agents[0].member->ready(7);
  const auto closed = job.next<Closed>(job.agents[0]);
  CHECK(closed.outcome == Outcome::NodesMissing);
  CHECK(closed.exit_code == 75);
}

TEST_CASE("c10d: the death of the host stops the guests, who wait for the endpoint", "[rendezvous]") {
  Job job(2);
  job.config.timeouts.rejoin = 10s;
  job.add("a").member->ready(1);  // first to bind
  job.until([&] { return !job.agents[0].words.empty(); });
  job.add("b").member->ready(2);
  for (auto& agent : job.agents) job.next<Started>(agent);
  job.agents[0].member.reset();
  job.next<Stopped>(job.agents[1]);
  job.agents[1].member->ready(2);
  job.add("a").member->ready(3);  // the node's new agent
  CHECK(job.next<Started>(job.agents[1]).world.round == 1);
  CHECK(job.next<Started>(job.agents[2]).world.round == 1);
}

TEST_CASE("c10d: Ctrl-C on one node ends all with 130; a polite leave does not", "[rendezvous]") {
  Job job(2);
  job.config.nnodes_min = 1;
  job.config.timeouts.last_call = 10s;
  job.add("a").member->ready(1);
  job.until([&] { return !job.agents[0].words.empty(); });
  job.add("b").member->ready(2);
  for (auto& agent : job.agents) job.next<Started>(agent);
  bool gone = false;
  job.agents[1].member->leave(Leaving::Politely, "SIGTERM", 5s, [&] { gone = true; });
  CHECK(job.until([&] { return gone; }));
  job.next<Stopped>(job.agents[0]);
  job.agents[0].member->ready(3);
  CHECK(job.next<Started>(job.agents[0]).world.group_world_size == 1);
  job.add("b").member->ready(4);
  CHECK(job.next<Stopped>(job.agents[0]).reason.find("joined") != std::string::npos);
  job.agents[0].member->ready(5);
  job.next<Started>(job.agents[0]);
  job.next<Started>(job.agents[2]);
  job.agents[2].member->leave(Leaving::StopJob, "SIGINT", 5s, [] {});
  CHECK(job.next<Closed>(job.agents[0]).exit_code == 130);
  CHECK(job.next<Closed>(job.agents[2]).exit_code == 130);
}

TEST_CASE("c10d: a node that disagrees is refused with both values", "[rendezvous]") {
  struct Row {
    const char* name;
    std::function<void(Config&)> change;
    std::vector<std::string> words;
    int exit_code;
  };
  const std::vector<Row> rows{
      {"run id", [](Config& c) { c.run_id = "other"; }, {"'other'", "'t'", "wrong run id"}, 69},
      {"nnodes", [](Config& c) { c.nnodes_max = 5; }, {"has 2:5", "has 2;"}, 69},
      {"restarts", [](Config& c) { c.max_restarts = 9; }, {"9", "--max-restarts"}, 69},
      {"token", [](Config& c) { c.token = "secret"; }, {"wrong token"}, 69},
      {"backend",
       [](Config& c) {
         c.backend = BackendKind::Static;
         c.node_rank = 1;
       },
       {"static", "c10d"},
       69},
  };
  Job job(2);
  job.add("a").member->ready(1);
  job.until([&] { return !job.agents[0].words.empty(); });
  for (const Row& row : rows) {
    INFO(row.name);
    Config other = job.config;
    row.change(other);
    auto& agent = job.add(other);
    agent.member->ready(2);
    const auto closed = job.next<Closed>(agent);
    CHECK(closed.outcome == Outcome::Refused);
    CHECK(closed.exit_code == row.exit_code);
    for (const auto& word : row.words) CHECK_THAT(closed.reason, Catch::Contains(word));
  }
}

TEST_CASE("c10d: a job with a token admits those who know it only", "[rendezvous]") {
  Job job(2);
  job.config.token = "s3cret";
  job.add("a").member->ready(1);
  job.until([&] { return !job.agents[0].words.empty(); });
  for (const char* token : {"", "wrong"}) {
    Config other = job.config;
    other.token = token;
    auto& agent = job.add(other);
    agent.member->ready(2);
    CHECK_THAT(job.next<Closed>(agent).reason, Catch::Contains("wrong token"));
  }
  auto& right = job.add("b");
  right.member->ready(3);
  job.next<Started>(right);
  job.next<Started>(job.agents[0]);
}

TEST_CASE("c10d: a loopback endpoint where other hosts are known is a usage error", "[rendezvous]") {
  Job job(2);
  job.config.other_hosts_known = true;
  job.add("a").member->ready(1);
  CHECK(job.next<Closed>(job.agents[0]).exit_code == 2);
}

TEST_CASE("c10d: a port taken by no rendezvous has its own sentence", "[rendezvous]") {
  Job job(2);
  auto other = net::listen(net::parse_address("127.0.0.1"), job.config.endpoint.port);
  REQUIRE(other);
  UniqueFd accepted;
  const auto watch = job.loop.watch(other->fd.get(), EPOLLIN, [&](std::uint32_t) {
    auto socket = net::accept(other->fd.get());
    if (!socket || !*socket) return;
    accepted = std::move(**socket);
    (void)!::send(accepted.get(), "SSH-2.0\r\n", 9, MSG_NOSIGNAL);
  });
  job.add("a").member->ready(1);
  const auto closed = job.next<Closed>(job.agents[0]);
  CHECK(closed.exit_code == 69);
  CHECK_THAT(closed.reason, Catch::Contains("no rendezvous"));
}

TEST_CASE("c10d: nobody at the endpoint and a name that never resolves have their own sentences",
          "[rendezvous]") {
  Job job(2);
  job.config.timeouts.join = 1500ms;
  job.config.is_host = false;
  job.add("a").member->ready(1);
  const auto refused = job.next<Closed>(job.agents[0]);
  CHECK(refused.exit_code == 69);
  CHECK_THAT(refused.reason, Catch::Contains("refused"));
  CHECK(job.agents[0].words.size() <= 5);
  job.config.endpoint.host = "no-such-host.invalid";
  auto& agent = job.add("b");
  agent.member->ready(1);
  CHECK_THAT(job.next<Closed>(agent).reason, Catch::Contains("cannot resolve"));
}

TEST_CASE("c10d: strangers on the port disturb nothing", "[rendezvous]") {
  Job job(2);
  const std::uint16_t port = job.config.endpoint.port;
  job.add("a").member->ready(1);
  job.until([&] { return job.agents[0].words.size() >= 2; });  // it listens, and it waits for one more
  const auto random = stranger(port, std::string(65536, '\xff'));
  const auto tls = stranger(port, std::string("\x16\x03\x01\x02\x00", 5));
  const auto huge = stranger(port, std::string("CXR1\xff\xff\xff\xff", 8));
  const auto silent = stranger(port, "");
  const auto half = stranger(port, "CX");
  const auto health = stranger(port, "GET /healthz HTTP/1.1\r\n\r\n");
  const auto status = stranger(port, "GET /status HTTP/1.1\r\nHost: x\r\n\r\n");
  CHECK_THAT(read_all(health.get()), Catch::Contains("200 OK"));
  CHECK_THAT(read_all(status.get()), Catch::Contains("waiting for 1 more"));
  CHECK(read_all(random.get()).empty());
  CHECK(read_all(tls.get()).empty());
  CHECK(read_all(huge.get()).empty());
  CHECK(read_all(silent.get()).empty());  // closed after the hello time-out
  CHECK(read_all(half.get()).empty());
  job.add("b").member->ready(2);
  for (auto& agent : job.agents) job.next<Started>(agent);
}

TEST_CASE("c10d: strangers and refusals reach the console of the host, each once", "[rendezvous]") {
  Job job(2);
  job.config.token = "s3cret";
  const std::uint16_t port = job.config.endpoint.port;
  auto& host = job.add("a");
  host.member->ready(1);
  job.until([&] { return host.words.size() >= 2; });
  const auto said = [&](const std::string& what) {
    return std::count_if(host.words.begin(), host.words.end(),
                         [&](const std::string& w) { return w.find(what) != std::string::npos; });
  };
  for (int i = 0; i < 20; ++i) {
    CHECK(read_all(stranger(port, std::string("\x16\x03\x01", 3)).get()).empty());
    CHECK(read_all(stranger(port, "\x7f").get()).empty());
  }
  CHECK(job.until([&] { return said("a client at 127.0.0.1 speaks TLS") == 1; }));
  CHECK(job.until([&] { return said("no protocol of it") == 1; }));
  Config other = job.config;
  other.token = "wrong";
  other.is_host = false;
  auto& wrong = job.add(other);
  wrong.member->ready(2);
  CHECK_THAT(job.next<Closed>(wrong).reason, Catch::Contains("wrong token"));
  other.token = job.config.token;
  other.run_id = "other";
  auto& lost = job.add(other);
  lost.member->ready(2);
  job.next<Closed>(lost);
  CHECK(job.until([&] { return said("went when it was asked for the token") == 1; }));
  CHECK(job.until([&] { return said("wrong run id") == 1; }));
  CHECK(said("speaks TLS") == 1);
}

TEST_CASE("c10d: a fence over the wire, larger than one message", "[rendezvous]") {
  Job job(6);
  for (int i = 0; i < 6; ++i) job.add("n" + std::to_string(i));
  CHECK_FALSE(job.agents[0].member->fence("f", ""));  // no round yet
  const auto worlds = job.start();
  CHECK_FALSE(job.agents[0].member->fence("", "x"));
  CHECK_FALSE(job.agents[0].member->fence("f", std::string(limits::kFenceBlobBytesMax + 1, 'x')));
  const auto blob = [](int rank) {
    return std::string(limits::kFenceBlobBytesMax, static_cast<char>(rank));  // any bytes, zeros too
  };
  for (std::size_t i = 0; i < 6; ++i) CHECK(job.agents[i].member->fence("f", blob(worlds[i].group_rank)));
  for (auto& agent : job.agents) {
    const auto all = job.next<Fenced>(agent);
    CHECK(all.name == "f");
    REQUIRE(all.blobs.size() == 6);
    for (int rank = 0; rank < 6; ++rank) CHECK(all.blobs[static_cast<std::size_t>(rank)] == blob(rank));
  }
}

TEST_CASE("c10d: a leave is told at once, and confirmed when the workers are gone", "[rendezvous]") {
  Job job(3);
  job.config.nnodes_min = 2;
  for (const char* host : {"a", "b", "c"}) job.add(host);
  job.start();
  std::size_t guest = 0;
  const auto hosts = [&](std::size_t i) {
    return std::any_of(job.agents[i].words.begin(), job.agents[i].words.end(),
                       [](const std::string& w) { return w.find("listens at") != std::string::npos; });
  };
  while (hosts(guest)) ++guest;
  job.agents[guest].member->announce_leaving("SIGTERM");
  for (std::size_t i = 0; i < 3; ++i) {
    if (i == guest) continue;
    CHECK_THAT(job.next<Stopped>(job.agents[i]).reason, Catch::Contains("leaves: SIGTERM"));
    job.agents[i].member->ready(7);
  }
  CHECK(job.agents[guest].events.empty());
  bool gone = false;
  job.agents[guest].member->leave(Leaving::Politely, "SIGTERM", 5s, [&] { gone = true; });
  CHECK(job.until([&] { return gone; }));
  for (std::size_t i = 0; i < 3; ++i) {
    if (i != guest) CHECK(job.next<Started>(job.agents[i]).world.group_world_size == 2);
  }
}

TEST_CASE("c10d: who said that it is suspended may be silent", "[rendezvous]") {
  for (const bool says_so : {true, false}) {
    Job job(2);
    job.config.timeouts.keep_alive_interval = 50ms;
    job.config.timeouts.rejoin = 20s;
    job.add("a").member->ready(1);
    job.until([&] { return job.agents[0].words.size() >= 2; });
    wire::Hello hello;
    hello.run_id = "t";
    hello.incarnation = "b";
    hello.host_name = "b";
    hello.nnodes_min = hello.nnodes_max = 2;
    hello.ready = true;
    const auto silent = stranger(job.config.endpoint.port, "CXR1" + net::frame(wire::encode(hello)));
    job.next<Started>(job.agents[0]);
    if (says_so) {
      const std::string word = net::frame(wire::encode(wire::Suspended{true}));
      (void)!::send(silent.get(), word.data(), word.size(), MSG_NOSIGNAL);
      CHECK(job.until([&] { return job.agents[0].words.back().find("b (127.0.0.1) is suspended") == 0; }));
      CHECK_FALSE(job.until([&] { return !job.agents[0].events.empty(); }, 1s));  // five times the limit
    } else {
      CHECK_THAT(job.next<Stopped>(job.agents[0]).reason, Catch::Contains("nothing heard"));
    }
  }
}

TEST_CASE("the thread of a hosted coordinator starts with its first client", "[rendezvous]") {
  const auto threads = [] {
    const auto tasks = std::filesystem::directory_iterator("/proc/self/task");
    return std::distance(begin(tasks), end(tasks));
  };
  EventLoop loop;
  const auto before = threads();
  std::vector<net::Listener> listeners;
  listeners.push_back(std::move(*net::listen(net::parse_address("127.0.0.1"), 0)));
  const std::uint16_t port = listeners.front().port;
  CoordinatorServer::Options options;
  options.core.run_id = "t";
  auto server = CoordinatorServer::start(
      loop, std::move(listeners), options,
      {[](UniqueFd, std::vector<std::uint8_t>) {}, [](std::string) {}, [](const Error&) {}});
  REQUIRE(server);
  CHECK(threads() == before);
  const auto client = stranger(port, "GET /healthz HTTP/1.1\r\n\r\n");
  loop.run_once(EventLoop::now() + kLimit);
  CHECK_THAT(read_all(client.get()), Catch::Contains("200 OK"));
  CHECK(threads() == before + 1);
}

TEST_CASE("c10d: what is on a foreign port is said", "[rendezvous]") {
  Job job(2);
  auto other = net::listen(net::parse_address("127.0.0.1"), job.config.endpoint.port);
  REQUIRE(other);
  std::string answer;
  std::vector<UniqueFd> taken;
  const auto watch = job.loop.watch(other->fd.get(), EPOLLIN, [&](std::uint32_t) {
    auto socket = net::accept(other->fd.get());
    if (!socket || !*socket) return;
    (void)!::send((*socket)->get(), answer.data(), answer.size(), MSG_NOSIGNAL);
    taken.push_back(std::move(**socket));
  });
  SECTION("HTTP") {
    answer = "HTTP/1.1 400 Bad Request\r\n\r\n";
    job.add("a").member->ready(1);
    const auto closed = job.next<Closed>(job.agents[0]);
    CHECK(closed.exit_code == 69);
    CHECK_THAT(closed.reason, Catch::Contains("no rendezvous") && Catch::Contains("HTTP?"));
  }
  SECTION("nothing: a line first, then the end, though join_timeout is long") {
    job.config.timeouts.join = 600s;
    job.add("a").member->ready(1);
    CHECK(job.until([&] { return !job.agents[0].words.empty(); }));
    CHECK_THAT(job.agents[0].words.at(0), Catch::Contains("has said nothing for 1 s"));
    CHECK(job.agents[0].events.empty());
    const auto closed = job.next<Closed>(job.agents[0]);
    CHECK(closed.exit_code == 69);
    CHECK_THAT(closed.reason, Catch::Contains("taken by a program that is no rendezvous"));
  }
}

TEST_CASE("c10d: a program of this host that closes every connection ends the wait soon", "[rendezvous]") {
  Job job(2);
  job.config.timeouts.join = 600s;
  auto other = net::listen(net::parse_address("127.0.0.1"), job.config.endpoint.port);
  REQUIRE(other);
  const auto watch =
      job.loop.watch(other->fd.get(), EPOLLIN, [&](std::uint32_t) { (void)net::accept(other->fd.get()); });
  job.add("a").member->ready(1);
  const auto closed = job.next<Closed>(job.agents[0]);
  CHECK(closed.exit_code == 69);
  CHECK_THAT(closed.reason, Catch::Contains("taken by a program that is no rendezvous"));
}

TEST_CASE("c10d: fifty nodes at once", "[rendezvous]") {
  Job job(50);
  for (int i = 0; i < 50; ++i) job.add("n" + std::to_string(i));
  const auto worlds = job.start();
  std::vector<int> ranks;
  for (const auto& w : worlds) ranks.push_back(w.group_rank);
  std::sort(ranks.begin(), ranks.end());
  for (int i = 0; i < 50; ++i) CHECK(ranks[static_cast<std::size_t>(i)] == i);
  for (auto& agent : job.agents) agent.member->done(0);
  for (auto& agent : job.agents) CHECK(job.next<Closed>(agent).exit_code == 0);
}

TEST_CASE("static: ranks are the node ranks, MASTER_ADDR and MASTER_PORT the user's", "[rendezvous]") {
  Job job(3);
  job.config.backend = BackendKind::Static;
  job.config.endpoint.host = "localhost";
  for (const int node_rank : {2, 0, 1}) {
    job.config.node_rank = node_rank;
    job.add("same");
  }
  const auto worlds = job.start();
  CHECK(worlds[0].group_rank == 2);
  CHECK(worlds[1].group_rank == 0);
  CHECK(worlds[2].group_rank == 1);
  for (const auto& w : worlds) {
    CHECK(w.master_addr == "localhost");
    CHECK(w.master_port == job.config.endpoint.port);
  }
  const auto client = stranger(job.config.endpoint.port, std::string("\x00\xCE\xF7\x85\x3C", 5));
  const auto given = job.next<StoreClient>(job.agents[1]);
  CHECK(given.first == std::vector<std::uint8_t>{0x00, 0xCE, 0xF7, 0x85, 0x3C});
  CHECK(given.socket);
}

TEST_CASE("static: a rank that is taken or out of range is refused by name", "[rendezvous]") {
  Job job(2);
  job.config.backend = BackendKind::Static;
  job.config.node_rank = 0;
  job.add("first").member->ready(1);
  job.config.node_rank = 5;
  auto& wrong = job.add("b");
  wrong.member->ready(1);
  CHECK_THAT(job.next<Closed>(wrong).reason, Catch::Contains("out of range"));
  job.config.nnodes_max = job.config.nnodes_min = 2;
  job.config.node_rank = 0;
  auto& twin = job.add("c");
  twin.member->ready(1);
  const auto closed = job.next<Closed>(twin);  // it wants to host as well, and cannot
  CHECK(closed.outcome == Outcome::Refused);
  CHECK_THAT(closed.reason, Catch::Contains("taken"));
}
