// SPDX-License-Identifier: Apache-2.0
#include "agent/chronicle.hpp"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "agent/ending.hpp"
#include "agent/error_file.hpp"
#include "agent/files.hpp"
#include "agent/local_time.hpp"
#include "base/event_loop.hpp"
#include "base/limits.hpp"
#include "launcher/console.hpp"

namespace cxxrun::agent {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kErrorFilesKeptMax =
    16;                                // of up to 1 MiB each; the first to fail are the ones that matter
constexpr auto kFileClockTick = 20ms;  // a file's time is that much too early at most
constexpr auto kMoment = 5s;           // counters read so long ago still speak of "that moment"

milliseconds wall_now() {
  return std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch());
}

std::string variable(const Config& config, std::string_view name) {
  for (const std::string_view entry : config.environment) {
    if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=')
      return std::string(entry.substr(name.size() + 1));
  }
  return {};
}

constexpr const char* kReaderGone = "nobody reads our stdout any more, as after `| head`";

/// As in any pipeline: `| head` ends those who go on writing to it.
bool ended_by_our_reader(const ExitStatus& status) {
  const auto* signaled = std::get_if<Signaled>(&status);
  return signaled != nullptr && signaled->signo == SIGPIPE && launcher::reader_gone(STDOUT_FILENO);
}

bool killed(const Failure& failure) {
  const auto* signaled = std::get_if<Signaled>(&failure.status);
  return signaled != nullptr && signaled->signo == SIGKILL;
}

}  // namespace

Chronicle::Chronicle(const Config& config, std::function<void(std::string_view)> console,
                     std::function<void(const std::string&)> say)
    : config_(config),
      console_(std::move(console)),
      say_(say),
      telling_(config, console_, std::move(say)),
      started_wall_(wall_now()),
      copy_to_(variable(config, "TORCHELASTIC_ERROR_FILE")) {}

// --- what happens ---

void Chronicle::joining() { joining_since_ = EventLoop::now(); }

void Chronicle::round_started(const World& world) {
  const Duration joining = EventLoop::now() - joining_since_;
  joining_ += joining;
  ++rounds_;
  world_ = world;
  ends_.assign(static_cast<std::size_t>(world.local_world_size), WorkerEnd{});
  for (std::size_t i = 0; i < ends_.size(); ++i) ends_[i].rank = world.base_rank + static_cast<int>(i);
  error_files_.clear();
  memory_before_.reset();
  stopping_wall_ = 0ms;
  pipeline_ended_ = false;
  const auto took = std::chrono::duration_cast<milliseconds>(joining);
  telling_.tell({.state = "RENDEZVOUS", .world = &*world_, .duration = took});
  // The ranks came with the start.
  telling_.tell({.state = "ASSIGN_WORKER_RANKS", .world = &*world_, .duration = milliseconds(0)});
  telling_.measure("rendezvous.duration.ms", static_cast<double>(took.count()));
  telling_.measure("remaining_restarts", config_.rendezvous.max_restarts - world.restart_count);
}

void Chronicle::workers_started(const launcher::WorkerSet& workers) {
  if (telling_.events()) {
    for (int i = 0; i < static_cast<int>(ends_.size()); ++i)
      telling_.tell({.of_agent = false,
                     .state = "START",
                     .world = &*world_,
                     .local_rank = i,
                     .pid = workers.pid_of(i)});
  }
  telling_.measure("healthy", 1);
}

void Chronicle::look_at_memory() {
  if (!std::exchange(memory_looked_, true)) memory_ = MemoryCgroup::find();
  memory_before_ = memory_ ? memory_->counts() : std::nullopt;
  memory_seen_ = EventLoop::now();
}

rendezvous::MemoryUse Chronicle::memory_use() {
  if (!memory_) return {};
  if (!memory_limit_) memory_limit_ = memory_->limit();  // a job of one node never asks
  if (*memory_limit_ == 0) return {};
  const MemoryLoad load = memory_->load(*memory_limit_);
  return {load.used, *memory_limit_, load.pressure};
}

