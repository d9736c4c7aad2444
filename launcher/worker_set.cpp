// SPDX-License-Identifier: Apache-2.0
#include "launcher/worker_set.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include "base/limits.hpp"
#include "launcher/console.hpp"
#include "launcher/leftovers.hpp"
#include "launcher/process_tree.hpp"
#include "launcher/signals.hpp"
#include "launcher/spawner.hpp"
#include "launcher/streams.hpp"

namespace cxxrun::launcher {
namespace {

constexpr auto kNoteAfter = std::chrono::seconds(5);  ///< of a stop: which workers are still there
constexpr auto kNoteLeftoversAfter =
    std::chrono::seconds(1);          ///< all workers have ended: what is still there
constexpr std::size_t kNamedMax = 8;  ///< processes named in one note

struct Worker {
  int local_rank = 0;
  int rank = 0;
  Spawned process;
  bool alive = true;
  int our_signal = 0;
  std::string verdict;  ///< it was condemned, and why
  int verdict_signal = 0;
  EventLoop::Timer verdict_timer;
  EventLoop::Watch end_watch;
  std::unique_ptr<WorkerStreams> streams;
};

/// Running: workers may end. Stopping: the ladder. Killing: everything got SIGKILL. Draining: no process is
/// left, the rest of the output is read. Gone: reported.
enum class Phase { Running, Stopping, Killing, Draining, Gone };

class Set final : public WorkerSet {
 public:
  Set(EventLoop& loop, SetOptions options, SetHandlers handlers);
  ~Set() override;
  Result<> start_all(std::vector<SpawnSpec> specs, int* failed_local_rank);

  void stop(int signo, Duration grace) override;
  void end_grace() override;
  void forward(int signo) override;
  bool condemn(int local_rank, int signo, Duration grace, std::string verdict) override;
  [[nodiscard]] int local_rank_of(pid_t pid) const override;
  [[nodiscard]] pid_t pid_of(int local_rank) const override;
  void suspend() override;
  void resume() override;
  [[nodiscard]] int condemned() const override;
  [[nodiscard]] int alive() const override { return alive_; }

 private:
  Result<> start_one(const SpawnSpec& spec, const UniqueFd& null_device, bool alone);
  [[nodiscard]] std::vector<WorkerIdentity> identities() const;
  void send(Worker& worker, int signo);
  void on_worker_end(Worker& worker);
  void on_child_end();
  void look_again();
  void kill_all();
  void give_up();
  void drain_or_finish();
  void finish(std::vector<Stuck> stuck);
  void note_file_error(const std::string& path, int error);
  [[nodiscard]] std::string living_workers() const;
  [[nodiscard]] std::string leftover_processes() const;
  void plan_note();
  void note(const std::string& text) const {
    if (handlers_.on_note) handlers_.on_note(text);
  }

