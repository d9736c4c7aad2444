// SPDX-License-Identifier: Apache-2.0
// Options whose behaviour lives in other folders: what their texts mean. They go around kNotYet, so each case
// holds before and after its option is built.
#include "cli/lists.hpp"
#include "cli/rules.hpp"
#include "cli_support.hpp"

using namespace cxxrun;
using namespace cxxrun::cli;
using namespace cxxrun::cli::test;
using Catch::Contains;
using Catch::StartsWith;

namespace {

std::variant<LaunchPlan, PlanError> extras_with(Words words, const Variables& variables) {
  words.emplace_back("./train");
  LaunchPlan plan;
  plan.config.rendezvous.local_world_size = 4;
  if (auto error = plan_extras(options(words, variables), machine(variables), plan)) return *error;
  return plan;
}
LaunchPlan extras(const Words& words, const Variables& variables = {}) {
  return good_plan(extras_with(words, variables));
}
std::string extras_error(const Words& words, const Variables& variables = {}) {
  const auto made = extras_with(words, variables);
  const auto* error = std::get_if<PlanError>(&made);
  return error == nullptr ? std::string() : error->message;
}

}  // namespace

TEST_CASE("extras: defaults are torchrun's") {
  const agent::Config made = extras({}).config;
  CHECK(made.logs.log_dir.empty());
  CHECK(made.logs.redirects == agent::StreamMap{});
  CHECK_FALSE(made.logs.local_ranks_filter);
  CHECK(made.logs.prefix_template.empty());
  CHECK(made.logs.format == agent::LogOptions::Format::Text);
  CHECK_FALSE(made.failures.restart_exit_codes);
  CHECK(made.failures.no_restart_exit_codes.none());
  CHECK(made.failures.termination_log == "/dev/termination-log");
  CHECK(made.signals.handled == std::vector<int>{SIGTERM, SIGINT, SIGHUP, SIGQUIT});
  CHECK_FALSE(made.signals.stdin_rank);
  CHECK_FALSE(made.placement.numa_binding);
  CHECK(made.placement.gpus.empty());
  CHECK(made.watch.heartbeat_timeout.count() == 0);
  CHECK(made.watch.health_check_port == 0);
  CHECK(made.watch.events == agent::LineSink{});
  CHECK_FALSE(made.watch.file_timer);
}

TEST_CASE("extras: an empty text, as an unset variable in a manifest leaves it, says nothing") {
  for (const char* name :
       {"PET_RESTART_EXIT_CODES", "PET_NO_RESTART_EXIT_CODES", "PET_EXIT_CODE", "PET_STDIN_RANK", "PET_GPUS",
        "PET_NUMA_BINDING", "PET_LOG_DIR", "PET_RANKS_FILTER", "PET_RESULT_FILE"}) {
    INFO(name);
    CHECK(extras_error({}, {{name, ""}}).empty());
  }
}

TEST_CASE("torchrun 51, 52: redirect and tee maps") {
  const auto both = extras({"-r", "3", "--tee=0:1,1:2,12:3,1:1"}).config.logs;
  CHECK(both.redirects.of(0) == 3);
  CHECK(both.redirects.of(99) == 3);
  CHECK(both.tee.of(0) == 1);
  CHECK(both.tee.of(1) == 1);  // the last counts
  CHECK(both.tee.of(2) == 0);
  CHECK(both.tee.of(12) == 3);
  CHECK(extras({"-t=0:0"}).config.logs.tee.of(0) == 0);
  for (const char* bad :
       {"4", "10:1x", "0:1,", "", ":1", "0:", "0:4", "0:1, 1:2", "a", "-1", "0:1:2", "4096:1", "33"}) {
    INFO(bad);
    CHECK_THAT(extras_error({"-r=" + std::string(bad)}),
               StartsWith("--redirects " + quoted(bad) + ": must be 0, 1"));
  }
  CHECK_THAT(extras_error({}, {{"PET_TEE", "x"}}), StartsWith("PET_TEE=x: "));
}

TEST_CASE("torchrun 53: rank filters") {
  CHECK(extras({"--local-ranks-filter=0"}).config.logs.local_ranks_filter == std::optional(std::vector{0}));
  CHECK(extras({"--ranks-filter= 7,1 ,1"}).config.logs.ranks_filter == std::optional(std::vector{1, 7}));
  CHECK_FALSE(extras({"--local-ranks-filter="}).config.logs.local_ranks_filter);
  for (const char* bad : {"x", "0,", "-1", "0;1", "1.5"}) {
    CHECK_THAT(extras_error({"--local-ranks-filter=" + std::string(bad)}), Contains("must be ranks"));
  }
}

