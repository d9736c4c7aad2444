// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

/// The agent's decisions, pure: what happens next on this node when the rendezvous, a worker or a person says
/// something. The shell (agent.cpp) turns facts into events and carries the actions out in order.
namespace cxxrun::agent {

enum class Phase {
  Joining,   ///< said ready; no process of ours runs
  Running,   ///< workers run
  Done,      ///< all workers here exited 0; their helpers may live; waiting for the other nodes
  Stopping,  ///< the stop ladder runs
  Idle,      ///< every process is gone; waiting to hear what the job does next
  Leaving,   ///< goodbye said, waiting for its answer; no process of ours runs
  Finished,
};

// --- events: facts ---
struct RoundStarted {
  int workers = 1;
};                      ///< the rendezvous starts a round
struct StartFailed {};  ///< not all workers could be started; none runs
struct WorkerEnded {
  bool ok = false;
  bool by_us = false;
};                       ///< by_us: after a signal of ours
struct RoundStopped {};  ///< the rendezvous ends the round
struct JobClosed {
  int exit_code = 0;
};  ///< the rendezvous ends the job
struct AllGone {
  bool stuck = false;
};  ///< the stop ladder has ended
struct SignalCame {
  int signo = 0;
};               ///< a person or a scheduler
struct Left {};  ///< our goodbye was answered, or given up
using Event =
    std::variant<RoundStarted, StartFailed, WorkerEnded, RoundStopped, JobClosed, AllGone, SignalCame, Left>;

// --- actions: orders ---
struct SayReady {
  bool operator==(const SayReady&) const = default;
};  ///< open the next store, tell the rendezvous
struct StartWorkers {
  bool operator==(const StartWorkers&) const = default;
};
struct ReportFailure {
  bool operator==(const ReportFailure&) const = default;
};  ///< of the worker, or start, of this event
struct SayDone {
  bool operator==(const SayDone&) const = default;
};
struct StopWorkers {
  int signo = 0;
  bool operator==(const StopWorkers&) const = default;
};
struct EndGrace {
  bool operator==(const EndGrace&) const = default;
};
struct ForwardSignal {
  int signo = 0;
  bool operator==(const ForwardSignal&) const = default;
};
struct Suspend {
  bool operator==(const Suspend&) const = default;
};
struct Resume {
  bool operator==(const Resume&) const = default;
};
/// The other nodes need not wait for our workers' grace: they hear now that this node will leave.
struct AnnounceLeaving {
  bool operator==(const AnnounceLeaving&) const = default;
};
enum class Goodbye { Polite, StopJob, BrokenHost };
struct SayGoodbye {
  Goodbye why = Goodbye::Polite;
  bool operator==(const SayGoodbye&) const = default;
};
/// A signal that we do not handle did what it does to a process: we end by it, and all of ours with us.
struct Die {
  int signo = 0;
  bool operator==(const Die&) const = default;
};
/// `signo` > 0: end by that signal; else with `exit_code`.
struct Finish {
  int exit_code = 0;
  int signo = 0;
  bool operator==(const Finish&) const = default;
};
using Action = std::variant<SayReady, StartWorkers, ReportFailure, SayDone, StopWorkers, EndGrace,
                            ForwardSignal, Suspend, Resume, AnnounceLeaving, SayGoodbye, Die, Finish>;

/// Bit n-1: signal n.
[[nodiscard]] std::uint64_t signal_set(const std::vector<int>& signals);
[[nodiscard]] constexpr std::uint64_t signal_bit(int signo) { return std::uint64_t{1} << (signo - 1); }

struct State {
  Phase phase = Phase::Joining;
  /// Signals that stop (--signals-to-handle), as signal_set() has them.
  std::uint64_t handled = signal_bit(SIGTERM) | signal_bit(SIGINT) | signal_bit(SIGHUP) | signal_bit(SIGQUIT);
  int alive = 0;            ///< workers that have not ended
  bool round_over = false;  ///< the rendezvous said that the round is over
  bool closed = false;      ///< the rendezvous said that the job is over
  int closed_code = 0;
  int stop_signal = 0;       ///< the first signal that asked this agent to stop; 0: none
  bool interrupted = false;  ///< a SIGINT or SIGQUIT came: the next one ends the grace
  bool goodbye_said = false;
  bool left = false;
  bool stuck = false;
};

struct Step {
  State state;
  std::vector<Action> actions;
};

/// Pure: same arguments, same result. An event that makes no sense in a phase changes nothing: late events
/// are normal.
[[nodiscard]] Step step(State state, const Event& event);

/// What an agent does first.
[[nodiscard]] Step begin(State state = {});

[[nodiscard]] const char* name(Phase phase);

}  // namespace cxxrun::agent