  EventLoop& loop_;
  SetOptions options_;
  SetHandlers handlers_;
  CloneSpawner spawner_;
  Leftovers leftovers_;
  SignalWatch child_ended_;
  std::vector<std::unique_ptr<Worker>> workers_;
  int alive_ = 0;
  Phase phase_ = Phase::Running;
  int stop_signal_ = 0;
  Time grace_end_ = Time::max();
  bool suspended_ = false;
  EventLoop::Timer grace_timer_;
  EventLoop::Timer note_timer_;
  bool leftovers_noted_ = false;  ///< or soon will be
  bool file_error_noted_ = false;
  EventLoop::Timer file_error_;
  EventLoop::Timer step_timer_;  ///< after SIGKILL: kill_wait; while draining: kDrainTimeout; then the report
};

std::vector<pid_t> children_now() { return has_children() ? children_of(::getpid()) : std::vector<pid_t>{}; }

/// Another job's process may have one of our ranks in its environment.
bool is_below_us(Process process) {
  constexpr int kDepthMax = 64;
  for (int i = 0; i < kDepthMax && process.parent > 1; ++i) {
    if (process.parent == ::getpid()) return true;
    const auto parent = read_process(process.parent);
    if (!parent) return false;
    process = *parent;
  }
  return false;
}

std::string seconds_left(Time until) {
  return text(std::max<Duration>(until - EventLoop::now(), Duration::zero())) + " left";
}

Set::Set(EventLoop& loop, SetOptions options, SetHandlers handlers)
    : loop_(loop),
      options_(std::move(options)),
      handlers_(std::move(handlers)),
      leftovers_(children_now()),
      child_ended_(loop, {SIGCHLD}, [this](const Received&) { on_child_end(); }) {
  if (!options_.consoles) options_.consoles = std::make_shared<Consoles>(loop);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  if (OriginalSignals::capture().is_ignored(SIGCHLD))
    ::signal(SIGCHLD, SIG_DFL);  // ignored, ends are not told
}

Set::~Set() {
  if (phase_ != Phase::Gone) sweep_descendants({.keep = leftovers_.foreign(), .limit = options_.kill_wait});
  workers_.clear();
  if (options_.consoles.use_count() == 1)
    options_.consoles->flush_until(EventLoop::now() + limits::kDrainTimeout);
}

Result<> Set::start_all(std::vector<SpawnSpec> specs, int* failed_local_rank) {
  UniqueFd null_device;
  const bool any_null =
      std::any_of(specs.begin(), specs.end(), [](const SpawnSpec& spec) { return spec.null_stdin; });
  if (any_null) {
    null_device = UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!null_device) return errno_error(errno, "open /dev/null");
  }
  workers_.reserve(specs.size());
  for (const SpawnSpec& spec : specs) {
    if (auto started = start_one(spec, null_device, specs.size() == 1); !started) {
      if (failed_local_rank != nullptr) *failed_local_rank = spec.local_rank;
      return std::move(started).error();
    }
  }
  return kOk;
}

Result<> Set::start_one(const SpawnSpec& spec, const UniqueFd& null_device, bool alone) {
  auto ends =
      open_streams(spec, [this](const std::string& path, int error) { note_file_error(path, error); });
  if (!ends) return std::move(ends).error();
  const StandardFds standard{spec.null_stdin ? null_device.get() : -1, ends->out_its.get(),
                             ends->err_its.get()};
  auto spawned = spawner_.spawn(spec, standard);
  if (!spawned) return std::move(spawned).error();
  auto worker = std::make_unique<Worker>();
  worker->local_rank = spec.local_rank;
  worker->rank = spec.rank;
  worker->process = std::move(*spawned);
  worker->streams = std::make_unique<WorkerStreams>(loop_, *options_.consoles, spec, *ends, alone, [this] {
    if (phase_ == Phase::Draining) drain_or_finish();
  });
  Worker& it = *worker;
  it.end_watch =
      loop_.watch(it.process.pidfd.get(), EPOLLIN, [this, &it](std::uint32_t) { on_worker_end(it); });
  workers_.push_back(std::move(worker));
  ++alive_;
  return kOk;
}

std::vector<WorkerIdentity> Set::identities() const {
  std::vector<WorkerIdentity> out;
  out.reserve(workers_.size());
  for (const auto& worker : workers_)
    out.push_back({worker->process.pid, worker->local_rank, worker->rank, worker->alive});
  return out;
}

void Set::send(Worker& worker, int signo) {
  if (!worker.alive) return;
  // Not yet reaped, so the pid is still the worker's.
  if (::kill(worker.process.pid, signo) == 0) worker.our_signal = signo;
}

void Set::on_worker_end(Worker& worker) {
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(worker.process.pid), &info, WEXITED | WNOHANG) != 0 ||
      info.si_pid == 0)
    return;
  worker.alive = false;
  --alive_;
  worker.end_watch.reset();
  worker.verdict_timer.reset();
  worker.process.pidfd.reset();
  worker.streams->read_available();
  Ended ended;
  ended.local_rank = worker.local_rank;
  ended.pid = worker.process.pid;
  ended.status = exit_status_from_waitid(info.si_code, info.si_status);
  ended.our_signal = worker.our_signal;
  ended.verdict = worker.verdict;
  if (!ended.verdict.empty() && succeeded(ended.status)) ended.status = Signaled{worker.verdict_signal};
  ended.last_words = worker.streams->last_words();
  ended.last_words_note = worker.streams->last_words_note();
  leftovers_.reap_adopted(identities());
  look_again();
  const auto call = handlers_.on_ended;  // last, and a copy: it may destroy this set
  if (call) call(ended);
}

