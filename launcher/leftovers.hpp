// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <set>
#include <utility>
#include <vector>

#include "launcher/process_tree.hpp"

namespace cxxrun::launcher {

/// A worker as far as the question is concerned whose a process is.
struct WorkerIdentity {
  pid_t pid = 0;  ///< also its session
  int local_rank = 0;
  int rank = 0;  ///< RANK in its environment
  bool alive = false;
};

/// Index into `workers` of the one that started a process: by session, else by RANK in its environment (a
/// virtual LOCAL_RANK is 0 for all); -1: unknown.
[[nodiscard]] int owner_of(const Process& process, const std::vector<WorkerIdentity>& workers);

/// What workers left behind or still run: everything below the calling process, a child subreaper, but for
/// children that it had before (`foreign`).
class Leftovers {
 public:
  explicit Leftovers(std::vector<pid_t> foreign) : foreign_(std::move(foreign)) {}

  /// SIGTERM, once each, to what belongs to no living worker. What cannot be assigned counts as a living
  /// one's while there is any. What a process starts after it was told (a `cp` that saves) is its own
  /// business until it ends.
  void terminate(const std::vector<WorkerIdentity>& workers);
  /// SIGKILL to everything, workers included, until a look finds nothing new.
  void kill();
  /// SIGSTOP or SIGCONT to the sessions of all workers.
  void signal_sessions(const std::vector<WorkerIdentity>& workers, int signo) const;
  /// Reaps adopted children that have ended; leaves `workers` and the foreign ones alone.
  void reap_adopted(const std::vector<WorkerIdentity>& workers) const;
  [[nodiscard]] bool any() const;  ///< anything left, zombies included
  [[nodiscard]] std::vector<Process> list() const;
  [[nodiscard]] const std::vector<pid_t>& foreign() const { return foreign_; }

 private:
  [[nodiscard]] std::set<pid_t> told_of(const std::vector<Process>& all) const;  ///< those that got SIGTERM
  using Name = std::pair<pid_t, std::uint64_t>;                                  ///< pid and start time
  std::vector<pid_t> foreign_;
  std::set<Name> terminated_;
  std::set<Name> killed_;
};

}  // namespace cxxrun::launcher
