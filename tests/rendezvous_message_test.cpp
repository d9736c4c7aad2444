// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/message.hpp"

#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/limits.hpp"
#include "rendezvous/hosting.hpp"
#include "rendezvous/secret.hpp"
#include "rendezvous/status_page.hpp"

using namespace cxxrun;
using namespace cxxrun::rendezvous;
using namespace cxxrun::rendezvous::wire;

namespace {

Failure a_failure() {
  Failure f;
  f.round = 3;
  f.rank = 5;
  f.local_rank = 1;
  f.group_rank = 2;
  f.host = "ha";
  f.pid = 4711;
  f.status = Signaled{11, true};
  f.message = "boom \xff\xfe";
  f.own_exception = true;
  f.last_words = {"one", "two \x80"};
  f.age = 12ms;
  return f;
}

std::vector<Message> one_of_each() {
  World w;
  w.round = 4;
  w.group_rank = 1;
  w.group_world_size = 2;
  w.base_rank = 3;
  w.world_size = 6;
  w.master_addr = "fd77::1";
  w.master_port = 29500;
  Hello hello;
  hello.run_id = "job";
  hello.node_rank = 3;
  hello.interface_addresses = {"10.0.0.1", "fd77::1"};
  return {Probe{},
          Probed{"id", true},
          AuthBegin{"n"},
          Challenge{"n", "p"},
          Proof{"p"},
          hello,
          Ready{2, 7},
          Failed{a_failure()},
          Done{2},
          Leave{Leaving::StopJob, "SIGINT"},
          Fence{1, "f", std::string("\0\xff z", 4)},
          Suspended{true},
          Welcome{},
          Refused{2, true, "no"},
          Notice{"waiting"},
          Start{2, w, {"10.0.0.1"}},
          Stop{2, 4, "why", a_failure()},
          Close{2, Outcome::NodesMissing, 75, "why", a_failure(), true},
          Goodbye{},
          wire::Fenced{1, "f", 0, 2, {"a", std::string("\0", 1)}, {}},
          KeepAlive{},
          GoingAway{"SIGTERM"},
          wire::Fenced{1, "f", 0, 0, {}, "too large"},
          Close{2, Outcome::Failed, 3, "why", a_failure(), false, "exit code 3 is not one to restart for"},
          KeepAlive{{511, 512, 1234}}};
}

}  // namespace

TEST_CASE("messages: each survives the wire, and encodes to the same bytes again", "[rendezvous]") {
  for (const Message& message : one_of_each()) {
    const std::string bytes = encode(message);
    INFO(bytes);
    const auto got = decode(bytes);
    REQUIRE(got);
    REQUIRE(*got);
    CHECK((*got)->index() == message.index());
    CHECK(encode(**got) == bytes);
  }
  const auto world = std::get<Start>(**decode(encode(one_of_each()[15]))).world;
  CHECK(world.master_addr == "fd77::1");
  CHECK(std::get<Fence>(**decode(encode(one_of_each()[10]))).blob == std::string("\0\xff z", 4));
}

TEST_CASE("messages: unknown types and fields are ignored, wrong ones are named", "[rendezvous]") {
  CHECK_FALSE(*decode(R"({"type":"of a later version","x":[1,2]})"));
  CHECK(std::get<Done>(**decode(R"({"type":"done","round":7,"later":{}})")).round == 7);
  struct Row {
    const char* bytes;
    const char* named;
  };
  const auto row = GENERATE(values<Row>({
      {"", "JSON"},
      {"[]", "JSON"},
      {"{", "JSON"},
      {R"({"type":"done","round":"7"})", "'round'"},
      {R"({"type":"done","round":1e300})", "'round'"},
      {R"({"type":"done","round":99999999999999999999})", "'round'"},
      {R"({"type":"hello","nnodes_min":0})", "'nnodes_min'"},
      {R"({"type":"hello","local_world_size":100000})", "'local_world_size'"},
      {R"({"type":"hello","interface_addresses":[1]})", "'interface_addresses'"},
      {R"({"type":"failed","failure":{"signal":0}})", "'failure.signal'"},
      {R"({"type":"fence","blob":"0g"})", "'blob'"},
      {R"({"type":"start","world":[]})", "'world'"},
      {R"({"type":5})", "'type'"},
  }));
  INFO(row.bytes);
  const auto got = decode(row.bytes);
  REQUIRE_FALSE(got);
  CHECK_THAT(got.error().message, Catch::Contains(row.named));
}

