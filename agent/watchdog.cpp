// SPDX-License-Identifier: Apache-2.0
#include "agent/watchdog.hpp"

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "agent/hung_process.hpp"
#include "base/exit_status.hpp"
#include "base/time.hpp"

namespace cxxrun::agent {
namespace {

constexpr auto kDumpGrace = 2s;  ///< for writing its stacks

/// A number that no descriptor which we pass on has; below 10, as a shell's redirections need it, as a rule.
int free_descriptor() {
  int fd = STDERR_FILENO + 1;
  for (;; ++fd) {
    const int flags = ::fcntl(fd, F_GETFD);
    if (flags < 0 || (flags & FD_CLOEXEC) != 0) return fd;
  }
}

}  // namespace

Watchdog::Watchdog(EventLoop& loop, const Config& config, Agent agent)
    : loop_(loop), config_(config), agent_(std::move(agent)) {}

Result<> Watchdog::open(const std::string& temporary) {
  if (config_.watch.file_timer) {
    auto timer = FileTimer::open(
        loop_, config_, temporary,
        {.on_expired = [this](const auto& request) { on_expired(request); }, .on_note = agent_.say});
    if (!timer) return std::move(timer).error();
    timer_ = std::move(*timer);
  }
  if (config_.watch.heartbeat_timeout.count() > 0) {
    heartbeat_fd_ = free_descriptor();
    heartbeats_ = std::make_unique<Heartbeats>(loop_, config_.watch.heartbeat_timeout,
                                               [this](int local_rank) { on_silent(local_rank); });
  }
  if (config_.watch.health_check_port != 0) {
    auto port = HealthPort::open(loop_, config_.watch.health_check_port, [this] { return health(); });
    if (port) {
      port_ = std::move(*port);
    } else {
      agent_.say("no health check: " + port.error().message);
    }
  }
  return kOk;
}

Result<WatchPlan> Watchdog::start_round(int workers) {
  WatchPlan out;
  if (timer_) {
    timer_->start_round();
    out.timer_file = timer_->path();
  }
  if (heartbeats_) {
    auto pipes = heartbeats_->open_round(workers);
    if (!pipes) return std::move(pipes).error();
    out.heartbeat_from = std::move(*pipes);
    out.heartbeat_to = heartbeat_fd_;
  }
  return out;
}

void Watchdog::started() {
  if (heartbeats_) heartbeats_->started();
}

void Watchdog::suspend() {
  if (timer_) timer_->suspend();
  if (heartbeats_) heartbeats_->suspend();
}

void Watchdog::resume() {
  if (timer_) timer_->resume();
  if (heartbeats_) heartbeats_->resume();
}

/// A worker hangs, by its own word. Whoever else wrote there, or has ended meanwhile, is nobody's business.
void Watchdog::on_expired(const TimerRequest& request) {
  launcher::WorkerSet* workers = agent_.workers();
  if (workers == nullptr) return;
  workers->condemn(workers->local_rank_of(static_cast<pid_t>(request.pid)), request.signo,
                   config_.signals.shutdown_timeout, verdict_text(request));
}

void Watchdog::on_silent(int local_rank) {
  launcher::WorkerSet* workers = agent_.workers();
  const pid_t pid = workers != nullptr ? workers->pid_of(local_rank) : 0;
  if (pid == 0) return;
  const int signo = dump_signal(pid);
  std::string verdict = "it hung: no heartbeat for " + text(Duration(config_.watch.heartbeat_timeout)) +
                        ", so it got " + signal_name(signo);
  if (const std::string threads = threads_text(pid); !threads.empty()) verdict += "; " + threads;
  workers->condemn(local_rank, signo, kDumpGrace, std::move(verdict));
}

Health Watchdog::health() const {
  Health out;
  std::tie(out.state, out.round) = agent_.where();
  if (const launcher::WorkerSet* workers = agent_.workers(); workers != nullptr) {
    out.workers = workers->alive();
    out.hanging = workers->condemned();
  }
  std::optional<Time> heard = timer_ ? timer_->last_heard() : std::nullopt;
  if (heartbeats_) heard = std::max(heard, heartbeats_->last_heard());  // unset is before every time
  if (heard) out.progress_age = EventLoop::now() - *heard;
  return out;
}

}  // namespace cxxrun::agent