TEST_CASE("torchrun 55: duplicate filters; two commas are one") {
  const auto logs = extras({"--duplicate-stdout-filters=apple,,pie,orange"}).config.logs;
  CHECK(logs.duplicate_stdout_filters == Words{"apple,pie", "orange"});
  CHECK(logs.duplicate_stderr_filters.empty());
  CHECK(parse_filters("") == Words{});
  CHECK(parse_filters(",,") == Words{","});
  CHECK(parse_filters("a,") == Words{"a"});
  CHECK(parse_filters(",,,a") == Words{",", "a"});
  CHECK(parse_filters(" a ,b") == Words{" a ", "b"});
}

TEST_CASE("prefix template: the option wins over torchrun's variable, its PET_ one too") {
  const char* name = "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE";
  CHECK(extras({}, {{name, "a"}}).config.logs.prefix_template == "a");
  CHECK(extras({}, {{name, "a"}, {"PET_LOG_LINE_PREFIX_TEMPLATE", "b"}}).config.logs.prefix_template == "b");
  CHECK(extras({"--log-line-prefix-template="}, {{name, "a"}}).config.logs.prefix_template.empty());
  CHECK(extras({"--log-format=json"}).config.logs.format == agent::LogOptions::Format::Json);
  CHECK(extras_error({"--log-format=xml"}) == "--log-format xml: must be text or json");
}

TEST_CASE("restart exit codes: codes, ranges, signals") {
  const auto made =
      extras({"--restart-exit-codes=1,64-66, SIGKILL", "--no-restart-exit-codes=2"}).config.failures;
  REQUIRE(made.restart_exit_codes);
  CHECK(made.restart_exit_codes->count() == 5);
  for (const int code : {1, 64, 65, 66, 137})
    CHECK(made.restart_exit_codes->test(static_cast<std::size_t>(code)));
  CHECK(made.no_restart_exit_codes.count() == 1);
  for (const char* bad : {"0", "256", "5-4", "x", "SIGNO", "1,", "-1", "1-"}) {
    INFO(bad);
    CHECK_THAT(extras_error({"--restart-exit-codes=" + std::string(bad)}),
               Contains("must be exit codes 1 to 255"));
  }
}

TEST_CASE("restart exit codes: what the rendezvous makes of them") {
  const auto hopeless = [](const Words& words) { return extras(words).config.rendezvous.hopeless_codes; };
  CHECK(hopeless({}).none());
  CHECK(hopeless({"--no-restart-exit-codes=3,SIGKILL"}).count() == 2);
  const auto others = hopeless({"--restart-exit-codes=3-5", "--no-restart-exit-codes=4"});
  for (int code = 1; code < 256; ++code)
    CHECK(others.test(static_cast<std::size_t>(code)) == (code != 3 && code != 5));
}

TEST_CASE("what the options say about the end holds for a plan with an error too") {
  const auto made = failure_options(options({"--nnodes=x", "--result-file=r.json", "--exit-code=usage=64",
                                             "--restart-exit-codes=x", "./train"}),
                                    machine({{"CXXRUN_TERMINATION_LOG", "/t"}}));
  CHECK(made.result_file == "r.json");
  CHECK(made.termination_log == "/t");
  CHECK(made.exit_codes[0] == 64);
  CHECK(failure_options(options({"--exit-code=x", "--result-file=r.json", "./train"}), machine({}))
            .result_file == "r.json");
}

TEST_CASE("exit codes by class, and the preset") {
  using Class = agent::FailureOptions::Class;
  const auto at = [](const LaunchPlan& plan, Class one) {
    return plan.config.failures.exit_codes[static_cast<std::size_t>(one)];
  };
  const auto some = extras({"--exit-code=usage=64,peer-failed=0,usage=3"});
  CHECK(at(some, Class::Usage) == std::optional(3));
  CHECK(at(some, Class::PeerFailed) == std::optional(0));
  CHECK_FALSE(at(some, Class::Stopped));
  const auto preset = extras({"--exit-code=kubeflow,lost-node=200"});
  CHECK(at(preset, Class::Rendezvous) == std::optional(197));
  CHECK(at(preset, Class::LostNode) == std::optional(200));
  for (const char* bad : {"usage", "usage=", "usage=256", "usage=-1", "other=1", "usage=1,"}) {
    INFO(bad);
    CHECK_THAT(extras_error({"--exit-code=" + std::string(bad)}), Contains("must be kubeflow, or CLASS="));
  }
}

