// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "launcher/spawn_spec.hpp"

namespace cxxrun::launcher {

/// A process that was started. `pidfd`: readable once it has ended.
struct Spawned {
  pid_t pid = 0;
  UniqueFd pidfd;
};

/// What to put at 0, 1 and 2; -1: as we have it. Borrowed, close-on-exec.
struct StandardFds {
  int in = -1;
  int out = -1;
  int err = -1;
};

/// Starts processes. A seam: the process need not be forked by the spawner itself.
class Spawner {
 public:
  virtual ~Spawner() = default;
  /// The new process leads a session of its own and is SIGKILLed when the calling *thread* ends (so call it
  /// from one that lives as long as the process). Ignores spec.out, spec.err and spec.null_stdin: `standard`
  /// says. Errors: errno of the failed step, with the step in the message; then no process is left.
  virtual Result<Spawned> spawn(const SpawnSpec& spec, const StandardFds& standard) = 0;
};

/// clone(CLONE_VM | CLONE_VFORK | CLONE_PIDFD): the child runs in our memory until exec, makes only system
/// calls on what was prepared before, and gets back the signal mask and dispositions that we were started
/// with.
class CloneSpawner : public Spawner {
 public:
  CloneSpawner();  ///< throws std::system_error without memory
  CloneSpawner(const CloneSpawner&) = delete;
  CloneSpawner& operator=(const CloneSpawner&) = delete;
  ~CloneSpawner() override;
  Result<Spawned> spawn(const SpawnSpec& spec, const StandardFds& standard) override;

 private:
  std::uint64_t signals_to_default_ = 0;  ///< bit n-1: signal n
  std::uint64_t signals_to_ignore_ = 0;
  void* stack_ = nullptr;  ///< the child's; one is enough, because the parent waits for the exec
};

}  // namespace cxxrun::launcher
