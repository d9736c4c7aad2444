// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/config.hpp"
#include "agent/failure_report.hpp"
#include "base/failure.hpp"
#include "base/result.hpp"

namespace cxxrun::agent {

/// Failures that an agent keeps for its result file: the latest of all rounds.
inline constexpr std::size_t kFailuresKeptMax = 100;

/// How an agent ended, for programs. docs/reference.md has the schema.
struct ResultFacts {
  std::string_view
      outcome;  ///< "succeeded", "failed", "interrupted", "nodes-missing", "refused", "stopped", ...
  int exit_code = 0;
  int signo = 0;  ///< we end by this signal; 0: by the code
  std::string reason;
  int rounds = 0;              ///< started here
  int restarts = 0;            ///< spent by failures of workers, of the whole job
  std::optional<World> world;  ///< of the last round; unset: none was started here
  std::optional<Failure> root_cause;
  std::deque<Failure> failures;          ///< of this node's workers, in all rounds
  std::vector<WorkerEnd> workers;        ///< of the last round here
  std::chrono::milliseconds started{0};  ///< since the epoch
  std::chrono::milliseconds ended{0};
  std::chrono::milliseconds joining{0};  ///< how much of that was waiting for a round to start
};

/// One JSON object and a newline.
std::string result_text(const Config& config, const ResultFacts& facts);

/// Where nothing was started: "usage", "not-started" or "internal". Writes --result-file and the termination
/// log, as the agent itself does at its end. Errors: of the result file.
Result<> write_early_end(const Config& config, std::string_view outcome, int exit_code,
                         const std::string& reason);

}  // namespace cxxrun::agent
