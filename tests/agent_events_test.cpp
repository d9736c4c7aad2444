// SPDX-License-Identifier: Apache-2.0
#include "agent/events.hpp"

#include <catch2/catch.hpp>
#include <csignal>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "agent/result_file.hpp"

using namespace cxxrun;
using namespace cxxrun::agent;
using nlohmann::json;

namespace {

struct Told {
  std::vector<json> lines;
  std::vector<std::string> notes;
};

Telling telling(const Config& config, Told& told) {
  return Telling(
      config,
      [&told](std::string_view line) {
        REQUIRE(line.back() == '\n');
        told.lines.push_back(json::parse(line));
      },
      [&told](const std::string& note) { told.notes.push_back(note); });
}

Config job() {
  Config config;
  config.rendezvous.run_id = "job";
  config.rendezvous.role = "trainer";
  config.rendezvous.host_name = "ha";
  config.rendezvous.max_restarts = 3;
  config.program.name = "train.py";
  return config;
}

World second_node() {
  World world;
  world.group_rank = 1;
  world.group_world_size = 2;
  world.base_rank = 4;
  world.base_role_rank = 4;
  world.role_world_size = 8;
  world.restart_count = 1;
  return world;
}

}  // namespace

TEST_CASE("telling: off writes nothing, also where there is something to tell", "[agent]") {
  const Config config = job();
  Told told;
  auto t = telling(config, told);
  t.tell({.state = "RENDEZVOUS"});
  t.measure("x", 1);
  t.measure_end(true, 1);
  CHECK(told.lines.empty());
  CHECK(told.notes.empty());
}

TEST_CASE("telling: an event of a worker, in torchrun's form", "[agent]") {
  Config config = job();
  config.watch.events.kind = LineSink::Kind::Console;
  const World world = second_node();
  Told told;
  auto t = telling(config, told);
  Telling::Event event{.of_agent = false, .state = "FAILED", .world = &world, .local_rank = 2, .pid = 71};
  event.status = Signaled{SIGSEGV};
  event.error = "boom \xff";
  t.tell(event);
  REQUIRE(told.lines.size() == 1);
  const json& line = told.lines[0];
  CHECK(line["name"] == "torchelastic.worker.status.FAILED");
  CHECK(line["source"] == "WORKER");
  CHECK(line["timestamp"].is_number_integer());
  const json& m = line["metadata"];
  CHECK(m["run_id"] == "job");
  CHECK(m["global_rank"] == 6);
  CHECK(m["group_rank"] == 1);
  CHECK(m["worker_id"] == "71");
  CHECK(m["worker_pid"] == 71);
  CHECK(m["exit_code"] == -SIGSEGV);
  CHECK(m["agent_restarts"] == 1);
  CHECK(m["raw_error"].get<std::string>().starts_with("boom "));
  CHECK(m["duration_ms"].is_null());
  CHECK(
      json::parse(m["metadata"].get<std::string>()) ==
      json::parse(
          R"({"group_world_size": 2, "entry_point": "train.py", "local_rank": [2], "role_rank": [6], "role_world_size": [8]})"));
}

TEST_CASE("telling: what is measured at the end", "[agent]") {
  struct Row {
    bool failed;
    int restarts;
    const char* one;
    double flakiness;
  };
  for (const Row& row :
       {Row{false, 0, "run_success_no_retries", 0}, Row{false, 1, "run_success_with_retries", 25},
        Row{true, 0, "run_failed_no_retries", 100}, Row{true, 3, "run_failed_with_retries", 100}}) {
    INFO(row.one);
    Config config = job();
    config.watch.metrics.kind = LineSink::Kind::Console;
    Told told;
    auto t = telling(config, told);
    t.measure_end(row.failed, row.restarts);
    std::map<std::string, double> values;
    for (const auto& line : told.lines) values[line["name"].get<std::string>()] = line["value"].get<double>();
    CHECK(values.at("workers.trainer.run_total") == 1);
    CHECK(values.at("workers.trainer.flakiness") == row.flakiness);
    for (const char* name : {"run_success_no_retries", "run_success_with_retries", "run_failed_no_retries",
                             "run_failed_with_retries"}) {
      CHECK(values.at(std::string("workers.trainer.") + name) == (std::string(name) == row.one ? 1 : 0));
    }
  }
}

TEST_CASE("telling: a file that cannot be written is said once", "[agent]") {
  Config config = job();
  config.watch.metrics = {LineSink::Kind::File, "/no/such/folder/m"};
  Told told;
  auto t = telling(config, told);
  t.measure_end(true, 1);
  REQUIRE(told.notes.size() == 1);
  CHECK_THAT(told.notes[0], Catch::StartsWith("cannot write to /no/such/folder/m: No such file"));
}

TEST_CASE("result: every key of the schema, whatever happened", "[agent]") {
  ResultFacts facts;
  facts.outcome = "stopped";
  facts.exit_code = 143;
  facts.signo = SIGTERM;
  facts.reason = "stopped by SIGTERM \xff";
  facts.started = std::chrono::milliseconds(1'700'000'000'042);
  facts.ended = std::chrono::milliseconds(1'700'000'001'542);
  json result = json::parse(result_text(job(), facts));
  CHECK(result["started"] == "2023-11-14T22:13:20.042Z");
  CHECK(result["seconds"] == 1.5);
  CHECK(result["signal"] == "SIGTERM");
  for (const char* key : {"node", "root_cause"}) CHECK(result[key].is_null());
  for (const char* key : {"failures", "workers"}) CHECK(result[key] == json::array());
  for (const char* key : {"version", "outcome", "exit_code", "reason", "run_id", "host", "role", "program",
                          "rounds", "restarts", "max_restarts", "ended", "joining_seconds"}) {
    CHECK(result.contains(key));
  }
  Failure cause;
  cause.rank = 1;
  cause.status = Signaled{SIGKILL};
  cause.evidence = "e";
  facts.root_cause = cause;
  facts.failures.push_back(cause);
  facts.world = second_node();
  facts.workers = {{4, true, Exited{0}, 0, 70}, {5, true, Signaled{SIGTERM}, SIGTERM, 71}, {6, false}};
  result = json::parse(result_text(job(), facts));
  CHECK(result["node"]["group_rank"] == 1);
  CHECK(result["root_cause"]["signal"] == "SIGKILL");
  CHECK(result["root_cause"]["exit_code"].is_null());
  CHECK(result["root_cause"]["time"].is_null());
  CHECK(result["failures"][0] == result["root_cause"]);
  CHECK(result["workers"][0] == json::parse(R"({"rank": 4, "local_rank": 0, "pid": 70, "state": "succeeded",
      "stopped_with": null, "exit_code": 0, "signal": null})"));
  CHECK(result["workers"][1]["state"] == "stopped");
  CHECK(result["workers"][2]["state"] == "running");
}
