// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/event_loop.hpp"
#include "base/exit_status.hpp"
#include "base/result.hpp"
#include "launcher/spawn_spec.hpp"

namespace cxxrun::launcher {

class Consoles;

/// A worker has ended (its own process; helpers may live on). Reported once per worker.
struct Ended {
  int local_rank = 0;
  pid_t pid = 0;
  ExitStatus status;
  int our_signal = 0;                   ///< the last signal that we had sent to it; 0: none
  std::vector<std::string> last_words;  ///< what the stderr ring holds at that moment, oldest first
  std::string last_words_note;          ///< why it is empty, or where the full text lies
  std::string verdict;                  ///< of condemn(): a failure of its own; empty: none
};

/// A process that SIGKILL did not end within the limit (state D): named and given up.
struct Stuck {
  int local_rank = -1;  ///< -1: unknown
  pid_t pid = 0;
};

struct SetOptions {
  Duration kill_wait = std::chrono::seconds(10);  ///< after SIGKILL, before a process counts as stuck
  /// Our stdout and stderr (console.hpp), shared by the sets of all rounds, so that text which a slow reader
  /// has not taken yet outlives its round: call flush_until() before the process ends. Unset: the set has its
  /// own, and its destructor gives a slow reader kDrainTimeout.
  std::shared_ptr<Consoles> consoles;
};

struct SetHandlers {
  std::function<void(const Ended&)> on_ended;
  /// After stop(): no process of this set is left, or those named are given up. Once.
  std::function<void(std::vector<Stuck>)> on_gone;
  /// Something a person should know, one line: "rank 3 (pid 71) ignored SIGTERM, 25 s left".
  std::function<void(const std::string&)> on_note;
};

/// The workers of one round on this node, with everything they started.
///
/// All or none: if one cannot be started, those before it are killed and start() fails. Handlers run on the
/// loop, never from inside a call. Destruction SIGKILLs what is left (workers, helpers, adopted orphans) and
/// reaps it.
class WorkerSet {
 public:
  /// Errors: errno of the failed step of the first worker that failed, with the step in the message;
  /// `failed_local_rank` says which worker it was.
  static Result<std::unique_ptr<WorkerSet>> start(EventLoop& loop, std::vector<SpawnSpec> workers,
                                                  SetOptions options, SetHandlers handlers,
                                                  int* failed_local_rank = nullptr);
  virtual ~WorkerSet() = default;

  /// The stop ladder: `signo` to each worker itself; when a worker has ended, SIGTERM to what is left of its
  /// session and descendants; `grace` after the call SIGKILL to all of it. Also sweeps the helpers of workers
  /// that have ended before. A repeated call is ignored.
  virtual void stop(int signo, Duration grace) = 0;
  /// The grace is over now: SIGKILL to all.
  virtual void end_grace() = 0;
  /// Passes a signal on to each living worker (not to its helpers).
  virtual void forward(int signo) = 0;
  /// Ends one worker that hangs: `signo` to it, SIGKILL when it lives on for `grace`. Its end is a failure of
  /// its own then, also where it exits with 0 (that becomes `signo`). False: it does not live, or was
  /// condemned before.
  virtual bool condemn(int local_rank, int signo, Duration grace, std::string verdict) = 0;
  /// The living worker that a process is, or that started it; -1: none of this set.
  [[nodiscard]] virtual int local_rank_of(pid_t pid) const = 0;
  [[nodiscard]] virtual pid_t pid_of(int local_rank) const = 0;  ///< of a living worker; 0: it has ended
  virtual void suspend() = 0;                                    ///< SIGSTOP to every worker's whole session
  virtual void resume() = 0;                                     ///< SIGCONT to the same
  [[nodiscard]] virtual int condemned() const = 0;               ///< living workers that condemn() named
  [[nodiscard]] virtual int alive() const = 0;                   ///< workers that have not ended
};

}  // namespace cxxrun::launcher
