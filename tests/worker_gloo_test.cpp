// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <vector>

#include "tests/support/store_thread.hpp"
#include "worker/gloo_store.hpp"

using namespace cxxrun;
using test::StoreThread;
using worker::GlooGroup;

namespace {

/// Connects all ranks and calls `work(group, rank)` on each, in a thread of its own (so without CHECK: Catch2
/// is for one thread). Returns how many ranks failed to connect.
template <class Work>
int with_group(const StoreThread& server, int world_size, const worker::GlooOptions& options, Work work) {
  std::atomic<int> failed = 0;
  test::on_all_ranks(world_size, [&](int rank) {
    const worker::Ranks ranks = server.ranks(rank, world_size);
    auto store = worker::connect_store(ranks);
    auto group = GlooGroup::connect(ranks, *store, options);
    if (group)
      work(*group, rank);
    else
      ++failed;
  });
  return failed;
}

}  // namespace

TEST_CASE("gloo: sums, broadcasts and barriers reach all ranks") {
  const StoreThread server;
  constexpr int kRanks = 3;
  std::array<std::vector<float>, kRanks> sums;
  std::array<std::string, kRanks> texts;
  std::atomic<int> errors = 0;
  const int failed = with_group(server, kRanks, {}, [&](GlooGroup& group, int rank) {
    const auto at = static_cast<std::size_t>(rank);
    sums[at].assign(1'001, static_cast<float>(rank + 1));
    if (!group.allreduce_sum(sums[at])) ++errors;
    texts[at] = rank == 1 ? "hello" : "-----";
    if (!group.broadcast(texts[at], 1)) ++errors;
    std::array<double, 1> one{1};
    if (!group.allreduce_sum(one) || one[0] != kRanks) ++errors;
    if (!group.allreduce_sum(std::span<float>()) || !group.broadcast({}, 0)) ++errors;
    if (!group.barrier()) ++errors;
  });
  CHECK(failed == 0);
  CHECK(errors == 0);
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    CHECK(sums[rank] == std::vector<float>(1'001, 6.0F));
    CHECK(texts[rank] == "hello");
  }
}

TEST_CASE("gloo: one rank alone is a group") {
  const StoreThread server;
  std::array<float, 2> values{3, 4};
  std::atomic<bool> summed = false;
  const int failed =
      with_group(server, 1, {}, [&](GlooGroup& group, int) { summed = group.allreduce_sum(values).ok(); });
  CHECK(failed == 0);
  CHECK(summed);
  CHECK(values == std::array<float, 2>{3, 4});
}

TEST_CASE("gloo: two groups of one round have two names") {
  const StoreThread server;
  // Who leaves at once may close its connections while the other still opens its own: so nobody does.
  std::atomic<int> met = 0;
  const auto meet = [&](GlooGroup& group, int) {
    if (group.barrier()) ++met;
  };
  CHECK(with_group(server, 2, {.name = "first"}, meet) == 0);
  CHECK(with_group(server, 2, {.name = "second"}, meet) == 0);
  CHECK(met == 4);
}

TEST_CASE("gloo: a rank that never comes is named") {
  const StoreThread server;
  const worker::Ranks ranks = server.ranks(1, 2);
  auto store = worker::connect_store(ranks);
  const auto group = GlooGroup::connect(ranks, *store, {.timeout = 100ms});
  REQUIRE_FALSE(group);
  CHECK_THAT(group.error().message, Catch::Contains("rank 0 did not come"));
}

TEST_CASE("gloo: the end of a peer is an error of the next collective, at once") {
  const StoreThread server;
  std::atomic<bool> noticed = false;
  const int failed = with_group(server, 2, {.timeout = 60s}, [&](GlooGroup& group, int rank) {
    if (!group.barrier() || rank == 1) return;  // both are connected; and rank 1's group ends with it
    std::vector<float> values(10);
    noticed = !group.allreduce_sum(values);
  });
  CHECK(failed == 0);
  CHECK(noticed);
}
