// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>
#include <vector>

#include "cluster.hpp"

using namespace cxxrun;
using namespace cxxrun::sim;

namespace {

/// CXXRUN_SEED=417 replays one, CXXRUN_SEEDS=5000 runs more.
std::vector<std::uint64_t> seeds_from_environment_or(std::uint64_t count) {
  if (const char* one = std::getenv("CXXRUN_SEED")) return {std::strtoull(one, nullptr, 10)};
  if (const char* more = std::getenv("CXXRUN_SEEDS")) count = std::strtoull(more, nullptr, 10);
  std::vector<std::uint64_t> out;
  for (std::uint64_t seed = 1; seed <= count; ++seed) out.push_back(seed);
  return out;
}

}  // namespace

TEST_CASE("rendezvous keeps its promises under faults", "[sim]") {
  int rounds = 0;
  int fences = 0;
  const auto seeds = seeds_from_environment_or(200);
  for (const std::uint64_t seed : seeds) {
    Cluster cluster(seed);
    cluster.run_with_faults(5min);
    if (cluster.violation().empty()) cluster.heal_and_run(20min);
    rounds += cluster.rounds_started();
    fences += cluster.fences();
    if (!cluster.violation().empty() || !cluster.settled()) {
      FAIL("CXXRUN_SEED=" << seed << ": "
                          << (cluster.violation().empty() ? "did not settle" : cluster.violation()) << "\n"
                          << cluster.story());
    }
  }
  if (seeds.size() > 100) {  // the faults must not hide everything
    CHECK(rounds > static_cast<int>(seeds.size()));
    CHECK(fences > static_cast<int>(seeds.size()));
  }
}

TEST_CASE("one seed, one history", "[sim]") {
  const auto trace = [](std::uint64_t seed) {
    Cluster cluster(seed);
    cluster.run_with_faults(2min);
    return cluster.trace();
  };
  CHECK(trace(7) == trace(7));
  CHECK(trace(7) != trace(8));
}
