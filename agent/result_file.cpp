// SPDX-License-Identifier: Apache-2.0
#include "agent/result_file.hpp"

#include <array>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "agent/files.hpp"
#include "base/limits.hpp"
#include "base/text.hpp"

namespace cxxrun::agent {
namespace {

using nlohmann::json;

constexpr int kSchemaVersion = 1;

/// "2026-12-01T05:10:11.123Z"
std::string utc(std::chrono::milliseconds since_epoch) {
  const auto seconds = static_cast<std::time_t>(since_epoch.count() / 1000);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 40> date{};
  std::strftime(date.data(), date.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  std::array<char, 64> out{};
  std::snprintf(out.data(), out.size(), "%s.%03dZ", date.data(),
                static_cast<int>(since_epoch.count() % 1000));
  return out.data();
}

double seconds(std::chrono::milliseconds duration) { return static_cast<double>(duration.count()) / 1000.0; }

/// Exactly one of the two is a number.
void put_status(json& into, const ExitStatus& status) {
  into["exit_code"] = nullptr;
  into["signal"] = nullptr;
  if (const auto* exited = std::get_if<Exited>(&status)) into["exit_code"] = exited->code;
  if (const auto* signaled = std::get_if<Signaled>(&status)) into["signal"] = signal_name(signaled->signo);
}

json to_json(const Failure& f) {
  json out{{"round", f.round},
           {"rank", f.rank},
           {"local_rank", f.local_rank},
           {"group_rank", f.group_rank},
           {"host", f.host},
           {"pid", f.pid},
           {"message", f.message},
           {"traceback", f.traceback},
           {"last_lines", f.last_words},
           {"evidence", f.evidence},
           {"error_file", f.error_file}};
  put_status(out, f.status);
  out["time"] = f.wall.count() > 0 ? json(utc(f.wall)) : json(nullptr);
  return out;
}

const char* state_of(const WorkerEnd& worker) {
  if (worker.start != WorkerEnd::Start::Done) return "not-started";
  if (!worker.ended) return "running";
  if (worker.our_signal != 0) return "stopped";
  return succeeded(worker.status) ? "succeeded" : "failed";
}

json to_json(const WorkerEnd& worker, std::size_t local_rank) {
  json out{{"rank", worker.rank}, {"local_rank", local_rank}, {"state", state_of(worker)}};
  out["pid"] = worker.pid > 0 ? json(worker.pid) : json(nullptr);
  out["stopped_with"] = worker.our_signal != 0 ? json(signal_name(worker.our_signal)) : json(nullptr);
  if (worker.ended) put_status(out, worker.status);
  return out;
}

}  // namespace

std::string result_text(const Config& config, const ResultFacts& facts) {
  const auto& rendezvous = config.rendezvous;
  json out{{"version", kSchemaVersion},
           {"outcome", facts.outcome},
           {"exit_code", facts.exit_code},
           {"reason", facts.reason},
           {"run_id", rendezvous.run_id},
           {"host", rendezvous.host_name},
           {"role", rendezvous.role},
           {"program", config.program.name},
           {"rounds", facts.rounds},
           {"restarts", facts.restarts},
           {"max_restarts", rendezvous.max_restarts},
           {"started", utc(facts.started)},
           {"ended", utc(facts.ended)},
           {"seconds", seconds(facts.ended - facts.started)},
           {"joining_seconds", seconds(facts.joining)},
           {"failures", json::array()},
           {"workers", json::array()}};
  out["signal"] = facts.signo != 0 ? json(signal_name(facts.signo)) : json(nullptr);
  out["node"] = nullptr;
  if (const auto& world = facts.world) {
    out["node"] = {{"group_rank", world->group_rank},
                   {"nodes", world->group_world_size},
                   {"first_rank", world->base_rank},
                   {"workers", world->local_world_size},
                   {"world_size", world->world_size}};
  }
  out["root_cause"] = facts.root_cause ? to_json(*facts.root_cause) : json(nullptr);
  for (const auto& failure : facts.failures) out["failures"].push_back(to_json(failure));
  for (std::size_t i = 0; i < facts.workers.size(); ++i)
    out["workers"].push_back(to_json(facts.workers[i], i));
  return out.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

Result<> write_early_end(const Config& config, std::string_view outcome, int exit_code,
                         const std::string& reason) {
  const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  write_where_it_is(config.failures.termination_log,
                    cleaned(reason).substr(0, limits::kTerminationLogBytesMax - 64) +
                        "\n  exit code: " + std::to_string(exit_code) + "\n");
  if (config.failures.result_file.empty()) return kOk;
  ResultFacts facts;
  facts.outcome = outcome;
  facts.exit_code = exit_code;
  facts.reason = reason;
  facts.started = facts.ended = now;
  return replace_file(config.failures.result_file, result_text(config, facts));
}

}  // namespace cxxrun::agent