TEST_CASE("messages: deep nesting is no danger", "[rendezvous]") {
  const std::string deep =
      R"({"type":"done","x":)" + std::string(200'000, '[') + std::string(200'000, ']') + "}";
  (void)decode(deep);
  (void)decode(std::string(500'000, '['));
  (void)decode(std::string(500'000, '{'));
}

TEST_CASE("messages: changed bytes never crash, and what is accepted can be said again", "[rendezvous]") {
  std::mt19937 dice(11);
  const auto all = one_of_each();
  int accepted = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = encode(all[dice() % all.size()]);
    for (unsigned changes = dice() % 4 + 1; changes > 0 && !bytes.empty(); --changes) {
      const std::size_t at = dice() % bytes.size();
      switch (dice() % 3) {
        case 0: bytes[at] = static_cast<char>(dice()); break;
        case 1: bytes.erase(at, dice() % 5 + 1); break;
        case 2: bytes.insert(at, 1, static_cast<char>(dice())); break;
      }
    }
    const auto got = decode(bytes);
    if (!got || !*got) continue;
    ++accepted;
    CHECK(decode(encode(**got)));
  }
  CHECK(accepted > 0);
}

TEST_CASE("messages: the greatest report fits a frame", "[rendezvous]") {
  Failure f = a_failure();
  f.message = std::string(1u << 20, '\x01');
  f.traceback = std::string(4u << 20, '\x01');  // escapes to six bytes each
  f.last_words.assign(limits::kLastWordsLinesMax,
                      std::string(limits::kLastWordsBytesMax / limits::kLastWordsLinesMax, '\x01'));
  const std::string bytes = encode(Stop{1, 1, std::string(1u << 20, 'x'), f});
  CHECK(bytes.size() <= limits::kFrameBytesMax);
  CHECK(decode(bytes));
}

TEST_CASE("secret: HMAC-SHA256 of RFC 4231, a short key and one longer than a block", "[rendezvous]") {
  CHECK(hmac_sha256("Jefe", "what do ya want for nothing?") ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(hmac_sha256(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First") ==
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  CHECK(equal_secret("abc", "abc"));
  CHECK_FALSE(equal_secret("abc", "abd"));
  CHECK_FALSE(equal_secret("abc", "ab"));
  CHECK(random_hex(16).size() == 32);
  CHECK(random_hex(16) != random_hex(16));
}

TEST_CASE("status page: who may read what", "[rendezvous]") {
  struct Row {
    const char* head;
    const char* token;
    const char* begins;
  };
  const auto row = GENERATE(values<Row>({
      {"GET /healthz HTTP/1.1", "", "HTTP/1.1 200"},
      {"GET /healthz HTTP/1.1", "s", "HTTP/1.1 200"},
      {"GET /status HTTP/1.1", "", "HTTP/1.1 200"},
      {"GET /status?x=1 HTTP/1.1", "", "HTTP/1.1 200"},
      {"GET /status HTTP/1.1", "s", "HTTP/1.1 401"},
      {"GET /status HTTP/1.1\r\nauthorization: Bearer s", "s", "HTTP/1.1 200"},
      {"GET /status HTTP/1.1\r\nAuthorization: Bearer x", "s", "HTTP/1.1 401"},
      {"GET /other HTTP/1.1", "", "HTTP/1.1 404"},
      {"POST /status HTTP/1.1", "", "HTTP/1.1 405"},
      {"GET", "", "HTTP/1.1 400"},
      {"", "", "HTTP/1.1 400"},
  }));
  INFO(row.head);
  CHECK_THAT(http_answer(row.head, row.token, {}, {}, Time{}), Catch::StartsWith(row.begins));
}

TEST_CASE("hosting: who serves the endpoint", "[rendezvous]") {
  const std::vector<net::InterfaceAddress> own{{"lo", *net::parse_address("127.0.0.1")},
                                               {"eth0", *net::parse_address("10.77.0.1")}};
  struct Row {
    const char* name;
    BackendKind backend;
    const char* host;
    const char* resolved;
    std::optional<int> node_rank;
    std::optional<bool> is_host;
    bool others;
    Role role;
  };
  const auto row = GENERATE(values<Row>({
      {"own address", BackendKind::C10d, "10.77.0.1", "10.77.0.1", {}, {}, false, Role::HostIfFree},
      {"a name for it", BackendKind::C10d, "job-ib", "10.77.0.1", {}, {}, false, Role::HostIfFree},
      {"own name is 127.0.1.1 here", BackendKind::C10d, "ha", "127.0.1.1", {}, {}, true, Role::HostIfFree},
      {"another host's", BackendKind::C10d, "10.77.0.2", "10.77.0.2", {}, {}, false, Role::Candidate},
      {"forced", BackendKind::C10d, "10.99.0.1", "10.99.0.1", {}, true, false, Role::HostIfFree},
      {"forbidden", BackendKind::C10d, "10.77.0.1", "10.77.0.1", {}, false, false, Role::Client},
      {"loopback", BackendKind::C10d, "localhost", "127.0.0.1", {}, {}, false, Role::HostIfFree},
      {"loopback, rank 0", BackendKind::C10d, "localhost", "127.0.0.1", 0, {}, false, Role::HostIfFree},
      {"loopback, another rank", BackendKind::C10d, "localhost", "127.0.0.1", 1, {}, false, Role::Client},
      {"loopback, other hosts", BackendKind::C10d, "127.0.0.1", "127.0.0.1", {}, {}, true, Role::Refuse},
      {"static rank 0", BackendKind::Static, "10.99.0.1", "10.99.0.1", 0, {}, false, Role::Host},
      {"static rank 1", BackendKind::Static, "10.77.0.1", "10.77.0.1", 1, {}, false, Role::Client},
  }));
  INFO(row.name);
  rendezvous::Config config;
  config.backend = row.backend;
  config.endpoint = {row.host, 29501};
  config.nnodes_max = 2;
  config.node_rank = row.node_rank;
  config.is_host = row.is_host;
  config.other_hosts_known = row.others;
  const auto got = decide_hosting(config, {*net::parse_address(row.resolved)}, own);
  CHECK(got.role == row.role);
  if (row.role == Role::Refuse) CHECK(got.exit_code == 2);
}
