// SPDX-License-Identifier: Apache-2.0
#include "store/client.hpp"

#include <catch2/catch.hpp>
#include <csignal>
#include <set>

#include "tests/support/store_driver.hpp"

using namespace cxxrun;
using namespace cxxrun::store;
using namespace cxxrun::store::test;

namespace {

Client connect(ServedStore& store, ClientOptions options = {}) {
  auto client = Client::connect("127.0.0.1", store.port(), std::move(options));
  REQUIRE(client);
  return *std::move(client);
}

}  // namespace

TEST_CASE("a client's operations") {
  ServedStore store;
  Client client = connect(store);
  CHECK(client.set("k", "value"));
  CHECK(*client.get("k") == "value");
  CHECK(client.append("k", "!!"));
  CHECK(*client.get("k") == "value!!");
  CHECK(*client.add("n", 5) == 5);
  CHECK(*client.add("n", -7) == -2);
  CHECK(*client.check({"k", "n"}));
  CHECK_FALSE(*client.check({"k", "no"}));
  CHECK(*client.compare_set("c", "", "new") == "new");
  CHECK(*client.compare_set("c", "bad", "x") == "new");
  CHECK(*client.delete_key("c"));
  CHECK_FALSE(*client.delete_key("c"));
  CHECK(client.multi_set({{"a", "1"}, {"b", "2"}}));
  CHECK(*client.multi_get({"b", "a"}) == std::vector<std::string>{"2", "1"});
  CHECK(*client.num_keys() == 4);
  const auto keys = client.list_keys();
  REQUIRE(keys);
  CHECK(std::set<std::string>(keys->begin(), keys->end()) == std::set<std::string>{"k", "n", "a", "b"});
  CHECK(client.barrier("bar", 1));
  CHECK(client.queue_push("q", "one"));
  CHECK(*client.queue_len("q") == 1);
  CHECK(*client.queue_pop("q") == "one");
  CHECK(client.connected());
}

TEST_CASE("values of any size and any bytes") {
  ServedStore store;
  Client client = connect(store);
  std::string value(5'000'000, '\0');
  for (std::size_t i = 0; i < value.size(); ++i) value[i] = static_cast<char>(i * 7 >> 2);
  CHECK(client.set("big", value));
  CHECK((*client.get("big") == value));
  CHECK(client.set("", ""));
  CHECK(client.get("")->empty());
}

TEST_CASE("keys are those of PyTorch's client, a prefix those of its PrefixStore") {
  ServedStore store;
  Client plain = connect(store), prefixed = connect(store, {.prefix = "/p/"});
  CHECK(plain.set("k", "1"));
  CHECK(prefixed.set("k", "2"));
  CHECK(*plain.get("p/k") == "2");
  CHECK(*prefixed.list_keys() == Client::Keys{"k"});
  Socket raw(store.port());
  raw.send(validate() + get("/k") + get("/p/k"));
  CHECK((raw.read(18) == str("1") + str("2")));
}

TEST_CASE("W1, W4: a wait that times out leaves the client usable") {
  ServedStore store;
  Client client = connect(store), other = connect(store);
  const auto missing = client.get("k", 20ms);
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == std::errc::timed_out);
  CHECK_THAT(missing.error().message, Catch::Contains("'k'"));
  CHECK(client.connected());
  CHECK(other.set("k", "x"));
  CHECK(*client.get("k") == "x");
  CHECK(client.wait({"k"}, 0ms));  // there already
  CHECK_FALSE(client.barrier("b", 2, 10ms));
  CHECK_FALSE(client.queue_pop("q", 10ms));
  CHECK(*client.add("n", 1) == 1);
}

TEST_CASE("waits end when another client writes") {
  ServedStore store;
  Client client = connect(store), other = connect(store);
  std::thread writer([&] {
    while (*other.get("asked") != "yes") {
    }
    (void)other.set("answer", "42");
  });
  CHECK(client.set("asked", "yes"));
  CHECK(*client.get("answer", kPatience) == "42");
  writer.join();
}

TEST_CASE("every element of a queue goes to one of those who wait") {
  ServedStore store;
  std::vector<std::thread> consumers;
  std::vector<std::string> got(4);
  for (std::size_t i = 0; i < got.size(); ++i) {
    consumers.emplace_back([&, i] {
      auto client = Client::connect("127.0.0.1", store.port());
      if (client) got[i] = *client->queue_pop("q", kPatience);
    });
  }
  Client producer = connect(store);
  for (const char* element : {"a", "b", "c", "d"}) CHECK(producer.queue_push("q", element));
  for (auto& consumer : consumers) consumer.join();
  CHECK(std::set<std::string>(got.begin(), got.end()) == std::set<std::string>{"a", "b", "c", "d"});
}

TEST_CASE("E3: a client waits for a store that does not listen yet") {
  EventLoop loop;
  std::uint16_t port = 0;
  {
    auto probe = Server::listen(loop, {}, [](const std::string&) {});
    port = (*probe)->port();
  }
  std::optional<Result<Client>> client;
  std::thread early([&] { client = Client::connect("127.0.0.1", port, {.timeout = kPatience}); });
  Socket refused(port);  // the client has been refused too, or will be
  CHECK_FALSE(refused);
  ServedStore store({.port_first = port, .port_last = port});
  early.join();
  CHECK(client->ok());
}

TEST_CASE("no store, and something that is no store") {
  const auto none = Client::connect("127.0.0.1", 1, {.timeout = 30ms});
  REQUIRE_FALSE(none);
  CHECK(none.error().code == std::errc::timed_out);
  CHECK_THAT(none.error().message, Catch::Contains("127.0.0.1 port 1") && Catch::Contains("refused"));
  const auto unknown = Client::connect("no such host", 1, {.timeout = 30ms});
  REQUIRE_FALSE(unknown);
  CHECK_THAT(unknown.error().message, Catch::Contains("resolve"));
}

TEST_CASE("W16: a client that waits learns at once that the store has gone") {
  auto store = std::make_unique<ServedStore>();
  Client client = connect(*store), other = connect(*store);
  std::thread closer([&] {
    (void)other.get("waiting");
    store.reset();
  });
  CHECK(client.set("waiting", "1"));
  const auto value = client.get("never", kPatience);
  closer.join();
  REQUIRE_FALSE(value);
  CHECK(value.error().code == std::errc::not_connected);
  CHECK_FALSE(client.connected());
  CHECK_FALSE(client.set("k", "v"));
}

TEST_CASE("a refused request closes") {
  ServedStore store;
  Client client = connect(store);
  CHECK(client.set("text", "abc"));
  const auto sum = client.add("text", 1);
  REQUIRE_FALSE(sum);
  CHECK(sum.error().code == std::errc::not_connected);
}

TEST_CASE("W17: a signal does not end a wait") {
  static volatile std::sig_atomic_t signals = 0;
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = [](int) { signals = signals + 1; };
  ::sigaction(SIGUSR2, &action, &before);
  ServedStore store;
  Client other = connect(store);
  std::optional<Result<std::string>> value;
  std::thread waiter([&] {
    auto client = Client::connect("127.0.0.1", store.port());
    (void)client->set("waiting", "1");
    value = client->get("k", kPatience);
  });
  CHECK(other.get("waiting"));
  for (int i = 0; i < 20; ++i) ::pthread_kill(waiter.native_handle(), SIGUSR2);
  CHECK(other.set("k", "v"));
  waiter.join();
  ::sigaction(SIGUSR2, &before, nullptr);
  CHECK(**value == "v");
  CHECK(signals > 0);
}
