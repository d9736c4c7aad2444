// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/exit_status.hpp"
#include "base/failure.hpp"
#include "rendezvous/member.hpp"

namespace cxxrun::agent {

/// What became of one worker of this node.
struct WorkerEnd {
  int rank = 0;
  bool ended = false;
  ExitStatus status{};
  int our_signal = 0;  ///< the last signal that we had sent; 0: none
  int pid = 0;         ///< 0: not known yet
  /// Never: a worker before it could not be started. Undone: it was, but not all after it.
  enum class Start { Done, Undone, Never } start = Start::Done;
};

/// Lines of a worker's stderr or traceback that fit on a screen beside the rest.
inline constexpr std::size_t kReportLinesMax = 30;

/// Why the job ended, for people: one screen, the culprit first (rank, node, pid, how, when, its traceback or
/// last lines), then this node's other workers: those that failed by themselves, those that we stopped and
/// how, those that finished; then the exit code, with `code_note` behind it. `when`: the time, for people.
/// Lines end with a newline and start with "cxxrun: " or two blanks. The first line is equal on all nodes.
std::string failure_report(const rendezvous::Closed& closed, const std::vector<WorkerEnd>& here,
                           int exit_code, const std::string& code_note, const std::string& when = "",
                           std::size_t lines_max = kReportLinesMax);

/// The same in at most `bytes_max` bytes: of a long text the end stays, which is where a reason stands.
std::string failure_report_within(std::size_t bytes_max, const rendezvous::Closed& closed,
                                  const std::vector<WorkerEnd>& here, int exit_code,
                                  const std::string& code_note, const std::string& when = "");

/// "rank 1 (local rank 0 on node hb, pid 4711) ended with exit code 7"; without a pid: "... could not be
/// started: WHY"
std::string headline(const Failure& failure);

/// Ranks 0,1,2,5 as "0-2, 5".
std::string folded(std::vector<int> ranks);

}  // namespace cxxrun::agent