void Set::on_child_end() {
  leftovers_.reap_adopted(identities());
  look_again();
}

/// Something has ended: what does the ladder say about what is left?
void Set::look_again() {
  if (phase_ != Phase::Stopping && phase_ != Phase::Killing) return;
  if (alive_ == 0 && !leftovers_.any()) {
    phase_ = Phase::Draining;
    grace_timer_.reset();
    note_timer_.reset();
    step_timer_ = loop_.after(limits::kDrainTimeout, [this] { finish({}); });
    drain_or_finish();
  } else if (phase_ == Phase::Killing) {
    leftovers_.kill();
  } else if (static_cast<std::size_t>(alive_) < workers_.size()) {
    leftovers_.terminate(identities());
    if (alive_ == 0) plan_note();
  }
}

/// A stop that takes long says for what it waits, and how long it will.
void Set::plan_note() {
  const bool only_leftovers = alive_ == 0;
  const Duration after = only_leftovers ? Duration(kNoteLeftoversAfter) : Duration(kNoteAfter);
  if (leftovers_noted_ || EventLoop::now() + 2 * after > grace_end_) return;
  leftovers_noted_ = only_leftovers;
  note_timer_ = loop_.after(after, [this] {
    if (alive_ > 0) {
      note("waiting for " + living_workers() + " to end after " + signal_name(stop_signal_) + ", " +
           seconds_left(grace_end_));
    } else if (const std::string left = leftover_processes(); !left.empty()) {
      note("all workers here have ended; waiting for what they left running to end after SIGTERM, " +
           seconds_left(grace_end_) + ", then SIGKILL: " + left);
    }
  });
}

void Set::stop(int signo, Duration grace) {
  if (phase_ != Phase::Running) return;
  phase_ = Phase::Stopping;
  stop_signal_ = signo;
  grace_end_ = EventLoop::now() + grace;
  for (auto& worker : workers_) send(*worker, signo);
  if (suspended_) resume();
  if (grace <= Duration::zero()) return kill_all();
  grace_timer_ = loop_.at(grace_end_, [this] { kill_all(); });
  look_again();
  if (phase_ == Phase::Stopping) plan_note();
}

void Set::end_grace() {
  if (phase_ == Phase::Running || phase_ == Phase::Stopping) kill_all();
}

void Set::kill_all() {
  grace_timer_.reset();
  note_timer_.reset();
  if (phase_ == Phase::Stopping && alive_ > 0 && EventLoop::now() >= grace_end_ && stop_signal_ != SIGKILL) {
    note(living_workers() + " did not end after " + signal_name(stop_signal_) + ": SIGKILL");
  }
  phase_ = Phase::Killing;
  for (auto& worker : workers_) send(*worker, SIGKILL);
  leftovers_.kill();
  step_timer_ = loop_.after(options_.kill_wait, [this] { give_up(); });
  look_again();
}

void Set::give_up() {
  std::vector<Stuck> stuck;
  const auto workers = identities();
  for (const Process& process : leftovers_.list()) {
    const int owner = owner_of(process, workers);
    stuck.push_back({owner < 0 ? -1 : workers[static_cast<std::size_t>(owner)].local_rank, process.pid});
  }
  finish(std::move(stuck));
}

void Set::forward(int signo) {
  for (auto& worker : workers_) {
    if (signo == SIGWINCH) worker->streams->window_changed();
    // Not our signal: a worker that ends by it, or later, failed by itself.
    if (worker->alive) ::kill(worker->process.pid, signo);
  }
}

bool Set::condemn(int local_rank, int signo, Duration grace, std::string verdict) {
  if (pid_of(local_rank) == 0) return false;
  Worker& worker = *workers_[static_cast<std::size_t>(local_rank)];
  if (!worker.verdict.empty()) return false;
  worker.verdict = std::move(verdict);
  worker.verdict_signal = signo;
  // Not our_signal, which makes an end no news; and not yet reaped, so the pid is still the worker's.
  ::kill(worker.process.pid, signo);
  worker.verdict_timer = loop_.after(grace, [&worker] { ::kill(worker.process.pid, SIGKILL); });
  return true;
}

