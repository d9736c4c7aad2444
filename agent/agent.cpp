// SPDX-License-Identifier: Apache-2.0
#include "agent/agent.hpp"

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "agent/chronicle.hpp"
#include "agent/error_path.hpp"
#include "agent/log_folder.hpp"
#include "agent/machine.hpp"
#include "agent/master_port.hpp"
#include "agent/signal_words.hpp"
#include "agent/voice.hpp"
#include "agent/watchdog.hpp"
#include "agent/worker_specs.hpp"
#include "base/event_loop.hpp"
#include "base/limits.hpp"
#include "base/text.hpp"
#include "launcher/console.hpp"
#include "launcher/guardian.hpp"
#include "launcher/process_tree.hpp"
#include "launcher/resources.hpp"
#include "launcher/signals.hpp"
#include "launcher/worker_set.hpp"
#include "rendezvous/member.hpp"

namespace cxxrun::agent {
namespace {

constexpr auto kGoodbyeTimeout = std::chrono::seconds(2);  ///< for the answer to our goodbye
/// Nobody fills a memory in that time, and a job that is shorter does not pay for the look.
constexpr auto kMemoryLookDelay = std::chrono::milliseconds(5);
constexpr int kExitCannotStart = 70;  // cli/exit_code.hpp: internal
constexpr int kExitUsage = 2;         ///< cli/exit_code.hpp: usage
constexpr int kExitNoPort = 69;       ///< cli/exit_code.hpp: rendezvous failed

/// The shell around the machine: turns facts into events, carries actions out, says what happens.
class Agent {
 public:
  explicit Agent(const Config& config) : config_(config), error_paths_(temporary_folder(config)) {}

  End run() {
    if (const auto refusal = prepare()) {
      say(refusal->why);
      const End end = chronicle_.finish({refusal->exit_code, 0}, refusal->why);
      consoles_->flush_until(EventLoop::now() + limits::kDrainTimeout);
      return end;
    }
    consoles_->on_error([this](int fd, int error) { say_lost(fd, error); });
    launcher::SignalWatch signals(loop_, signals_to_watch(config_.signals.handled),
                                  [this](const auto& signal) { on_signal(signal); });
    auto rendezvous = config_.rendezvous;
    if (rendezvous.backend != rendezvous::BackendKind::Local)
      rendezvous.memory_use = [this] { return chronicle_.memory_use(); };
    member_ = rendezvous::make_member(loop_, std::move(rendezvous),
                                      [this](auto event) { on_member(std::move(event)); });
    State first;
    first.handled = signal_set(config_.signals.handled);
    Step begun = begin(first);
    state_ = begun.state;
    perform_all(begun.actions);
    drain_events();
    if (!end_) loop_.run();
    member_.reset();
    workers_.reset();
    consoles_->flush_until(EventLoop::now() + config_.signals.shutdown_timeout);
    return *end_;
  }

 private:
  /// An event with what the report needs of it.
  struct Pending {
    Event event;
    std::optional<Failure> failure;
  };

  struct Refusal {
    int exit_code = 0;
    std::string why;
  };
  /// What can fail before anything starts.
  std::optional<Refusal> prepare() {
    launcher::raise_descriptor_limit();
    if (auto enough = launcher::check_descriptors(config_.rendezvous.local_world_size); !enough)
      return Refusal{kExitCannotStart, "cannot start: " + enough.error().message};
    const std::string temporary = temporary_folder(config_);
    if (auto made = log_folder_.prepare(config_, temporary); !made)
      return Refusal{kExitUsage, made.error().message};
    if (auto opened = watchdog_.open(temporary); !opened)
      return Refusal{kExitCannotStart, "cannot start: " + opened.error().message};
    return std::nullopt;
  }

  void print(std::string_view lines) { voice_.lines(lines); }
  void say(const std::string& line) { voice_.line(line); }

  /// A full disk costs output, never a worker; what is lost there is said on the other stream.
  void say_lost(int fd, int error) {
    if (fd != STDOUT_FILENO) return;  // nobody would read it
    say(std::string("cannot write to stdout: ") + std::generic_category().message(error) +
        "; what the workers print is lost while that lasts, they go on");
  }

  // --- facts become events ---

  void handle(Event event, std::optional<Failure> failure = std::nullopt) {
    pending_.push_back({event, std::move(failure)});
    drain_events();
  }

  /// One event at a time, in order: an action may cause the next event.
  void drain_events() {
    if (std::exchange(draining_, true)) return;
    while (!pending_.empty()) {
      current_ = std::move(pending_.front());
      pending_.pop_front();
      Step next = step(state_, current_.event);
      state_ = next.state;
      perform_all(next.actions);
    }
    draining_ = false;
  }

  void on_signal(const launcher::Received& signal) {
    if (signal.signo == launcher::guardian_gone_signal()) {
      if (!launcher::guardian_is_gone()) return;  // somebody else sent that number: it has no meaning
      // Our guardian was killed: whoever did it wants this gone now, so nobody gets a grace.
      launcher::sweep_descendants();
      launcher::die_by_signal(SIGKILL);
    }
    if (const auto line = stop_sentence(state_, signal, grace_text()); !line.empty()) say(line);
    handle(SignalCame{signal.signo});
  }