std::optional<Failure> Chronicle::worker_ended(const launcher::Ended& ended, const std::string& error_path,
                                               bool kept) {
  auto& end = ends_[static_cast<std::size_t>(ended.local_rank)];
  end = {end.rank, true, ended.status, ended.our_signal, ended.pid};
  std::optional<Failure> failure;
  if (!succeeded(ended.status)) {
    auto file = read_error_file(error_path);
    if (failed_by_itself(ended, file)) {
      end.our_signal = 0;
      failure = describe(ended, std::move(file));
      if (kept && ::access(error_path.c_str(), F_OK) == 0) failure->error_file = error_path;
      add_memory_evidence(*failure);
      keep(*failure);
    }
  }
  if (!kept) ::unlink(error_path.c_str());  // mostly there is none
  tell_worker_end(ended, failure);
  return failure;
}

/// Also one that was slow to end after its exception, so that our signal reached it meanwhile.
bool Chronicle::failed_by_itself(const launcher::Ended& ended, const std::optional<ErrorFile>& file) const {
  if (ended.our_signal == 0 || !ended.verdict.empty()) return true;
  return file && file->written && *file->written + kFileClockTick < stopping_wall_;
}

Failure Chronicle::describe(const launcher::Ended& ended, std::optional<ErrorFile> file) {
  Failure failure = nobody_yet();
  failure.rank = ends_[static_cast<std::size_t>(ended.local_rank)].rank;
  failure.local_rank = ended.local_rank;
  failure.pid = ended.pid;
  failure.status = ended.status;
  failure.last_words = ended.last_words;
  failure.last_words_note = ended.last_words_note;
  // Our signal cut its own end short: an exception that nobody catches ends with 1.
  if (ended.our_signal != 0 && ended.status == ExitStatus{Signaled{ended.our_signal}})
    failure.status = Exited{1};
  const auto* signaled = std::get_if<Signaled>(&failure.status);
  // An abort is how libraries react to a peer that went; any other signal has a reason of its own.
  failure.outside_signal = signaled != nullptr && signaled->signo != SIGABRT && signaled->signo != SIGPIPE;
  if (!ended.verdict.empty()) {
    failure.message = ended.verdict;
    failure.own_exception = true;
  }
  if (ended_by_our_reader(failure.status)) {
    pipeline_ended_ = true;
    failure.message = kReaderGone;
  }
  if (!file) return failure;
  if (ended.verdict.empty()) failure.message = std::move(file->message);
  failure.traceback = std::move(file->traceback);
  failure.own_exception = true;
  if (file->written) {
    failure.age = std::clamp<milliseconds>(failure.wall - *file->written, 0ms, limits::kFailureAgeMax);
    failure.wall -= failure.age;
  }
  if (!copy_to_.empty() && error_files_.size() < kErrorFilesKeptMax)
    error_files_[ended.local_rank] = std::move(file->raw);
  return failure;
}

void Chronicle::stopping() {
  if (stopping_wall_.count() == 0) stopping_wall_ = wall_now();
}

Failure Chronicle::nobody_yet() const {
  Failure failure;
  failure.round = world_ ? world_->round : 0;
  failure.group_rank = world_ ? world_->group_rank : -1;
  failure.host = config_.rendezvous.host_name;
  failure.wall = wall_now();
  return failure;
}

Failure Chronicle::start_failed(int local_rank, int exit_code, const std::string& why) {
  for (std::size_t i = 0; i < ends_.size(); ++i)
    ends_[i].start = static_cast<int>(i) < local_rank ? WorkerEnd::Start::Undone : WorkerEnd::Start::Never;
  Failure failure = nobody_yet();  // its pid stays 0: it had none
  failure.local_rank = local_rank;
  failure.rank = world_->base_rank + local_rank;
  failure.status = Exited{exit_code};
  failure.message = why;
  failure.own_exception = true;
  keep(failure);
  return failure;
}

void Chronicle::add_memory_evidence(Failure& failure) {
  if (!memory_before_) return;
  const auto after = memory_->counts();
  if (!after) return;
  const bool exact = EventLoop::now() - memory_seen_ <= kMoment;
  failure.evidence =
      memory_evidence(memory_->name(), *memory_before_, *after,
                      *after == *memory_before_ ? 0 : memory_->limit(), exact, killed(failure));
  // Many workers may be killed in one go: each of them is shown the evidence of the first.
  if (*after == *memory_before_) memory_seen_ = EventLoop::now();
}

void Chronicle::keep(const Failure& failure) {
  if (failures_.size() >= kFailuresKeptMax) failures_.pop_front();
  failures_.push_back(failure);
}

void Chronicle::closed(const rendezvous::Closed& closed) { closed_ = closed; }

// --- who is told ---

