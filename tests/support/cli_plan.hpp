// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "cli/options.hpp"
#include "cli/plan.hpp"

/// A command line, an environment and a machine, all made up, through options and plan.
namespace cxxrun::cli_test {

using Environment = std::map<std::string, std::string>;

inline cli::EnvironmentLookup lookup(const Environment& environment) {
  return [&environment](const char* name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    if (found == environment.end()) return std::nullopt;
    return found->second;
  };
}

struct Machine {
  Environment environment;
  std::vector<cli::ConfigFile> files;
  int cpus = 4;
  int gpus = 0;
  std::map<std::string, std::string> readable;  ///< for token_file
};

struct Outcome {
  cli::LaunchPlan plan;
  int code = 0;         ///< 0: planned
  std::string message;  ///< of an error
  [[nodiscard]] const rendezvous::Config& rdzv() const { return plan.config.rendezvous; }
  [[nodiscard]] bool noted(std::string_view part) const {
    for (const auto& note : plan.notes) {
      if (note.find(part) != std::string::npos) return true;
    }
    return false;
  }
};

/// `arguments`: without argv[0]; a program is added unless one is wanted by the test.
inline Outcome plan(std::vector<std::string> arguments, const Machine& machine = {},
                    bool add_program = true) {
  if (add_program) arguments.emplace_back("./train");
  Outcome out;
  auto parsed = cli::parse_options(arguments, lookup(machine.environment), machine.files);
  if (auto* error = std::get_if<cli::UsageError>(&parsed)) {
    out.code = 2;
    out.message = error->message;
    return out;
  }
  cli::Facts facts;
  facts.environment = lookup(machine.environment);
  facts.usable_cpus = [&] { return machine.cpus; };
  facts.usable_gpus = [&] { return machine.gpus; };
  facts.host_name = [] { return std::string("node7"); };
  facts.random_id = [] { return std::string("random-id"); };
  facts.read_file = [&](const std::string& path) -> std::optional<std::string> {
    const auto found = machine.readable.find(path);
    if (found == machine.readable.end()) return std::nullopt;
    return found->second;
  };
  auto made = cli::make_plan(std::get<cli::RawOptions>(parsed), facts);
  if (auto* error = std::get_if<cli::PlanError>(&made)) {
    out.code = error->exit_code;
    out.message = error->message;
  } else {
    out.plan = std::move(std::get<cli::LaunchPlan>(made));
  }
  return out;
}

}  // namespace cxxrun::cli_test
