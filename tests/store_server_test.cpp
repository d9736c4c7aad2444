// SPDX-License-Identifier: Apache-2.0
#include "store/server.hpp"

#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>

#include "tests/support/store_driver.hpp"

using namespace cxxrun;
using namespace cxxrun::store;
using namespace cxxrun::store::test;

namespace {

/// Says hello and waits until the server has served everything so far.
bool sync(Socket& socket, std::uint32_t nonce = 77) {
  return socket.send(ping(nonce)) && socket.read(4) == u32(nonce);
}

Socket open_client(ServedStore& store) {
  Socket socket(store.port());
  REQUIRE(socket);
  REQUIRE(socket.send(validate()));
  return socket;
}

std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * 4096;
}

std::size_t threads() {
  std::ifstream file("/proc/self/status");
  std::string word;
  while (file >> word && word != "Threads:") {
  }
  std::size_t count = 0;
  file >> count;
  return count;
}

std::size_t descriptors() {
  std::size_t count = 0;
  for (int fd = 0; fd < 1024; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) ++count;
  }
  return count;
}

/// The address that this host would use towards another one, or nothing when it has only loopback.
std::string outer_address() {
  const UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(9);
  ::inet_pton(AF_INET, "192.0.2.1", &address.sin_addr);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return {};
  socklen_t size = sizeof address;
  ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size);
  char text[INET_ADDRSTRLEN] = "";
  ::inet_ntop(AF_INET, &address.sin_addr, text, sizeof text);
  return text;
}

}  // namespace

TEST_CASE("a store that nobody uses costs one socket and no thread") {
  EventLoop loop;
  const std::size_t fds = descriptors(), before = threads();
  auto server = Server::listen(loop, {}, [](const std::string&) {});
  REQUIRE(server);
  CHECK((*server)->port() != 0);
  CHECK(descriptors() == fds + 1);
  CHECK(threads() == before);
}

TEST_CASE("every port of the range is tried, and the range is named when none is free") {
  EventLoop loop;
  const auto none = [](const std::string&) {};
  auto first = Server::listen(loop, {}, none);
  REQUIRE(first);
  const std::uint16_t taken = (*first)->port();
  const auto refused = Server::listen(loop, {.port_first = taken, .port_last = taken}, none);
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error().message, Catch::Contains("port " + std::to_string(taken)));
  if (taken < 65'000) {
    const auto next = static_cast<std::uint16_t>(taken + 20);
    auto second = Server::listen(loop, {.port_first = taken, .port_last = next}, none);
    REQUIRE(second);
    CHECK((*second)->port() > taken);
  }
}

