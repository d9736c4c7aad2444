// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "agent/config.hpp"
#include "base/result.hpp"
#include "cli/options.hpp"
#include "worker_env/topology.hpp"

/// From raw options and surroundings to a validated plan: every error of usage is found here, before anything
/// starts. Pure: what it needs of the machine comes in as functions, called only when needed (each costs some
/// system calls).
namespace cxxrun::cli {

struct Facts {
  EnvironmentLookup environment;
  std::function<int()> usable_cpus;
  std::function<int()> mask_cpus;    ///< affinity alone, cheap, never less than usable_cpus; may be empty
  std::function<int()> usable_gpus;  ///< that a worker would see
  std::function<std::vector<worker_env::Gpu>()> gpus;  ///< of the machine
  std::function<worker_env::CpuSet()> allowed_cpus;    ///< the affinity mask, by number
  std::function<worker_env::Topology(const worker_env::CpuSet&, worker_env::Binding)> topology;
  std::function<std::string()> host_name;                                 ///< need not resolve
  std::function<std::string()> random_id;                                 ///< a fresh run id
  std::function<Result<std::string>(const std::string& path)> read_file;  ///< for token_file
  bool launch = false;                                                    ///< started as cxxrun-launch
  bool terminal = false;                                                  ///< stderr is a terminal
};

/// An option's value that the command line, its variable and the files did not say, or said in words (auto).
struct Taken {
  Opt option;
  std::string value;
  std::string from;  ///< "MASTER_ADDR", "Slurm", "usable CPUs"
};

enum class DryRun { No, Text, Json };

/// `config.program` and `config.environment` are left to the caller; it finds the program by `words`.
struct LaunchPlan {
  agent::Config config;
  std::vector<std::string> words;  ///< program and its arguments, as typed; not empty
  bool module = false;
  bool no_python = false;
  DryRun dry_run = DryRun::No;   ///< print the plan instead
  std::vector<Taken> taken;      ///< for --dry-run
  std::string scheduler_run_id;  ///< what a scheduler calls the job; empty: nothing does
  /// Worth a line at the start: where the endpoint came from, what was ignored.
  std::vector<std::string> notes;
};

struct PlanError {
  int exit_code = 2;
  std::string message;  ///< 1 to 3 lines: what is wrong, what to write instead
};

std::variant<LaunchPlan, PlanError> make_plan(const RawOptions& options, const Facts& facts);

}  // namespace cxxrun::cli
