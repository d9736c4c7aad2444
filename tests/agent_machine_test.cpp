// SPDX-License-Identifier: Apache-2.0
#include "agent/machine.hpp"

#include <catch2/catch.hpp>
#include <csignal>

using namespace cxxrun::agent;

namespace {

using Actions = std::vector<Action>;

State in(Phase phase, int alive = 0) {
  State state;
  state.phase = phase;
  state.alive = alive;
  return state;
}
State with(State state, void (*change)(State&)) {
  change(state);
  return state;
}

const State running = in(Phase::Running, 2);
const State stopping = in(Phase::Stopping, 1);
const State stopping_by_term = with(stopping, [](State& s) { s.stop_signal = SIGTERM; });
const State stopping_by_int = with(stopping, [](State& s) {
  s.stop_signal = SIGINT;
  s.interrupted = s.goodbye_said = true;
});

}  // namespace

TEST_CASE("agent: one event, one row", "[agent]") {
  struct Row {
    const char* name;
    State before;
    Event event;
    Phase phase;
    Actions want;
  };
  const auto row = GENERATE(values<Row>({
      {"round starts: start workers", in(Phase::Joining), RoundStarted{2}, Phase::Running, {StartWorkers{}}},
      {"late start while leaving: nothing", in(Phase::Leaving), RoundStarted{2}, Phase::Leaving, {}},
      {"one of two done: wait", running, WorkerEnded{true}, Phase::Running, {}},
      {"last one done: say so", in(Phase::Running, 1), WorkerEnded{true}, Phase::Done, {SayDone{}}},
      {"failure: tell, stop the others",
       running,
       WorkerEnded{false},
       Phase::Stopping,
       {ReportFailure{}, StopWorkers{SIGTERM}}},
      {"start failed: tell, nothing to stop", running, StartFailed{}, Phase::Idle, {ReportFailure{}}},
      {"second failure before our signal: tell",
       stopping,
       WorkerEnded{false, false},
       Phase::Stopping,
       {ReportFailure{}}},
      {"death by our signal: no failure", stopping, WorkerEnded{false, true}, Phase::Stopping, {}},
      {"round stopped while running: stop", running, RoundStopped{}, Phase::Stopping, {StopWorkers{SIGTERM}}},
      {"round stopped after our success: stop helpers",
       in(Phase::Done),
       RoundStopped{},
       Phase::Stopping,
       {StopWorkers{SIGTERM}}},
      {"round stopped when all is gone: ready",
       in(Phase::Idle),
       RoundStopped{},
       Phase::Joining,
       {SayReady{}}},
      {"round stopped during the ladder: remember", stopping, RoundStopped{}, Phase::Stopping, {}},
      {"gone before the round is over: wait", stopping, AllGone{}, Phase::Idle, {}},
      {"gone after the round is over: ready",
       with(stopping, [](State& s) { s.round_over = true; }),
       AllGone{},
       Phase::Joining,
       {SayReady{}}},
      {"job closed when idle: finish", in(Phase::Idle), JobClosed{7}, Phase::Finished, {Finish{7, 0}}},
      {"job closed when joining: finish",
       in(Phase::Joining),
       JobClosed{75},
       Phase::Finished,
       {Finish{75, 0}}},
      {"job closed while running: stop first",
       running,
       JobClosed{130},
       Phase::Stopping,
       {StopWorkers{SIGTERM}}},
      {"job closed after success: sweep helpers first",
       in(Phase::Done),
       JobClosed{0},
       Phase::Stopping,
       {StopWorkers{SIGTERM}}},
      {"gone, job closed: finish with its code",
       with(stopping,
            [](State& s) {
              s.closed = true;
              s.closed_code = 7;
            }),
       AllGone{},
       Phase::Finished,
       {Finish{7, 0}}},
      {"stuck process: leave as a broken host",
       stopping,
       AllGone{true},
       Phase::Leaving,
       {SayGoodbye{Goodbye::BrokenHost}}},
      {"SIGTERM while running: the others hear it, that signal to the workers",
       running,
       SignalCame{SIGTERM},
       Phase::Stopping,
       {AnnounceLeaving{}, StopWorkers{SIGTERM}}},
      {"SIGHUP while running: that signal to the workers",
       running,
       SignalCame{SIGHUP},
       Phase::Stopping,
       {AnnounceLeaving{}, StopWorkers{SIGHUP}}},
      {"SIGTERM while stopping: the others hear that this node does not come back",
       stopping,
       SignalCame{SIGTERM},
       Phase::Stopping,
       {AnnounceLeaving{}}},
      {"SIGTERM again: nothing", stopping_by_term, SignalCame{SIGTERM}, Phase::Stopping, {}},
      {"SIGTERM while joining: leave",
       in(Phase::Joining),
       SignalCame{SIGTERM},
       Phase::Leaving,
       {SayGoodbye{Goodbye::Polite}}},
      {"SIGTERM, all gone: leave",
       stopping_by_term,
       AllGone{},
       Phase::Leaving,
       {SayGoodbye{Goodbye::Polite}}},
      {"SIGINT while running: whole job, at once",
       running,
       SignalCame{SIGINT},
       Phase::Stopping,
       {SayGoodbye{Goodbye::StopJob}, StopWorkers{SIGINT}}},
      {"SIGINT twice: grace is over", stopping_by_int, SignalCame{SIGINT}, Phase::Stopping, {EndGrace{}}},
      {"SIGINT during a failure's stop: job ends, grace goes on",
       stopping,
       SignalCame{SIGINT},
       Phase::Stopping,
       {SayGoodbye{Goodbye::StopJob}}},
      {"SIGQUIT while running: passed on",
       running,
       SignalCame{SIGQUIT},
       Phase::Stopping,
       {SayGoodbye{Goodbye::StopJob}, StopWorkers{SIGQUIT}}},
      {"SIGQUIT while stopping: grace is over",
       stopping_by_term,
       SignalCame{SIGQUIT},
       Phase::Stopping,
       {EndGrace{}, SayGoodbye{Goodbye::StopJob}}},
      {"SIGINT, all gone: wait for the answer", stopping_by_int, AllGone{}, Phase::Leaving, {}},
      {"SIGUSR1: passed on, nothing stops",
       running,
       SignalCame{SIGUSR1},
       Phase::Running,
       {ForwardSignal{SIGUSR1}}},
      {"SIGUSR1 that is handled: as SIGTERM",
       with(running,
            [](State& s) {
              s.handled = signal_set({SIGTERM, SIGUSR1});
            }),
       SignalCame{SIGUSR1},
       Phase::Stopping,
       {AnnounceLeaving{}, StopWorkers{SIGUSR1}}},
      {"SIGTSTP that is handled: as SIGTERM",
       with(running, [](State& s) { s.handled = signal_set({SIGTSTP}); }),
       SignalCame{SIGTSTP},
       Phase::Stopping,
       {AnnounceLeaving{}, StopWorkers{SIGTSTP}}},
      {"SIGTERM that is not handled: its default action",
       with(running, [](State& s) { s.handled = 0; }),
       SignalCame{SIGTERM},
       Phase::Finished,
       {Die{SIGTERM}}},
      {"SIGINT that is not handled, while joining",
       with(in(Phase::Joining), [](State& s) { s.handled = 0; }),
       SignalCame{SIGINT},
       Phase::Finished,
       {Die{SIGINT}}},
      {"Ctrl-Z", running, SignalCame{SIGTSTP}, Phase::Running, {Suspend{}}},
      {"fg", running, SignalCame{SIGCONT}, Phase::Running, {Resume{}}},
  }));
  INFO(row.name);
  const Step got = step(row.before, row.event);
  CHECK(name(got.state.phase) == std::string(name(row.phase)));
  CHECK((got.actions == row.want));
}

