// SPDX-License-Identifier: Apache-2.0
#include "agent/watchdog.hpp"

#include <sys/types.h>

#include <tuple>
#include <utility>

namespace cxxrun::agent {

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

void Watchdog::start_round() {
  if (timer_) timer_->start_round();
}

void Watchdog::suspend() {
  if (timer_) timer_->suspend();
}

void Watchdog::resume() {
  if (timer_) timer_->resume();
}

/// A worker hangs, by its own word. Whoever else wrote there, or has ended meanwhile, is nobody's business.
void Watchdog::on_expired(const TimerRequest& request) {
  launcher::WorkerSet* workers = agent_.workers();
  if (workers == nullptr) return;
  workers->condemn(static_cast<pid_t>(request.pid), request.signo, config_.signals.shutdown_timeout,
                   verdict_text(request));
}

Health Watchdog::health() const {
  Health out;
  std::tie(out.state, out.round) = agent_.where();
  if (const launcher::WorkerSet* workers = agent_.workers(); workers != nullptr) {
    out.workers = workers->alive();
    out.hanging = workers->condemned();
  }
  if (timer_ && timer_->last_heard()) out.progress_age = EventLoop::now() - *timer_->last_heard();
  return out;
}

}  // namespace cxxrun::agent