TEST_CASE("both address families are served") {
  ServedStore store;
  const UniqueFd fd(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(store.port());
  address.sin6_addr = in6addr_loopback;
  if (!fd) {
    WARN("this host has no IPv6");
  } else {
    CHECK(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  }
  Socket v4 = open_client(store);
  CHECK(sync(v4));
}

TEST_CASE("H10, H15: half a request disturbs nobody") {
  ServedStore store;
  Socket half = open_client(store);
  const std::string request = set("k", "value");
  REQUIRE(half.send(request.substr(0, 12)));
  Socket other = open_client(store);
  for (std::uint32_t i = 0; i < 1'000; ++i) REQUIRE(sync(other, i));
  REQUIRE(half.send(request.substr(12)));
  REQUIRE(sync(half));
  other.send(get("k"));
  CHECK((other.read(13) == str("value")));
}

TEST_CASE("a large value that comes in pieces") {
  ServedStore store;
  Socket socket = open_client(store);
  std::string value(3'000'000, 'x');
  for (std::size_t i = 0; i < value.size(); ++i) value[i] = static_cast<char>(i * 31 >> 3);
  const std::string request = set("k", value) + get("k") + set("l", "after") + get("l");
  for (std::size_t at = 0; at < request.size(); at += 70'001) {
    REQUIRE(socket.send(std::string_view(request).substr(at, 70'001)));
  }
  CHECK((socket.read(8 + value.size()) == str(value)));
  CHECK((socket.read(13) == str("after")));
}

TEST_CASE("H12: a handshake that is not finished in time is closed") {
  ServedStore store({.handshake_timeout = 50ms});
  Socket done = open_client(store);
  REQUIRE(sync(done));
  Socket half(store.port());
  REQUIRE(half.send(validate().substr(0, 3)));
  Socket silent(store.port());
  CHECK(half.ends());
  CHECK(silent.ends());
  CHECK(sync(done));  // long beyond the limit by now, and untouched
}

TEST_CASE("H6, H13, E10: garbage is closed, memory stays, others are served") {
  ServedStore store;
  Socket job = open_client(store);
  REQUIRE(sync(job));
  std::mt19937 random(20'240'501);
  const std::vector<std::string> garbage{
      "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
      hex("16 0301 0200 0100 01fc 0303"),
      "SSH-2.0-OpenSSH_9.2\r\n",
      validate() + hex("01 ffffffffffffffff"),
      validate() + hex("06 0100020000000000"),
      validate() + op(Op::Set) + str("k") + i64(limits::kStoreValueBytesMax + 1),
      hex("00 cef7853d")};
  const std::size_t before = resident_bytes();
  for (int i = 0; i < 500; ++i) {
    std::string bytes = garbage[static_cast<std::size_t>(i) % garbage.size()];
    if (i % 3 == 0) {
      bytes.assign(64, '\0');
      std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<char>(random()); });
      bytes[0] = 1;
    }
    Socket stranger(store.port());
    REQUIRE(stranger);
    stranger.send(bytes);
    REQUIRE(stranger.ends());
  }
  CHECK(sync(job));
  CHECK(resident_bytes() < before + (8u << 20));
}

TEST_CASE("a promised value costs what has come, not what was promised") {
  ServedStore store;
  const std::size_t before = resident_bytes();
  std::vector<Socket> liars;
  for (int i = 0; i < 100; ++i) {
    liars.push_back(open_client(store));
    liars.back().send(op(Op::Set) + str("k") + i64(limits::kStoreValueBytesMax) + std::string(100, 'x'));
  }
  Socket other = open_client(store);
  CHECK(sync(other));
  CHECK(resident_bytes() < before + (32u << 20));  // not 800 MiB
}

TEST_CASE("a large request's memory does not stay with its connection") {
  ServedStore store({.bytes_max = 24u << 20});
  std::vector<Socket> clients;
  for (int i = 0; i < 12; ++i) {  // in pieces, so that the request is kept until it is whole
    clients.push_back(open_client(store));
    const std::string request = set("big", std::string(std::size_t{4} << 20, 'x'));
    REQUIRE(clients.back().send(request.substr(0, request.size() / 2)));
    REQUIRE(clients.back().send(request.substr(request.size() / 2)));
    REQUIRE(sync(clients.back()));
  }
  for (Socket& client : clients) CHECK(sync(client));
}

TEST_CASE("H16: who does not read is not served further, others are") {
  ServedStore store;
  Socket writer = open_client(store);
  REQUIRE(writer.send(set("big", std::string(limits::kStoreValueBytesMax, 'x'))));
  REQUIRE(sync(writer));
  const std::size_t before = resident_bytes();
  Socket slow = open_client(store);
  std::string requests;
  for (int i = 0; i < 50; ++i) requests += get("big");
  REQUIRE(slow.send(requests + ping(5)));
  for (std::uint32_t i = 0; i < 200; ++i) REQUIRE(sync(writer, i));
  CHECK(resident_bytes() < before + (64u << 20));  // not 400 MiB
  // It was only paused: all the answers come when it reads.
  for (int i = 0; i < 50; ++i) {
    REQUIRE((slow.read(8) == i64(limits::kStoreValueBytesMax)));
    REQUIRE(slow.read(limits::kStoreValueBytesMax).size() == limits::kStoreValueBytesMax);
  }
  CHECK((slow.read(4) == u32(5)));
}

TEST_CASE("all clients together may not make us hold more than the store may") {
  ServedStore store({.bytes_max = 20u << 20});
  Socket writer = open_client(store);
  REQUIRE(writer.send(set("big", std::string(limits::kStoreValueBytesMax, 'x'))));
  REQUIRE(sync(writer));
  std::vector<Socket> slow;
  for (int i = 0; i < 12; ++i) {
    slow.push_back(open_client(store));
    REQUIRE(slow.back().send(get("big")));
  }
  CHECK(sync(writer));
  int whole = 0;
  for (Socket& socket : slow) {
    if (socket.read(8 + limits::kStoreValueBytesMax).size() > limits::kStoreValueBytesMax) ++whole;
  }
  CHECK(whole >= 1);
  CHECK(whole < 12);
}

TEST_CASE("W13: 4,000 waiters on one key") {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  const std::size_t count = std::min<std::size_t>(4'000, (limit.rlim_cur - 200) / 2);
  if (count < 4'000)
    WARN("only " << count << " waiters: the hard limit of descriptors is " << limit.rlim_max);
  ServedStore store;
  std::vector<Socket> waiters;
  for (std::size_t i = 0; i < count; ++i) {
    waiters.emplace_back(store.port());
    REQUIRE(waiters.back());
    REQUIRE(waiters.back().send(validate() + ping(1) + wait({"id"})));
  }
  for (Socket& waiter : waiters) REQUIRE((waiter.read(4) == u32(1)));
  Socket setter = open_client(store);
  REQUIRE(setter.send(set("id", "x")));
  std::size_t released = 0;
  for (Socket& waiter : waiters) released += waiter.read(1) == kStop ? 1u : 0u;
  CHECK(released == count);
}

TEST_CASE("W14: a waiter that died does not hurt who sets the key") {
  ServedStore store;
  Socket setter = open_client(store);
  for (int i = 0; i < 50; ++i) {
    Socket waiter = open_client(store);
    REQUIRE(waiter.send(wait({"k"}) + ping(1)));
    REQUIRE((waiter.read(4) == u32(1)));
    i % 2 == 0 ? waiter.reset() : waiter.hang_up();
    REQUIRE(setter.send(set("k", "v") + delete_key("k")));
    REQUIRE((setter.read(8) == i64(1)));
  }
  CHECK(sync(setter));
}

TEST_CASE("W16, E5: clients see the end of a store at once, and a new one knows nothing of it") {
  auto store = std::make_unique<ServedStore>();
  std::vector<Socket> clients;
  for (int i = 0; i < 20; ++i) {
    clients.push_back(open_client(*store));
    REQUIRE(clients.back().send(set("old", "value") + wait({"never"})));
    REQUIRE(sync(clients.back()));
  }
  store.reset();
  for (Socket& client : clients) CHECK(client.ends());
  ServedStore next;
  Socket client = open_client(next);
  REQUIRE(client.send(check({"old"})));
  CHECK((client.read(1) == kIsNotReady));
}

TEST_CASE("an adopted connection is served from the bytes that were read before") {
  for (const std::size_t read_before : {std::size_t{0}, std::size_t{3}, std::size_t{5}, std::size_t{18}}) {
    INFO(read_before << " bytes");
    ServedStore store({.listening = false});
    CHECK(store.port() == 0);
    int ends[2];
    // A TCP pair: the server asks a socket for its peer's address.
    UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    REQUIRE(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0);
    REQUIRE(::listen(listener.get(), 1) == 0);
    ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size);
    Socket client(ntohs(address.sin_port));
    ends[0] = ::accept(listener.get(), nullptr, nullptr);
    const std::string bytes = validate() + set("k", "v");
    std::vector<std::uint8_t> first(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(read_before));
    REQUIRE(client.send(std::string_view(bytes).substr(read_before)));
    store.ask([&] { store.server().adopt(UniqueFd(ends[0]), first); });
    REQUIRE(client.send(get("k")));
    CHECK((client.read(9) == str("v")));
  }
}

// From an outer address to loopback: the peer is then neither loopback nor the address that was called, so it
// looks like another host.
TEST_CASE("admission: early strangers wait, refused ones are named once, a later list lets them in") {
  const std::string outer = outer_address();
  if (outer.empty()) {
    WARN("this host has no address but loopback");
    return;
  }
  const auto stranger = [&](ServedStore& store) { return Socket(store.port(), "127.0.0.1", outer.c_str()); };
  ServedStore store;
  Socket early = stranger(store), local = open_client(store);
  REQUIRE(early.send(validate() + ping(3)));
  REQUIRE(sync(local));  // served meanwhile
  pollfd silent{.fd = early.fd(), .events = POLLIN, .revents = 0};
  CHECK(::poll(&silent, 1, 0) == 0);
  store.ask([&] { store.server().admit({"192.0.2.7"}); });
  CHECK(early.ends());
  Socket again = stranger(store);
  CHECK(again.ends());
  REQUIRE(store.wait_for_refused(1));
  CHECK(store.refused() == std::vector<std::string>{outer});

  store.ask([&] { store.server().admit({"192.0.2.7", outer + "/32"}); });
  Socket member = stranger(store);
  REQUIRE(member.send(validate()));
  CHECK(sync(member));
  CHECK(sync(local));
  CHECK(store.refused().size() == 1);
}

TEST_CASE("admission: who waited is served when the list names it") {
  const std::string outer = outer_address();
  if (outer.empty()) {
    WARN("this host has no address but loopback");
    return;
  }
  ServedStore store;
  Socket early(store.port(), "127.0.0.1", outer.c_str());
  REQUIRE(early.send(validate() + ping(3)));
  store.ask([&] { store.server().admit({outer}); });
  CHECK((early.read(4) == u32(3)));
  Socket same_host(store.port(), outer.c_str());  // needs no list at all
  REQUIRE(same_host.send(validate()));
  CHECK(sync(same_host));
}

TEST_CASE("a rule that nobody understands is reported") {
  ServedStore store;
  store.ask([&] { store.server().admit({"node1"}); });
  REQUIRE(store.wait_for_refused(1));
  CHECK_THAT(store.refused().at(0), Catch::Contains("'node1'"));
}

TEST_CASE("the store's thread takes no signal") {
  ServedStore store;
  Socket client = open_client(store);
  REQUIRE(sync(client));
  std::string blocked;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream comm(task.path() / "comm");
    std::string name;
    if (!(comm >> name) || name != "cxxrun-store") continue;
    std::ifstream status(task.path() / "status");
    std::string word;
    while (status >> word && word != "SigBlk:") {
    }
    status >> blocked;
  }
  REQUIRE_FALSE(blocked.empty());
  CHECK((std::stoull(blocked, nullptr, 16) & (1ull << (SIGTERM - 1))) != 0);
  CHECK((std::stoull(blocked, nullptr, 16) & (1ull << (SIGCHLD - 1))) != 0);
}
