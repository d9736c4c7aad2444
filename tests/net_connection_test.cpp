// SPDX-License-Identifier: Apache-2.0
#include "net/connection.hpp"

#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "net/resolver.hpp"
#include "net/socket.hpp"

using namespace cxxrun;
using namespace cxxrun::net;

namespace {

const Address kLoopback = *parse_address("127.0.0.1");

bool until(EventLoop& loop, const std::function<bool()>& what) {
  const Time limit = EventLoop::now() + 20s;
  while (!what() && EventLoop::now() < limit) loop.run_once(limit);
  return what();
}

/// A connection and a plain socket at its other end.
struct Pair {
  EventLoop loop;
  UniqueFd peer;
  std::vector<std::string> frames;
  std::optional<End> end;
  std::unique_ptr<Connection> connection;

  explicit Pair(std::size_t frame_bytes_max = 1000) {
    auto listener = listen(kLoopback, 0);
    REQUIRE(listener);
    std::optional<UniqueFd> ours;
    Connect connect(loop, kLoopback, listener->port, 5s, std::nullopt,
                    [&](Result<UniqueFd> r) { ours = std::move(*r); });
    REQUIRE(until(loop, [&] { return ours.has_value(); }));
    auto accepted = accept(listener->fd.get());
    peer = std::move(**accepted);
    connection = std::make_unique<Connection>(
        loop, std::move(*ours), frame_bytes_max,
        Connection::Handlers{[this](std::string_view body) { frames.emplace_back(body); },
                             [this](const End& e) { end = e; }});
  }
  void say(std::string_view bytes) {
    REQUIRE(::send(peer.get(), bytes.data(), bytes.size(), 0) == ssize_t(bytes.size()));
  }
};

}  // namespace

TEST_CASE("frames: any cut of the stream gives the same frames", "[net]") {
  std::mt19937 dice(7);
  std::string stream;
  std::vector<std::string> bodies;
  for (int i = 0; i < 200; ++i) {
    bodies.emplace_back(dice() % 300, static_cast<char>('a' + i % 26));
    stream += frame(bodies.back());
  }
  for (int round = 0; round < 50; ++round) {
    FrameReader reader(300);
    std::vector<std::string> got;
    for (std::size_t at = 0; at < stream.size();) {
      const std::size_t n = std::min<std::size_t>(1 + dice() % 700, stream.size() - at);
      reader.feed(std::string_view(stream).substr(at, n));
      at += n;
      for (auto body = reader.next(); body && *body; body = reader.next()) got.emplace_back(**body);
    }
    CHECK(got == bodies);
    CHECK(reader.between_frames());
  }
}

TEST_CASE("frames: a length above the maximum is refused before its bytes come", "[net]") {
  FrameReader reader(10);
  reader.feed(std::string_view("\xff\xff\xff\xff", 4));
  CHECK_FALSE(reader.next());
  CHECK_FALSE(reader.next());
}

TEST_CASE("connection: how it ends is told apart", "[net]") {
  struct Row {
    const char* name;
    std::function<void(Pair&)> act;
    EndKind kind;
    std::size_t frames;
  };
  const std::vector<Row> rows{
      {"closed", [](Pair& p) { p.peer.reset(); }, EndKind::Fin, 0},
      {"closed after a frame",
       [](Pair& p) {
         p.say(frame("x"));
         p.peer.reset();
       },
       EndKind::Fin, 1},
      {"reset",
       [](Pair& p) {
         const linger now{1, 0};
         ::setsockopt(p.peer.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
         p.peer.reset();
       },
       EndKind::Reset, 0},
      {"too long a frame", [](Pair& p) { p.say("\x7f\x01\x01\x01"); }, EndKind::BadFrame, 0},
      {"does not read",
       [](Pair& p) {
         const std::string body(900, 'x');
         for (std::size_t n = 0; n < 64u << 20; n += body.size()) p.connection->send(body);
       },
       EndKind::TooSlow, 0},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    Pair p;
    row.act(p);
    REQUIRE(until(p.loop, [&] { return p.end.has_value(); }));
    CHECK(p.end->kind == row.kind);
    CHECK(p.frames.size() == row.frames);
  }
}

TEST_CASE("connection: wrong first bytes end it", "[net]") {
  Pair p;
  p.connection->expect_magic("CXR1");
  p.say("CXHTTP");
  REQUIRE(until(p.loop, [&] { return p.end.has_value(); }));
  CHECK(p.end->kind == EndKind::BadFrame);
}

TEST_CASE("connection: a handler may destroy it in the middle of frames", "[net]") {
  Pair p;
  p.connection = nullptr;
  Pair q;
  int seen = 0;
  UniqueFd socket(::dup(q.connection->fd()));
  q.connection.reset();
  q.connection = std::make_unique<Connection>(q.loop, std::move(socket), 100,
                                              Connection::Handlers{[&](std::string_view) {
                                                                     ++seen;
                                                                     q.connection.reset();
                                                                   },
                                                                   [](const End&) {}});
  q.say(frame("a") + frame("b"));
  CHECK(until(q.loop, [&] { return seen == 1; }));
  CHECK_FALSE(q.loop.run_once(EventLoop::now() + 5ms));
  CHECK(seen == 1);
}

TEST_CASE("listen: the first free port of a range, and an error that names it", "[net]") {
  auto first = listen(kLoopback, 0);
  REQUIRE(first);
  const std::uint16_t port = first->port;
  const auto taken = listen(kLoopback, port);
  REQUIRE_FALSE(taken);
  CHECK(taken.error().code.value() == EADDRINUSE);
  CHECK_THAT(taken.error().message, Catch::Contains(std::to_string(port)));
  const auto any = listen(std::nullopt, 0);
  REQUIRE(any);
  CHECK(any->port != 0);
}

TEST_CASE("connect: refused is an error with its errno", "[net]") {
  EventLoop loop;
  std::uint16_t port = 0;
  { port = listen(kLoopback, 0)->port; }
  std::optional<int> error;
  Connect connect(loop, kLoopback, port, 5s, std::nullopt,
                  [&](Result<UniqueFd> r) { error = r ? 0 : r.error().code.value(); });
  REQUIRE(until(loop, [&] { return error.has_value(); }));
  CHECK(*error == ECONNREFUSED);
}

TEST_CASE("resolve: numeric and localhost at once, unknown names with the resolver's words", "[net]") {
  EventLoop loop;
  struct Row {
    const char* name;
    const char* first;  // "": an error
  };
  for (const Row& row : {Row{"10.1.2.3", "10.1.2.3"}, Row{"fd00::1", "fd00::1"},
                         Row{"localhost", "127.0.0.1"}, Row{"no-such-host.invalid", ""}}) {
    INFO(row.name);
    std::optional<std::string> got;
    Resolve resolve(loop, row.name, 20s, [&](Result<std::vector<Address>> r) {
      got = r ? text(r->front()) : "";
      if (!r) CHECK_THAT(r.error().message, Catch::Contains(row.name));
    });
    REQUIRE(until(loop, [&] { return got.has_value(); }));
    CHECK(*got == row.first);
  }
}

TEST_CASE("resolve: a look-up that is given up holds nothing up", "[net]") {
  EventLoop loop;
  bool called = false;
  {
    Resolve resolve(loop, "no-such-host.invalid", 20s, [&](auto) { called = true; });
  }
  loop.run_once(EventLoop::now() + 1ms);
  CHECK_FALSE(called);
}
