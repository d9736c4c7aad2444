// SPDX-License-Identifier: Apache-2.0
#pragma once

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
  ExitStatus status;
  int our_signal = 0;  ///< the last signal that we had sent; 0: none
  /// Never: a worker before it could not be started. Undone: it was, but not all after it.
  enum class Start { Done, Undone, Never } start = Start::Done;
};

/// Why the job ended, for people: one screen, the culprit first (rank, node, pid, how, its last lines or
/// traceback), then this node's other workers, then the exit code. Lines end with a newline and start with
/// "cxxrun: " or two blanks. The first line is equal on all nodes.
std::string failure_report(const rendezvous::Closed& closed, const std::vector<WorkerEnd>& here);

/// "rank 1 (local rank 0 on node hb, pid 4711) ended with exit code 7"; without a pid: "... could not be
/// started: WHY"
std::string headline(const Failure& failure);

}  // namespace cxxrun::agent
