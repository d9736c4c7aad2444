// SPDX-License-Identifier: Apache-2.0
#include "agent/events.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/result.hpp"

namespace cxxrun::agent {
namespace {

using nlohmann::json;

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string line_of(const json& object) {
  return object.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

const char* backend_name(rendezvous::BackendKind kind) {
  switch (kind) {
    case rendezvous::BackendKind::Local: return "local";
    case rendezvous::BackendKind::C10d: return "c10d";
    case rendezvous::BackendKind::Static: return "static";
  }
  return "?";
}

/// torchrun puts these into a text of their own.
std::string inner_metadata(const Config& config, const Telling::Event& event) {
  json out{{"entry_point", config.program.name}};
  const World* world = event.world;
  out["group_world_size"] = world != nullptr ? json(world->group_world_size) : json(nullptr);
  if (!event.of_agent && world != nullptr) {
    out["local_rank"] = {event.local_rank};
    out["role_rank"] = {world->base_role_rank + event.local_rank};
    out["role_world_size"] = {world->role_world_size};
  }
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

Telling::Telling(const Config& config, std::function<void(std::string_view)> console,
                 std::function<void(const std::string&)> note)
    : config_(config),
      console_(std::move(console)),
      note_(std::move(note)),
      events_(config.watch.events),
      metrics_(config.watch.metrics) {}

void Telling::Sink::write(const std::string& line, Telling& telling) {
  if (options_.kind == LineSink::Kind::Console) return telling.console_(line);
  if (options_.kind == LineSink::Kind::None || broken_) return;
  const auto give_up = [&] {
    broken_ = true;
    telling.note_(errno_error(errno, "cannot write to " + options_.path).message +
                  "; no more lines go there");
  };
  if (!file_) {
    // One write per line, at the end: several agents may share a file. A pipe without a reader holds nobody
    // up.
    file_ = UniqueFd(::open(options_.path.c_str(),
                            O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0644));
    if (!file_) return give_up();
  }
  if (::write(file_.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) give_up();
}

void Telling::tell(const Event& event) {
  if (!events()) return;
  const World* world = event.world;
  const auto total =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - begun_);
  json metadata{{"run_id", config_.rendezvous.run_id},
                {"role", config_.rendezvous.role},
                {"hostname", config_.rendezvous.host_name},
                {"state", event.state},
                {"total_run_time", total.count()},
                {"rdzv_backend", backend_name(config_.rendezvous.backend)},
                {"raw_error", event.error.empty() ? json(nullptr) : json(event.error)},
                {"metadata", inner_metadata(config_, event)},
                {"agent_restarts", world != nullptr ? world->restart_count : 0}};
  metadata["group_rank"] = world != nullptr ? json(world->group_rank) : json(nullptr);
  metadata["global_rank"] =
      !event.of_agent && world != nullptr ? json(world->base_rank + event.local_rank) : json(nullptr);
  metadata["worker_id"] = event.pid > 0 ? json(std::to_string(event.pid)) : json(nullptr);
  metadata["duration_ms"] = event.duration ? json(event.duration->count()) : json(nullptr);
  metadata["worker_pid"] = event.pid > 0 ? json(event.pid) : json(nullptr);
  metadata["exit_code"] = nullptr;
  if (event.status) {
    const auto* signaled = std::get_if<Signaled>(&*event.status);
    metadata["exit_code"] = signaled != nullptr ? -signaled->signo : std::get<Exited>(*event.status).code;
  }
  events_.write(line_of({{"name", "torchelastic.worker.status." + std::string(event.state)},
                         {"source", event.of_agent ? "AGENT" : "WORKER"},
                         {"timestamp", static_cast<std::int64_t>(now())},
                         {"metadata", std::move(metadata)}}),
                *this);
}

std::string Telling::metric_line(std::string_view name, double value) const {
  const auto whole = static_cast<std::int64_t>(value);
  return line_of({{"name", "workers." + config_.rendezvous.role + "." + std::string(name)},
                  {"value", static_cast<double>(whole) == value ? json(whole) : json(value)},
                  {"timestamp", now()},
                  {"run_id", config_.rendezvous.run_id},
                  {"hostname", config_.rendezvous.host_name}});
}

void Telling::measure(std::string_view name, double value) {
  if (metrics()) metrics_.write(metric_line(name, value), *this);
}

void Telling::measure_end(bool failed, int restarts) {
  if (!metrics()) return;
  const int max = config_.rendezvous.max_restarts;
  const bool again = restarts > 0;
  measure("run_total", 1);
  measure("run_success_with_retries", !failed && again ? 1 : 0);
  measure("run_success_no_retries", !failed && !again ? 1 : 0);
  measure("run_failed_with_retries", failed && again ? 1 : 0);
  measure("run_failed_no_retries", failed && !again ? 1 : 0);
  measure("flakiness", failed ? 100.0 : 100.0 - 100.0 * (max - restarts + 1) / (max + 1));
}

}  // namespace cxxrun::agent