TEST_CASE("torchrun 29: signals by name; unknown ones are said, impossible ones refused") {
  const auto made = extras({"--signals-to-handle=SIGTERM, SIGUSR1,SIGUSR2,SIGTERM"});
  CHECK(made.config.signals.handled == std::vector<int>{SIGTERM, SIGUSR1, SIGUSR2});
  CHECK(made.config.signals.to_handle == "SIGTERM, SIGUSR1,SIGUSR2,SIGTERM");
  const auto odd = extras({"--signals-to-handle=SIGFOO,TERM,SIGINT,"});
  CHECK(odd.config.signals.handled == std::vector<int>{SIGINT});
  CHECK(odd.notes.size() == 3);
  CHECK(odd.notes[0] == "--signals-to-handle: SIGFOO is no signal, and has no effect");
  CHECK(extras_error({"--signals-to-handle=SIGTERM,SIGKILL"}) ==
        "--signals-to-handle SIGTERM,SIGKILL: SIGKILL cannot be handled");
  for (const char* name : {"SIGSTOP", "SIGCHLD", "SIGCONT", "SIGSEGV", "SIGABRT"}) {
    CHECK_THAT(extras_error({"--signals-to-handle", name}), Catch::Contains("cannot be handled"));
  }
  CHECK(extras({"--stdin-rank=3"}).config.signals.stdin_rank == std::optional(3));
  for (const char* bad : {"4", "-1", "x"}) {
    CHECK_THAT(extras_error({"--stdin-rank=" + std::string(bad)}), Contains("must be a local rank, 0 to 3"));
  }
}

TEST_CASE("placement: modes and devices") {
  using Numa = agent::PlacementOptions::Numa;
  const std::pair<const char*, Numa> modes[] = {{"node", Numa::Node},
                                                {"socket", Numa::Socket},
                                                {"exclusive", Numa::Exclusive},
                                                {"core-complex", Numa::CoreComplex}};
  for (const auto& [text, mode] : modes) {
    CHECK(extras({"--numa-binding", text}).config.placement.numa_binding == std::optional(mode));
  }
  CHECK_THAT(extras_error({"--numa-binding=core_complex"}), Contains("must be node, socket"));
  CHECK(extras({"--virtual-local-rank"}).config.placement.virtual_local_rank);
  CHECK(extras({"--gpus=2, 4,GPU-1b2c,MIG-1/2/0"}).config.placement.gpus ==
        Words{"2", "4", "GPU-1b2c", "MIG-1/2/0"});
  for (const char* bad : {"2,", "-1", "2,2", "gpu0", "GPU-", "2 4"}) {
    INFO(bad);
    CHECK_THAT(extras_error({"--gpus=" + std::string(bad)}), StartsWith("--gpus "));
  }
}

TEST_CASE("watching: heartbeat, health port, sinks, file timer") {
  using Kind = agent::LineSink::Kind;
  CHECK(extras({"--heartbeat-timeout=2.5"}).config.watch.heartbeat_timeout.count() == 2500);
  CHECK_THAT(extras_error({"--heartbeat-timeout=x"}), Contains("must be seconds"));
  CHECK(extras({"--event-log-handler=console"}).config.watch.events == agent::LineSink{Kind::Console, {}});
  CHECK(extras({"--event-log-handler=dynamic_rendezvous"}).config.watch.events == agent::LineSink{});
  CHECK(extras({"--metrics=./m"}).config.watch.metrics == agent::LineSink{Kind::File, "./m"});
  CHECK_THAT(extras_error({"--event-log-handler=mine"}), Contains("handlers of Python packages"));
  const char* name = "TORCHELASTIC_HEALTH_CHECK_PORT";
  CHECK(extras({}, {{name, "8080"}}).config.watch.health_check_port == 8080);
  CHECK(extras({"--health-check-port=0"}, {{name, "8080"}}).config.watch.health_check_port == 0);
  const auto odd = extras({}, {{name, "x"}});
  CHECK(odd.config.watch.health_check_port == 0);
  CHECK(odd.notes == Words{"TORCHELASTIC_HEALTH_CHECK_PORT=x is no port, and has no effect"});
  CHECK_THAT(extras_error({"--health-check-port=65536"}), Contains("must be a port"));
  const auto timer =
      extras({}, {{"TORCHELASTIC_ENABLE_FILE_TIMER", "1"}, {"TORCHELASTIC_TIMER_FILE", "/t"}}).config.watch;
  CHECK(timer.file_timer);
  CHECK(timer.timer_file == "/t");
  CHECK_FALSE(extras({}, {{"TORCHELASTIC_ENABLE_FILE_TIMER", "true"}}).config.watch.file_timer);
  CHECK(extras({}, {{"CXXRUN_TERMINATION_LOG", ""}}).config.failures.termination_log.empty());
}