int Set::local_rank_of(pid_t pid) const {
  const auto process = read_process(pid);
  const int owner = process && is_below_us(*process) ? owner_of(*process, identities()) : -1;
  return owner >= 0 && workers_[static_cast<std::size_t>(owner)]->alive ? owner : -1;
}

pid_t Set::pid_of(int local_rank) const {
  if (local_rank < 0 || static_cast<std::size_t>(local_rank) >= workers_.size()) return 0;
  const Worker& worker = *workers_[static_cast<std::size_t>(local_rank)];
  return worker.alive ? worker.process.pid : 0;
}

int Set::condemned() const {
  return static_cast<int>(std::count_if(workers_.begin(), workers_.end(), [](const auto& worker) {
    return worker->alive && !worker->verdict.empty();
  }));
}

void Set::suspend() {
  suspended_ = true;
  leftovers_.signal_sessions(identities(), SIGSTOP);
}

void Set::resume() {
  suspended_ = false;
  leftovers_.signal_sessions(identities(), SIGCONT);
}

/// No process is left. The ends of the pipes follow at once, unless somebody else holds one.
void Set::drain_or_finish() {
  const bool drained = std::all_of(workers_.begin(), workers_.end(),
                                   [](const auto& worker) { return worker->streams->drained(); });
  if (!drained) return;
  step_timer_ = loop_.after(Duration::zero(), [this] { finish({}); });
}

void Set::finish(std::vector<Stuck> stuck) {
  phase_ = Phase::Gone;
  step_timer_.reset();
  for (auto& worker : workers_) {
    worker->end_watch.reset();
    worker->streams->close();
  }
  const auto call = handlers_.on_gone;  // last, and a copy: it may destroy this set
  if (call) call(std::move(stuck));
}

/// A full disk costs log files, never a worker. Once: it is mostly the same for all of them.
void Set::note_file_error(const std::string& path, int error) {
  if (std::exchange(file_error_noted_, true)) return;
  file_error_ = loop_.after(Duration::zero(), [this, path, error] {  // not from inside a write
    note("cannot write to " + path + ": " + std::generic_category().message(error) +
         "; log files have gaps while that lasts, the workers and the console go on");
  });
}

std::string Set::living_workers() const {
  std::string names;
  std::size_t count = 0;
  for (const auto& worker : workers_) {
    if (!worker->alive || ++count > kNamedMax) continue;
    if (!names.empty()) names += ", ";
    names += "rank " + std::to_string(worker->rank) + " (pid " + std::to_string(worker->process.pid) + ")";
  }
  if (count > kNamedMax) names += " and " + std::to_string(count - kNamedMax) + " more";
  return names;
}

std::string Set::leftover_processes() const {
  std::string names;
  std::size_t count = 0;
  const auto known = identities();
  for (const Process& process : leftovers_.list()) {
    if (process.state == 'Z' || process.state == 'X' || ++count > kNamedMax) continue;
    if (!names.empty()) names += ", ";
    const int owner = owner_of(process, known);
    if (owner >= 0)
      names += "rank " + std::to_string(workers_[static_cast<std::size_t>(owner)]->rank) + "'s ";
    names += "pid " + std::to_string(process.pid) + " (" + command_of(process.pid) + ")";
  }
  if (count > kNamedMax) names += " and " + std::to_string(count - kNamedMax) + " more";
  return names;
}

}  // namespace

Result<std::unique_ptr<WorkerSet>> WorkerSet::start(EventLoop& loop, std::vector<SpawnSpec> workers,
                                                    SetOptions options, SetHandlers handlers,
                                                    int* failed_local_rank) {
  auto set = std::make_unique<Set>(loop, std::move(options), std::move(handlers));
  if (auto started = set->start_all(std::move(workers), failed_local_rank); !started)
    return std::move(started).error();
  return std::unique_ptr<WorkerSet>(std::move(set));
}

}  // namespace cxxrun::launcher
