// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "launcher/spawn_spec.hpp"
#include "rendezvous/config.hpp"

namespace cxxrun::agent {

using namespace std::chrono_literals;

/// What a worker executes; the same for all local ranks but for the macro ${local_rank} in `argv`.
struct Program {
  std::string path;               ///< for exec, looked up already
  std::vector<std::string> argv;  ///< argv[0] included
  bool python = false;            ///< run by a Python interpreter
  std::string name;               ///< for people: the script, module or program as it was typed
};

/// How the store admits clients: members of the round, everybody, or prefixes.
struct StoreAdmission {
  enum class Mode { Members, Any, Prefixes } mode = Mode::Members;
  std::vector<std::string> prefixes;
};

/// Everything one agent needs. Plain data, validated by cli/plan.
struct Config {
  rendezvous::Config rendezvous;
  Program program;
  std::vector<std::string> environment;  ///< our own, for the workers
  std::string signals_to_handle = "SIGTERM,SIGINT,SIGHUP,SIGQUIT";
  std::chrono::milliseconds shutdown_timeout{30s};
  int usable_cpus = 1;
  bool terminal = false;        ///< stderr is a terminal
  bool stderr_inherit = false;  ///< --stderr=inherit
  StoreAdmission store_admission;
  std::size_t store_value_bytes_max = 0;  ///< 0: the default
};

}  // namespace cxxrun::agent
