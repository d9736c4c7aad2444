// SPDX-License-Identifier: Apache-2.0
#include "agent/machine.hpp"

#include <csignal>
#include <utility>

namespace cxxrun::agent {
namespace {

constexpr int kStuckExitCode = 71;  // cli/exit_code.hpp: a process that cannot be killed

/// One step in the making: the rules below read as sentences.
class Rules {
 public:
  explicit Rules(State state) { step_.state = state; }
  Step take() { return std::move(step_); }

  void operator()(const RoundStarted& e) {
    if (s().phase != Phase::Joining) return;
    s().phase = Phase::Running;
    s().alive = e.workers;
    s().round_over = false;
    act(StartWorkers{});
  }

  void operator()(const StartFailed&) {
    if (s().phase != Phase::Running) return;
    s().phase = Phase::Idle;
    s().alive = 0;
    act(ReportFailure{});
  }

  void operator()(const WorkerEnded& e) {
    if (s().alive > 0) --s().alive;
    if (s().phase == Phase::Stopping) {
      if (!e.ok && !e.by_us) act(ReportFailure{});  // it died before our signal reached it
      return;
    }
    if (s().phase != Phase::Running) return;
    if (!e.ok) {
      act(ReportFailure{});
      stop_workers(SIGTERM);
    } else if (s().alive == 0) {
      s().phase = Phase::Done;
      act(SayDone{});
    }
  }

  void operator()(const RoundStopped&) {
    s().round_over = true;
    if (has_processes()) stop_workers(SIGTERM);
    if (s().phase == Phase::Idle) conclude();
  }

  void operator()(const JobClosed& e) {
    if (s().closed || s().phase == Phase::Finished) return;
    s().closed = true;
    s().closed_code = e.exit_code;
    if (has_processes()) stop_workers(SIGTERM);
    if (s().phase != Phase::Stopping) conclude();
  }

  void operator()(const AllGone& e) {
    if (s().phase != Phase::Stopping) return;
    s().stuck = e.stuck;
    conclude();
  }

  void operator()(const Left&) {
    s().left = true;
    if (s().phase == Phase::Leaving) conclude();
  }

  void operator()(const SignalCame& e) {
    if (s().phase == Phase::Finished) return;
    if (e.signo == SIGCONT) return act(Resume{});
    const bool handled = (s().handled & signal_bit(e.signo)) != 0;
    switch (e.signo) {
      case SIGINT:
      case SIGQUIT: return handled ? person_wants_out(e.signo) : die(e.signo);
      case SIGTERM:
      case SIGHUP: return handled ? leave_politely(e.signo) : die(e.signo);
      case SIGTSTP: return handled ? leave_politely(e.signo) : act(Suspend{});
      default: return handled ? leave_politely(e.signo) : act(ForwardSignal{e.signo});
    }
  }

 private:
  State& s() { return step_.state; }
  void act(Action action) { step_.actions.push_back(action); }
  bool has_processes() { return s().phase == Phase::Running || s().phase == Phase::Done; }

  void stop_workers(int signo) {
    s().phase = Phase::Stopping;
    act(StopWorkers{signo});
  }

  void say_goodbye(Goodbye why) {
    if (std::exchange(s().goodbye_said, true)) return;
    act(SayGoodbye{why});
  }

  /// SIGTERM, SIGHUP, or another that was asked for: this node leaves, the job may go on. Schedulers repeat
  /// the signal: only the first counts.
  void leave_politely(int signo) {
    if (s().stop_signal != 0) return;
    s().stop_signal = signo;
    if (has_processes() || s().phase == Phase::Stopping) act(AnnounceLeaving{});
    if (has_processes()) {
      stop_workers(signo);
    } else if (s().phase != Phase::Stopping) {
      conclude();
    }
  }

  /// SIGINT or SIGQUIT: a person stops the job. The second SIGINT, or a SIGQUIT while stopping, ends the
  /// grace.
  void person_wants_out(int signo) {
    if (s().phase == Phase::Stopping && (s().interrupted || signo == SIGQUIT)) act(EndGrace{});
    if (std::exchange(s().interrupted, true)) return;
    if (s().stop_signal == 0) s().stop_signal = signo;
    say_goodbye(Goodbye::StopJob);  // at once: the other nodes' grace runs beside ours
    if (has_processes()) {
      stop_workers(signo);
    } else if (s().phase != Phase::Stopping) {
      conclude();
    }
  }

  /// No process of ours is left: what now?
  void conclude() {
    if (s().phase == Phase::Finished) return;
    if (s().stuck) return leave_then_finish(Goodbye::BrokenHost, Finish{kStuckExitCode, 0});
    if (s().stop_signal != 0) {
      const auto why = s().interrupted ? Goodbye::StopJob : Goodbye::Polite;
      return leave_then_finish(why, Finish{128 + s().stop_signal, s().stop_signal});
    }
    if (s().closed) return finish(Finish{s().closed_code, 0});
    if (s().round_over) {
      s().phase = Phase::Joining;
      s().round_over = false;
      return act(SayReady{});
    }
    s().phase = Phase::Idle;
  }

  void leave_then_finish(Goodbye why, Finish end) {
    say_goodbye(why);
    s().phase = Phase::Leaving;
    if (s().left || s().closed) finish(end);
  }

  void die(int signo) {
    s().phase = Phase::Finished;
    act(Die{signo});
  }

  void finish(Finish end) {
    s().phase = Phase::Finished;
    act(end);
  }

  Step step_;
};

}  // namespace

Step step(State state, const Event& event) {
  Rules rules(state);
  std::visit([&](const auto& fact) { rules(fact); }, event);
  return rules.take();
}

Step begin(State state) { return Step{state, {SayReady{}}}; }

std::uint64_t signal_set(const std::vector<int>& signals) {
  std::uint64_t set = 0;
  for (const int signo : signals) set |= signal_bit(signo);
  return set;
}

const char* name(Phase phase) {
  switch (phase) {
    case Phase::Joining: return "joining";
    case Phase::Running: return "running";
    case Phase::Done: return "done";
    case Phase::Stopping: return "stopping";
    case Phase::Idle: return "idle";
    case Phase::Leaving: return "leaving";
    case Phase::Finished: return "finished";
  }
  return "?";
}

}  // namespace cxxrun::agent