void Chronicle::tell_worker_end(const launcher::Ended& ended, const std::optional<Failure>& failure) {
  const bool ok = succeeded(ended.status);
  if (failure) telling_.measure("failed", 1);
  if (!telling_.events()) return;
  Telling::Event event{.of_agent = false, .state = "TERMINATED", .world = &*world_};
  event.local_rank = ended.local_rank;
  event.pid = ended.pid;
  event.status = ended.status;
  if (ended.our_signal == 0) event.state = ok ? "SUCCEEDED" : "FAILED";
  if (failure) event.error = failure->message.empty() ? text(failure->status) : failure->message;
  telling_.tell(event);
}

End Chronicle::finish(const Finish& order, const std::string& reason) {
  EndFacts facts{order, closed_, rounds_ > 0, world_ ? world_->group_rank : -1};
  const Ending chosen = ending(config_.failures, facts);
  const std::string why = !reason.empty()    ? reason
                          : order.signo != 0 ? "stopped by " + signal_name(order.signo)
                          : closed_          ? closed_->reason
                                             : "";
  if (closed_ && closed_->outcome != rendezvous::Outcome::Succeeded && order.signo == 0) {
    report(chosen);
    if (!copy_to_.empty()) copy_error_file();
  }
  tell_end(chosen, why);
  if (!config_.failures.result_file.empty()) write_result(chosen, why);
  return chosen.end;
}

void Chronicle::report(const Ending& ending) {
  const auto& cause = closed_->root_cause;
  const std::string when = cause && cause->wall.count() > 0 ? local_time_text(cause->wall) : "";
  if (cause && pipeline_ended_ && cause->host == config_.rendezvous.host_name) {
    say_("rank " + std::to_string(cause->rank) + " was ended by SIGPIPE: " + kReaderGone);
  } else {
    console_(failure_report(*closed_, ends_, ending.end.exit_code, ending.code_note, when));
  }
  write_where_it_is(config_.failures.termination_log,
                    failure_report_within(limits::kTerminationLogBytesMax, *closed_, ends_,
                                          ending.end.exit_code, ending.code_note, when));
}

void Chronicle::tell_end(const Ending& ending, const std::string& reason) {
  // torchrun's word: the agent did its work well also where the workers did not.
  const bool own_end = ending.outcome == "succeeded" || ending.outcome == "failed";
  Telling::Event event{.state = own_end ? "SUCCEEDED" : "FAILED", .world = world_ ? &*world_ : nullptr};
  if (!own_end) event.error = reason;
  telling_.tell(event);
  if (rounds_ > 0) telling_.measure_end(ending.outcome != "succeeded", world_->restart_count);
}

/// Whoever started us reads there why we failed: the culprit's own words, also on the other nodes.
void Chronicle::copy_error_file() const {
  const auto& cause = closed_->root_cause;
  if (cause && !cause->own_exception) return;  // as torchrun: no words, no file
  std::string text;
  const auto kept = cause ? error_files_.find(cause->local_rank) : error_files_.end();
  const bool here =
      cause && world_ && cause->group_rank == world_->group_rank && cause->round == world_->round;
  if (here && kept != error_files_.end()) {
    text = error_file_copy(kept->second, cause->status);
  } else if (cause) {
    text = error_file_text(cause->message, cause->traceback, cause->wall, cause->status);
  } else {
    text = error_file_text("cxxrun: " + closed_->reason, "", wall_now(), Exited{closed_->exit_code});
  }
  if (const auto written = replace_file(copy_to_, text); !written)
    say_("cannot write TORCHELASTIC_ERROR_FILE: " + written.error().message);
}

void Chronicle::write_result(const Ending& ending, const std::string& reason) {
  ResultFacts facts;
  facts.outcome = ending.outcome;
  facts.exit_code = ending.end.exit_code;
  facts.signo = ending.end.signo;
  facts.reason = reason;
  facts.rounds = rounds_;
  facts.restarts = world_ ? world_->restart_count : 0;
  facts.world = world_;
  if (closed_) facts.root_cause = closed_->root_cause;
  facts.failures = failures_;
  facts.workers = ends_;
  facts.started = started_wall_;
  facts.ended = wall_now();
  facts.joining = std::chrono::duration_cast<milliseconds>(joining_);
  if (const auto written = replace_file(config_.failures.result_file, result_text(config_, facts)); !written)
    say_("cannot write --result-file: " + written.error().message);
}

}  // namespace cxxrun::agent
