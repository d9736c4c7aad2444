// SPDX-License-Identifier: Apache-2.0
#include "worker/ranks.hpp"

#include <catch2/catch.hpp>
#include <map>

using namespace cxxrun;
using Environment = std::map<std::string, std::string>;

namespace {

Result<worker::Ranks> read(const Environment& environment) {
  return worker::ranks_from([&](const char* name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    if (found == environment.end()) return std::nullopt;
    return found->second;
  });
}

const Environment kLauncher = {{"RANK", "5"},
                               {"LOCAL_RANK", "1"},
                               {"WORLD_SIZE", "8"},
                               {"LOCAL_WORLD_SIZE", "4"},
                               {"GROUP_RANK", "1"},
                               {"GROUP_WORLD_SIZE", "2"},
                               {"TORCHELASTIC_RESTART_COUNT", "2"},
                               {"CXXRUN_ROUND", "6"},
                               {"TORCHELASTIC_RUN_ID", "job 7"},
                               {"MASTER_ADDR", "fd77::1"},
                               {"MASTER_PORT", "29400"}};

Environment changed(const std::string& name, const std::string& value) {
  Environment environment = kLauncher;
  environment[name] = value;
  return environment;
}

}  // namespace

TEST_CASE("every number that a launcher gives is read") {
  const auto ranks = read(kLauncher);
  REQUIRE(ranks);
  CHECK(ranks->rank == 5);
  CHECK(ranks->local_rank == 1);
  CHECK(ranks->world_size == 8);
  CHECK(ranks->local_world_size == 4);
  CHECK(ranks->group_rank == 1);
  CHECK(ranks->group_world_size == 2);
  CHECK(ranks->restart_count == 2);
  CHECK(ranks->round == 6);
  CHECK(ranks->run_id == "job 7");
  CHECK(ranks->master_addr == "fd77::1");
  CHECK(ranks->master_port == 29400);
}

TEST_CASE("the four variables of env:// are enough, as for one process a node") {
  const auto ranks = read({{"RANK", "2"}, {"WORLD_SIZE", "3"}, {"MASTER_ADDR", "ha"}, {"MASTER_PORT", "1"}});
  REQUIRE(ranks);
  CHECK(ranks->local_rank == 0);
  CHECK(ranks->local_world_size == 1);
  CHECK(ranks->group_rank == 2);
  CHECK(ranks->group_world_size == 3);
  CHECK(ranks->restart_count == 0);
  CHECK(ranks->round == 0);
  CHECK(ranks->run_id.empty());
}

TEST_CASE("under torchrun, which has no round, the restart count stands in for it") {
  Environment environment = kLauncher;
  environment.erase("CXXRUN_ROUND");
  const auto ranks = read(environment);
  REQUIRE(ranks);
  CHECK(ranks->round == 2);
}

TEST_CASE("a wrong environment is refused with the variable's name and value") {
  struct Row {
    const char* name;
    const char* value;  // nullptr: not set
    const char* sentence;
  };
  const Row rows[] = {
      {"RANK", nullptr, "RANK is not set: start this program with cxxrun (or torchrun)"},
      {"RANK", "", "RANK is not set: start this program with cxxrun (or torchrun)"},
      {"RANK", "8", "RANK=8 is not in 0..7"},
      {"RANK", "-1", "RANK=-1 is not in 0..7"},
      {"RANK", "1x", "RANK='1x' is not a number"},
      {"RANK", "99999999999999999999", "RANK='99999999999999999999' is not a number"},
      {"WORLD_SIZE", "0", "WORLD_SIZE=0 is not in 1..2147483647"},
      {"LOCAL_RANK", "4", "LOCAL_RANK=4 is not in 0..3"},
      {"GROUP_RANK", "2", "GROUP_RANK=2 is not in 0..1"},
      {"MASTER_ADDR", nullptr, "MASTER_ADDR is not set: start this program with cxxrun (or torchrun)"},
      {"MASTER_PORT", "0", "MASTER_PORT=0 is not in 1..65535"},
      {"MASTER_PORT", "65536", "MASTER_PORT=65536 is not in 1..65535"},
      {"TORCHELASTIC_RESTART_COUNT", " 1", "TORCHELASTIC_RESTART_COUNT=' 1' is not a number"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name, row.sentence);
    Environment environment = kLauncher;
    if (row.value == nullptr)
      environment.erase(row.name);
    else
      environment = changed(row.name, row.value);
    const auto ranks = read(environment);
    REQUIRE_FALSE(ranks);
    CHECK(ranks.error().message == row.sentence);
  }
}