namespace {
/// All actions of a story, in order.
Actions play(const std::vector<Event>& events, State* end = nullptr) {
  Step now = begin();
  Actions all = now.actions;
  for (const auto& event : events) {
    now = step(now.state, event);
    all.insert(all.end(), now.actions.begin(), now.actions.end());
  }
  if (end != nullptr) *end = now.state;
  return all;
}
}  // namespace

TEST_CASE("agent: a failure, a restart, success", "[agent]") {
  const Actions all =
      play({RoundStarted{2}, WorkerEnded{false}, RoundStopped{}, WorkerEnded{false, true}, AllGone{},
            RoundStarted{2}, WorkerEnded{true}, WorkerEnded{true}, JobClosed{0}, AllGone{}});
  CHECK((all == Actions{SayReady{}, StartWorkers{}, ReportFailure{}, StopWorkers{SIGTERM}, SayReady{},
                        StartWorkers{}, SayDone{}, StopWorkers{SIGTERM}, Finish{0, 0}}));
}

TEST_CASE("agent: SIGTERM ends by that signal, whatever the job says meanwhile", "[agent]") {
  const Actions polite =
      play({RoundStarted{1}, SignalCame{SIGTERM}, WorkerEnded{true, true}, AllGone{}, Left{}});
  CHECK((polite.back() == Action{Finish{143, SIGTERM}}));
  const Actions closed =
      play({RoundStarted{1}, SignalCame{SIGTERM}, JobClosed{7}, WorkerEnded{true, true}, AllGone{}});
  CHECK((closed.back() == Action{Finish{143, SIGTERM}}));
}

TEST_CASE("agent: SIGINT ends by SIGINT once everything is gone and the goodbye is answered", "[agent]") {
  State end;
  const Actions all =
      play({RoundStarted{1}, SignalCame{SIGINT}, Left{}, WorkerEnded{false, true}, AllGone{}}, &end);
  CHECK((all.back() == Action{Finish{130, SIGINT}}));
  CHECK(end.phase == Phase::Finished);
}

TEST_CASE("agent: a finished agent does nothing more", "[agent]") {
  const State done = in(Phase::Finished);
  const auto event = GENERATE(
      values<Event>({RoundStarted{1}, WorkerEnded{false}, RoundStopped{}, JobClosed{3}, AllGone{}, Left{}}));
  CHECK(step(done, event).actions.empty());
}
