// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "base/limits.hpp"
#include "cli/choices.hpp"
#include "cli/lists.hpp"
#include "cli/numbers.hpp"
#include "cli/rules.hpp"

namespace cxxrun::cli {
namespace {

using agent::LogOptions;
using agent::PlacementOptions;

constexpr double kSecondsMax = 10.0 * 365 * 24 * 3600;

class Extras : Choices {
 public:
  Extras(const RawOptions& options, const Facts& facts, LaunchPlan& plan)
      : Choices(options, facts, plan), config_(plan.config) {}

  Problem make() {
    using Rule = Problem (Extras::*)();
    for (const Rule rule :
         {&Extras::logs, &Extras::failures, &Extras::signals, &Extras::placement, &Extras::watch}) {
      if (auto error = (this->*rule)()) return error;
    }
    return std::nullopt;
  }

  Problem failures();

 private:
  /// Puts what `parse` makes of the option's text into `place`.
  template <class T, class Parse>
  Problem take(Opt option, Parse parse, T& place) {
    auto parsed = parse(options_.text(option));
    if (!parsed) return wrong(option, parsed.error().message);
    place = std::move(*parsed);
    return std::nullopt;
  }

  /// Empty, as an unset variable in a manifest leaves it, says nothing.
  [[nodiscard]] bool says(Opt option) const { return !options_.text(option).empty(); }

  Problem logs() {
    LogOptions& logs = config_.logs;
    logs.log_dir = options_.text(Opt::LogDir);
    if (auto error = take(Opt::Redirects, parse_streams, logs.redirects)) return error;
    if (auto error = take(Opt::Tee, parse_streams, logs.tee)) return error;
    if (auto error = take(Opt::LocalRanksFilter, parse_ranks, logs.local_ranks_filter)) return error;
    if (auto error = take(Opt::RanksFilter, parse_ranks, logs.ranks_filter)) return error;
    logs.prefix_template = options_.text(Opt::LogLinePrefixTemplate);
    if (!given(Opt::LogLinePrefixTemplate))
      logs.prefix_template = environment("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE");
    logs.duplicate_stdout_filters = parse_filters(options_.text(Opt::DuplicateStdoutFilters));
    logs.duplicate_stderr_filters = parse_filters(options_.text(Opt::DuplicateStderrFilters));
    const std::string format = options_.text(Opt::LogFormat);
    if (format != "text" && format != "json") return wrong(Opt::LogFormat, "must be text or json");
    logs.format = format == "json" ? LogOptions::Format::Json : LogOptions::Format::Text;
    return std::nullopt;
  }

  Problem signals() {
    agent::SignalOptions& signals = config_.signals;
    signals.to_handle = options_.text(Opt::SignalsToHandle);
    std::vector<std::string> unknown;
    const auto parse = [&](const std::string& text) { return parse_signals(text, unknown); };
    if (auto error = take(Opt::SignalsToHandle, parse, signals.handled)) return error;
    for (const auto& name : unknown)
      note(place(Opt::SignalsToHandle) + ": " + quoted(name) + " is no signal, and has no effect");
    if (!says(Opt::StdinRank)) return std::nullopt;
    const auto rank = whole_number(options_.text(Opt::StdinRank));
    if (!rank || *rank >= config_.rendezvous.local_world_size) {
      return wrong(Opt::StdinRank,
                   "must be a local rank, 0 to " + std::to_string(config_.rendezvous.local_world_size - 1));
    }
    signals.stdin_rank = static_cast<int>(*rank);
    return std::nullopt;
  }

