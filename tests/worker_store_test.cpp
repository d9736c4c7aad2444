// SPDX-License-Identifier: Apache-2.0
#include "worker/store.hpp"

#include <atomic>
#include <catch2/catch.hpp>

#include "tests/support/store_thread.hpp"
#include "worker/barrier.hpp"

using namespace cxxrun;
using test::StoreThread;

TEST_CASE("workers meet in the store that their environment names") {
  const StoreThread server;
  auto one = worker::connect_store(server.ranks(0, 2));
  auto two = worker::connect_store(server.ranks(1, 2));
  REQUIRE(one);
  REQUIRE(two);
  REQUIRE(one->set("key", "value"));
  const auto value = two->get("key", 10s);
  REQUIRE(value);
  CHECK(*value == "value");
}

TEST_CASE("keys under a prefix are apart from those without") {
  const StoreThread server;
  auto plain = worker::connect_store(server.ranks(0, 1));
  auto apart = worker::connect_store(server.ranks(0, 1), {.prefix = "mine/"});
  REQUIRE(plain);
  REQUIRE(apart);
  REQUIRE(apart->set("key", "1"));
  CHECK_FALSE(*plain->check({"key"}));
  CHECK(*plain->check({"mine/key"}));
}

TEST_CASE("a store that does not answer is named in the error") {
  worker::Ranks ranks;
  ranks.master_addr = "127.0.0.1";
  ranks.master_port = 1;  // nobody serves tcpmux
  const auto store = worker::connect_store(ranks, {.timeout = 50ms});
  REQUIRE_FALSE(store);
  CHECK(store.error().code == std::errc::timed_out);
  CHECK_THAT(store.error().message, Catch::Contains("127.0.0.1") && Catch::Contains("1"));
}

TEST_CASE("the own address is the one on the way to the store") {
  worker::Ranks ranks;
  ranks.master_port = 29'400;
  ranks.master_addr = "127.0.0.1";
  CHECK(*worker::local_address(ranks) == "127.0.0.1");
  ranks.master_addr = "127.8.8.8";
  CHECK(worker::local_address(ranks)->starts_with("127."));
  ranks.master_addr = "no such host";
  const auto none = worker::local_address(ranks);
  REQUIRE_FALSE(none);
  CHECK_THAT(none.error().message, Catch::Contains("no such host"));
}

TEST_CASE("nobody passes a barrier before all have come") {
  const StoreThread server;
  constexpr int kRanks = 4, kPasses = 20;
  std::atomic<int> arrived = 0;
  std::atomic<int> too_early = 0, failed = 0;
  test::on_all_ranks(kRanks, [&](int rank) {
    const worker::Ranks ranks = server.ranks(rank, kRanks);
    auto store = worker::connect_store(ranks);
    worker::Barrier barrier(*store, ranks, "b");
    for (int pass = 1; pass <= kPasses; ++pass) {
      ++arrived;
      if (!barrier.pass(60s)) ++failed;
      if (arrived < pass * kRanks) ++too_early;
    }
  });
  CHECK(failed == 0);
  CHECK(too_early == 0);
}

TEST_CASE("a barrier leaves only its last pass behind") {
  const StoreThread server;
  const worker::Ranks ranks = server.ranks(0, 1);
  auto store = worker::connect_store(ranks);
  worker::Barrier barrier(*store, ranks, "b");
  for (int pass = 0; pass < 10; ++pass) REQUIRE(barrier.pass(10s));
  CHECK(*store->num_keys() == 3);
}

TEST_CASE("a barrier that times out names the ranks that did not come") {
  const StoreThread server;
  auto store = worker::connect_store(server.ranks(1, 3));
  worker::Barrier barrier(*store, server.ranks(1, 3), "loaded");
  const auto passed = barrier.pass(20ms);
  REQUIRE_FALSE(passed);
  CHECK(passed.error().code == std::errc::timed_out);
  CHECK(passed.error().message == "barrier loaded: not all ranks in 20 ms; missing: rank 0, rank 2");
}

TEST_CASE("of many missing ranks only some are named") {
  const StoreThread server;
  auto store = worker::connect_store(server.ranks(0, 100));
  worker::Barrier barrier(*store, server.ranks(0, 100), "b");
  const auto passed = barrier.pass(20ms);
  REQUIRE_FALSE(passed);
  CHECK_THAT(passed.error().message, Catch::EndsWith("rank 7, rank 8 and 91 more"));
}
