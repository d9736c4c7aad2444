// SPDX-License-Identifier: Apache-2.0
#include "cli/surroundings.hpp"

#include "cli_support.hpp"

using namespace cxxrun::cli;
using namespace cxxrun::cli::test;
using Catch::Contains;

TEST_CASE("host lists") {
  const struct {
    const char* text;
    Words hosts;
  } rows[] = {
      {"", {}},
      {"a", {"a"}},
      {"a,b", {"a", "b"}},
      {"gpu[01-03,07],login1", {"gpu01", "gpu02", "gpu03", "gpu07", "login1"}},
      {"rack[1-2]n[08-09]", {"rack1n08", "rack1n09", "rack2n08", "rack2n09"}},
      {"n[9-11]", {"n9", "n10", "n11"}},
      {"n[099-101]", {"n099", "n100", "n101"}},
      {"n[5]", {"n5"}},
      {"n[1-2].cluster", {"n1.cluster", "n2.cluster"}},
      {"[1-2]", {"1", "2"}},
      {"a,,b,", {"a", "b"}},
  };
  for (const auto& row : rows) {
    INFO(row.text);
    const auto hosts = expand_host_list(row.text);
    REQUIRE(hosts);
    CHECK(*hosts == row.hosts);
  }
  CHECK(expand_host_list("n[1-65536]")->size() == 65'536);
}

TEST_CASE("host lists that cannot be read") {
  for (const char* bad : {"n[1-2", "n1-2]", "n[[1]]", "n]1[", "n[2-1]", "n[]", "n[a]", "n[1-]", "n[-1]",
                          "n[1,]", "n[1-2-3]", "n[1-65537]", "n[1-999999999999]", "n[99999999999999999999]",
                          "n[1-300]m[1-300]", "n[1-65536],m", "a[1-256]b[1-256]c[1-256]d[1-256]"}) {
    INFO(bad);
    CHECK_FALSE(expand_host_list(bad));
  }
}

TEST_CASE("MASTER_ADDR comes first, then LeaderWorkerSet, then Slurm") {
  Variables all{{"MASTER_ADDR", "m"},
                {"MASTER_PORT", "23456"},
                {"LWS_LEADER_ADDRESS", "l"},
                {"SLURM_JOB_NODELIST", "s[1-2]"}};
  auto around = look_around(lookup(all), 2);
  REQUIRE(around);
  CHECK(around->scheduler == "MASTER_ADDR");
  CHECK(around->host == "m");
  CHECK(around->port == std::optional(23456));
  CHECK(around->other_hosts);
  all["MASTER_ADDR"] = "";  // set but empty: as if it were not
  around = look_around(lookup(all), 2);
  CHECK(around->scheduler == "LeaderWorkerSet");
  CHECK(around->host == "l");
  CHECK_FALSE(around->port);
  all.erase("LWS_LEADER_ADDRESS");
  around = look_around(lookup(all), 2);
  CHECK(around->scheduler == "Slurm");
  CHECK(around->host == "s1");
  CHECK(look_around(lookup({}), 2)->host.empty());
}

TEST_CASE("MASTER_ADDR of the master's own pod is loopback and names nobody else") {
  for (const char* loopback : {"localhost", "127.0.0.1", "::1"}) {
    CHECK_FALSE(look_around(lookup({{"MASTER_ADDR", loopback}}), 2)->other_hosts);
  }
}

TEST_CASE("a MASTER_PORT that is no port is an error") {
  for (const char* bad : {"x", "0", "65536", "-1", "23456 ", "tcp://10.0.0.1:80"}) {
    INFO(bad);
    const auto around = look_around(lookup({{"MASTER_ADDR", "m"}, {"MASTER_PORT", bad}}), 2);
    REQUIRE_FALSE(around);
    CHECK_THAT(around.error().message, Contains("MASTER_PORT=" + cxxrun::quoted(bad)));
  }
  CHECK_FALSE(look_around(lookup({{"MASTER_ADDR", "m"}, {"MASTER_PORT", ""}}), 2)->port);
}

TEST_CASE("Slurm: the step's list before the job's, a port and an id of the job's own") {
  const Variables job{
      {"SLURM_JOB_ID", "123456"}, {"SLURM_JOB_NODELIST", "n[1-4]"}, {"SLURM_STEP_NODELIST", "n[3-4]"}};
  const auto around = look_around(lookup(job), 2);
  REQUIRE(around);
  CHECK(around->host == "n3");
  CHECK(around->other_hosts);
  CHECK(around->port == std::optional(23456));
  CHECK(around->run_id == "slurm-123456");
  // A step narrower than the job does not count, nor is the job's list taken instead.
  const auto wide = look_around(lookup(job), 3);
  REQUIRE(wide);
  CHECK(wide->host.empty());
  CHECK(wide->short_list == "Slurm's list n[3-4] is shorter");
  const auto bad = look_around(lookup({{"SLURM_JOB_NODELIST", "n[1"}}), 2);
  REQUIRE_FALSE(bad);
  CHECK_THAT(bad.error().message, Contains("Slurm's node list n[1"));
}

TEST_CASE("hints for the node rank") {
  const struct {
    const char* what;
    Variables variables;
    std::optional<int> hint;
  } rows[] = {
      {"nothing", {}, {}},
      {"Slurm, one task per node",
       {{"SLURM_NODEID", "2"}, {"SLURM_STEP_NUM_TASKS", "3"}, {"SLURM_STEP_NUM_NODES", "3"}},
       2},
      {"Slurm, several tasks per node",
       {{"SLURM_NODEID", "0"}, {"SLURM_STEP_NUM_TASKS", "6"}, {"SLURM_STEP_NUM_NODES", "3"}},
       {}},
      {"Slurm's own before RANK", {{"SLURM_NODEID", "1"}, {"MASTER_ADDR", "m"}, {"RANK", "0"}}, 1},
      {"LeaderWorkerSet", {{"LWS_WORKER_INDEX", "4"}}, 4},
      {"RANK of a PyTorchJob", {{"MASTER_ADDR", "m"}, {"RANK", "1"}}, 1},
      {"RANK without MASTER_ADDR", {{"RANK", "1"}}, {}},
      {"garbage", {{"MASTER_ADDR", "m"}, {"RANK", "-1"}}, {}},
      {"too large", {{"LWS_WORKER_INDEX", "99999999"}}, {}},
      {"never a size", {{"WORLD_SIZE", "8"}, {"MASTER_ADDR", "m"}}, {}},
  };
  for (const auto& row : rows) {
    INFO(row.what);
    CHECK(node_rank_hint(lookup(row.variables)) == row.hint);
  }
}