  Problem placement() {
    using Numa = PlacementOptions::Numa;
    PlacementOptions& placement = config_.placement;
    placement.virtual_local_rank = options_.flag(Opt::VirtualLocalRank);
    if (says(Opt::Gpus)) {
      if (auto error = take(Opt::Gpus, parse_gpus, placement.gpus)) return error;
    }
    const std::string mode = options_.text(Opt::NumaBinding);
    if (mode.empty()) return std::nullopt;
    if (mode == "node") placement.numa_binding = Numa::Node;
    if (mode == "socket") placement.numa_binding = Numa::Socket;
    if (mode == "exclusive") placement.numa_binding = Numa::Exclusive;
    if (mode == "core-complex") placement.numa_binding = Numa::CoreComplex;
    if (!placement.numa_binding)
      return wrong(Opt::NumaBinding, "must be node, socket, exclusive or core-complex");
    return std::nullopt;
  }

  Problem watch() {
    agent::WatchOptions& watch = config_.watch;
    const auto seconds = seconds_number(options_.text(Opt::HeartbeatTimeout));
    if (!seconds || *seconds > kSecondsMax) return wrong(Opt::HeartbeatTimeout, "must be seconds, 0 or more");
    watch.heartbeat_timeout = std::chrono::milliseconds(static_cast<std::int64_t>(*seconds * 1000.0));
    if (auto error = take(Opt::EventLogHandler, parse_sink, watch.events)) return error;
    if (auto error = take(Opt::Metrics, parse_sink, watch.metrics)) return error;
    watch.file_timer = environment("TORCHELASTIC_ENABLE_FILE_TIMER") == "1";
    watch.timer_file = environment("TORCHELASTIC_TIMER_FILE");
    return health_check();
  }

  /// torchrun's variable is weaker, and a bad one only noted.
  Problem health_check() {
    const auto port = whole_number(options_.text(Opt::HealthCheckPort));
    if (!port || *port > 65'535) return wrong(Opt::HealthCheckPort, "must be a port, 0 to 65535");
    config_.watch.health_check_port = static_cast<std::uint16_t>(*port);
    const std::string torch = environment("TORCHELASTIC_HEALTH_CHECK_PORT");
    if (given(Opt::HealthCheckPort) || torch.empty()) return std::nullopt;
    const auto other = whole_number(torch);
    if (!other || *other > 65'535) {
      note("TORCHELASTIC_HEALTH_CHECK_PORT=" + quoted(torch) + " is no port, and has no effect");
      return std::nullopt;
    }
    config_.watch.health_check_port = static_cast<std::uint16_t>(*other);
    took(Opt::HealthCheckPort, torch, "variable TORCHELASTIC_HEALTH_CHECK_PORT");
    return std::nullopt;
  }

  agent::Config& config_;
};

Extras::Problem Extras::failures() {
  agent::FailureOptions& failures = config_.failures;
  failures.result_file = options_.text(Opt::ResultFile);
  if (const auto path = facts_.environment("CXXRUN_TERMINATION_LOG")) failures.termination_log = *path;
  if (says(Opt::ExitCode)) {
    if (auto error = take(Opt::ExitCode, parse_exit_code_map, failures.exit_codes)) return error;
  }
  if (says(Opt::RestartExitCodes)) {
    if (auto error = take(Opt::RestartExitCodes, parse_exit_codes, failures.restart_exit_codes)) return error;
  }
  if (says(Opt::NoRestartExitCodes)) {
    if (auto error = take(Opt::NoRestartExitCodes, parse_exit_codes, failures.no_restart_exit_codes))
      return error;
  }
  auto& hopeless = config_.rendezvous.hopeless_codes;
  hopeless = failures.no_restart_exit_codes;
  if (failures.restart_exit_codes) hopeless |= ~*failures.restart_exit_codes;
  return std::nullopt;
}

}  // namespace

std::optional<PlanError> plan_extras(const RawOptions& options, const Facts& facts, LaunchPlan& plan) {
  return Extras(options, facts, plan).make();
}

agent::FailureOptions failure_options(const RawOptions& options, const Facts& facts) {
  LaunchPlan plan;
  (void)Extras(options, facts, plan).failures();
  return std::move(plan.config.failures);
}

}  // namespace cxxrun::cli