  [[nodiscard]] std::string grace_text() const {
    if (!workers_ || workers_->alive() == 0) return {};
    return ", workers have " + text(config_.signals.shutdown_timeout) + " to end";
  }

  void on_member(rendezvous::MemberEvent event) {
    std::visit([this](auto& fact) { on(fact); }, event);
  }
  void on(rendezvous::Waiting& waiting) { say(waiting.sentence); }
  void on(rendezvous::Started& started) {
    started_ = std::move(started);
    handle(RoundStarted{config_.rendezvous.local_world_size});
  }
  void on(rendezvous::Stopped& stopped) {
    if (!stopped.reason.empty() && !chronicle_.pipeline_ended()) say(stopped.reason);
    handle(RoundStopped{});
  }
  void on(rendezvous::Closed& closed) {
    chronicle_.closed(closed);
    handle(JobClosed{closed.exit_code});
  }
  void on(rendezvous::Fenced&) {}  // nobody here asks for one yet
  void on(rendezvous::StoreClient& client) {
    if (port_) port_->adopt(std::move(client.socket), std::move(client.first));
  }

  void on_ended(const launcher::Ended& ended) {
    const bool ok = succeeded(ended.status);
    auto failure =
        chronicle_.worker_ended(ended, error_path(ended.local_rank), !log_folder_.attempt().empty());
    handle(WorkerEnded{ok, !ok && !failure}, std::move(failure));
  }

  void on_gone(const std::vector<launcher::Stuck>& stuck) {
    for (const auto& process : stuck) {
      const std::string whose =
          process.local_rank < 0
              ? ""
              : " of rank " + std::to_string(started_.world.base_rank + process.local_rank);
      say("process " + std::to_string(process.pid) + " (" + launcher::command_of(process.pid) + ")" + whose +
          " does not end on SIGKILL (a driver or file system holds it); this node leaves the job, it may "
          "need a reboot");
    }
    handle(AllGone{!stuck.empty()});
  }

  // --- actions are carried out ---

  void perform_all(const std::vector<Action>& actions) {
    for (const auto& action : actions) std::visit([this](const auto& order) { perform(order); }, action);
  }

  void perform(const SayReady&) {
    retire_workers();
    chronicle_.joining();
    auto port = MasterPort::open(loop_, config_, [this](const std::string& line) { say(line); });
    if (!port) {
      say(port.error().message);
      return finish(chronicle_.finish({kExitNoPort, 0}, port.error().message));
    }
    next_port_ = std::move(*port);
    member_->ready(next_port_->number());
  }

  void perform(const StartWorkers&) {
    port_ =
        std::move(next_port_);  // the last round's store ends here: by now its workers are gone on every node
    port_->start_round(started_.world, started_.admit);
    voice_.set_round(started_.world.round);
    announce_round();
    make_log_folder();
    chronicle_.round_started(started_.world);
    int failed = 0;
    auto set = start_workers(&failed);
    if (set) {
      workers_ = std::move(*set);
      watchdog_.started();
      chronicle_.workers_started(*workers_);
      memory_look_ = loop_.after(kMemoryLookDelay, [this] { chronicle_.look_at_memory(); });
      return;
    }
    handle(StartFailed{},
           chronicle_.start_failed(failed, start_error_code(set.error().code),
                                   set.error().message + launcher::limit_hint(set.error().code)));
  }

  Result<std::unique_ptr<launcher::WorkerSet>> start_workers(int* failed) {
    auto watch = watchdog_.start_round(started_.world.local_world_size);
    if (!watch) return std::move(watch).error();
    const RoundFiles files{[this](int local_rank) { return error_path(local_rank); }, log_folder_.attempt(),
                           std::move(*watch)};
    launcher::SetOptions options;
    options.consoles = consoles_;
    return launcher::WorkerSet::start(loop_, worker_specs(config_, started_.world, files), options,
                                      {.on_ended = [this](const auto& ended) { on_ended(ended); },
                                       .on_gone = [this](const auto& stuck) { on_gone(stuck); },
                                       .on_note = [this](const auto& line) { say(line); }},
                                      failed);
  }

  /// A disk that has become full costs the log files of a round, not the round.
  void make_log_folder() {
    const auto made = log_folder_.start_round(started_.world.round, started_.world.local_world_size);
    if (!made) {
      say(made.error().message + "; this round has no log files, its output goes to the console");
    } else if (!std::exchange(log_folder_told_, true) && !log_folder_.attempt().empty()) {
      say("log files: " + log_folder_.run_folder());
    }
  }

  /// As a shell: 127 not found, 126 found but cannot be executed; anything else is ours (no memory, no
  /// processes).
  static int start_error_code(const std::error_code& code) {
    if (code == std::errc::no_such_file_or_directory) return 127;
    if (code == std::errc::permission_denied || code == std::errc::executable_format_error) return 126;
    return 70;
  }

