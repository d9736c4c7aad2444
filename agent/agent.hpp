// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/config.hpp"

namespace cxxrun::agent {

/// How the agent process shall end: by signal `signo` if that is not 0, else with `exit_code`.
struct End {
  int exit_code = 0;
  int signo = 0;
};

/// Runs one agent to its end: joins, starts the workers of each round, watches them, reports, leaves nothing
/// behind. Call it in the process that guard() returned in, on its main thread. Writes to stdout and stderr.
End run(const Config& config);

}  // namespace cxxrun::agent
