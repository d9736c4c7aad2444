// SPDX-License-Identifier: Apache-2.0
#include "agent/worker_specs.hpp"

#include <algorithm>
#include <string_view>

#include "agent/arguments.hpp"
#include "agent/stdin_owner.hpp"
#include "agent/stream_plans.hpp"
#include "launcher/terminal.hpp"
#include "worker_env/environ.hpp"

namespace cxxrun::agent {
namespace {

worker_env::Facts facts_of(const Config& config) {
  worker_env::Facts facts;
  facts.run_id = config.rendezvous.run_id;
  facts.role = config.rendezvous.role;
  facts.max_restarts = config.rendezvous.max_restarts;
  facts.signals_to_handle = config.signals.to_handle;
  facts.usable_cpus = config.usable_cpus;
  facts.python = config.program.python;
  return facts;
}

bool has_variable(const std::vector<std::string>& environment, std::string_view name) {
  return std::any_of(environment.begin(), environment.end(), [&](const std::string& entry) {
    return entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=';
  });
}

void plan_watch(const Config& config, const WatchPlan& watch, launcher::SpawnSpec& spec,
                worker_env::Variables& own) {
  if (!watch.timer_file.empty()) own.emplace_back("TORCHELASTIC_TIMER_FILE", watch.timer_file);
  if (watch.heartbeat_from.empty()) return;
  spec.fds.push_back({watch.heartbeat_from[static_cast<std::size_t>(spec.local_rank)], watch.heartbeat_to});
  own.emplace_back("CXXRUN_HEARTBEAT_FD", std::to_string(watch.heartbeat_to));
  // Then a Python program that hangs shows where each of its threads is; to others it means nothing.
  if (!has_variable(config.environment, "PYTHONFAULTHANDLER")) own.emplace_back("PYTHONFAULTHANDLER", "1");
}

}  // namespace

std::vector<launcher::SpawnSpec> worker_specs(const Config& config, const World& world,
                                              const RoundFiles& files) {
  const worker_env::Inherited inherited = worker_env::inherit(config.environment);
  worker_env::Facts facts = facts_of(config);
  facts.virtual_local_rank = config.placement.virtual_local_rank;
  const PlacementOptions& placement = config.placement;
  const bool in_background = launcher::terminal_belongs_to_others();
  std::vector<launcher::SpawnSpec> specs(static_cast<std::size_t>(world.local_world_size));
  for (int i = 0; i < world.local_world_size; ++i) {
    auto& spec = specs[static_cast<std::size_t>(i)];
    spec.local_rank = i;
    spec.rank = world.base_rank + i;
    spec.program = config.program.path;
    spec.argv = with_local_rank(config.program.argv, i);
    facts.error_file = files.error_path ? files.error_path(i) : "";
    const auto at = static_cast<std::size_t>(i);
    if (at < placement.cpus.size()) spec.cpus = placement.cpus[at];
    facts.threads = at < placement.threads.size() ? placement.threads[at] : 0;
    worker_env::Variables own = at < placement.masks.size() ? placement.masks[at] : worker_env::Variables{};
    plan_watch(config, files.watch, spec, own);
    spec.env = worker_env::build(inherited, facts, world, i, own);
    plan_streams(config, world, files.attempt, spec);
    plan_stdin(config, world, in_background, spec);
  }
  return specs;
}

}  // namespace cxxrun::agent