  void perform(const ReportFailure&) {
    if (!current_.failure) return;
    member_->failed(*current_.failure);
  }
  void perform(const SayDone&) { member_->done(started_.world.round); }
  void perform(const StopWorkers& order) {
    chronicle_.stopping();
    if (workers_) return workers_->stop(order.signo, config_.signals.shutdown_timeout);
    loop_.post([this] { on_gone({}); });
  }
  void perform(const EndGrace&) {
    if (workers_) workers_->end_grace();
  }
  void perform(const ForwardSignal& order) {
    if (workers_) workers_->forward(order.signo);
  }
  void perform(const Suspend&) {
    if (workers_) workers_->suspend();
    watchdog_.suspend();
    member_->suspended(true);
    // The agent of a job of several nodes stays awake (docs/adr/0007): a stop from elsewhere reaches its
    // workers.
    if (config_.rendezvous.backend == rendezvous::BackendKind::Local) ::raise(SIGSTOP);
  }
  void perform(const Resume&) {
    if (workers_) workers_->resume();
    watchdog_.resume();
    member_->suspended(false);
  }
  void perform(const AnnounceLeaving&) { member_->announce_leaving(signal_name(state_.stop_signal)); }
  void perform(const SayGoodbye& order) {
    const auto [why, sentence] = goodbye_text(order.why);
    member_->leave(why, sentence, kGoodbyeTimeout, [this] { handle(Left{}); });
  }
  /// As the kernel would, had we no handler: no goodbye and no grace.
  [[noreturn]] void perform(const Die& order) {
    launcher::sweep_descendants();
    launcher::die_by_signal(order.signo);
  }
  void perform(const Finish& order) { finish(chronicle_.finish(order)); }

  void finish(End end) {
    end_ = end;
    loop_.stop();
  }

  /// The coordinator names the node in front of it.
  [[nodiscard]] std::pair<rendezvous::Leaving, std::string> goodbye_text(Goodbye why) const {
    switch (why) {
      case Goodbye::Polite: return {rendezvous::Leaving::Politely, signal_name(state_.stop_signal)};
      case Goodbye::StopJob: return {rendezvous::Leaving::StopJob, signal_name(state_.stop_signal)};
      case Goodbye::BrokenHost: return {rendezvous::Leaving::BrokenHost, "a process there cannot be killed"};
    }
    return {};
  }

  /// The set may be on the stack (its handler brought us here): it goes on the next turn.
  void retire_workers() {
    if (workers_)
      loop_.post(
          [old = std::shared_ptr<launcher::WorkerSet>(std::move(workers_))]() mutable { old.reset(); });
  }

  void announce_round() {
    const World& world = started_.world;
    if (config_.rendezvous.nnodes_max == 1 && world.round == 0) return;
    const int last = world.base_rank + world.local_world_size - 1;
    const std::string ranks = world.local_world_size == 1
                                  ? "rank " + std::to_string(last)
                                  : "ranks " + std::to_string(world.base_rank) + "-" + std::to_string(last);
    say("round " + std::to_string(world.round) + ": " + ranks + " of " + std::to_string(world.world_size) +
        " here, node " + std::to_string(world.group_rank + 1) + " of " +
        std::to_string(world.group_world_size) + ", restart " + std::to_string(world.restart_count) + " of " +
        std::to_string(config_.rendezvous.max_restarts));
  }

  [[nodiscard]] std::string error_path(int local_rank) const {
    if (log_folder_.mode() == LogFolder::Mode::Null) return {};
    const std::string& attempt = log_folder_.attempt();
    if (!attempt.empty()) return attempt + "/" + std::to_string(local_rank) + "/error.json";
    return error_paths_.path(started_.world.round, local_rank);
  }

  const Config& config_;
  EventLoop loop_;
  std::shared_ptr<launcher::Consoles> consoles_ = std::make_shared<launcher::Consoles>(loop_);
  Voice voice_{config_, *consoles_};
  ErrorPaths error_paths_;
  LogFolder log_folder_;
  std::unique_ptr<rendezvous::Member> member_;
  std::unique_ptr<MasterPort> port_;       ///< of the running round
  std::unique_ptr<MasterPort> next_port_;  ///< of the round that we are ready for
  std::unique_ptr<launcher::WorkerSet> workers_;
  State state_;
  std::deque<Pending> pending_;
  Pending current_{};
  bool draining_ = false;
  bool log_folder_told_ = false;
  rendezvous::Started started_;
  Chronicle chronicle_{config_, [this](std::string_view lines) { print(lines); },
                       [this](const std::string& line) { say(line); }};
  Watchdog watchdog_{loop_,
                     config_,
                     {.workers = [this] { return workers_.get(); },
                      .where = [this] { return std::pair(name(state_.phase), chronicle_.round()); },
                      .say = [this](const std::string& line) { say(line); }}};
  EventLoop::Timer memory_look_;
  std::optional<End> end_;
};

}  // namespace

End run(const Config& config) { return Agent(config).run(); }

}  // namespace cxxrun::agent
