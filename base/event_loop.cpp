// SPDX-License-Identifier: Apache-2.0
#include "base/event_loop.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <ctime>
#include <system_error>

namespace cxxrun {
namespace {

constexpr int kEventsPerTurnMax = 64;

std::uint64_t pack(std::uint32_t slot, std::uint32_t generation) {
  return (static_cast<std::uint64_t>(generation) << 32) | slot;
}

/// epoll_pwait2 has nanoseconds but came with Linux 5.11; before that milliseconds, rounded up.
int wait_for_events(int epoll, epoll_event* events, int events_max, const Duration* limit) {
  static bool fine_waits = true;
  if (fine_waits) {
    timespec left{};
    if (limit != nullptr) {
      left.tv_sec = static_cast<time_t>(limit->count() / 1'000'000'000);
      left.tv_nsec = static_cast<long>(limit->count() % 1'000'000'000);
    }
    const int n = ::epoll_pwait2(epoll, events, events_max, limit != nullptr ? &left : nullptr, nullptr);
    if (n >= 0 || errno != ENOSYS) return n;
    fine_waits = false;
  }
  const auto longest = Duration(std::chrono::hours(24));
  const int ms =
      limit == nullptr ? -1 : static_cast<int>((std::min(*limit, longest).count() + 999'999) / 1'000'000);
  return ::epoll_wait(epoll, events, events_max, ms);
}

}  // namespace

EventLoop::EventLoop() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) throw std::system_error(errno, std::generic_category(), "start to wait for events");
}
EventLoop::~EventLoop() = default;

EventLoop::Watch EventLoop::watch(int fd, std::uint32_t events, OnReady on_ready) {
  std::uint32_t index = 0;
  if (free_slots_.empty()) {
    index = static_cast<std::uint32_t>(slots_.size());
    slots_.emplace_back();
  } else {
    index = free_slots_.back();
    free_slots_.pop_back();
  }
  Slot& slot = slots_[index];
  slot.fd = fd;
  slot.on_ready = std::move(on_ready);
  epoll_event event{.events = events, .data = {.u64 = pack(index, slot.generation)}};
  [[maybe_unused]] const int rc = ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
  assert(rc == 0 && "epoll_ctl ADD");
  return Watch(this, index);
}

void EventLoop::end_watch(std::uint32_t index) noexcept {
  Slot& slot = slots_[index];
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, slot.fd, nullptr);
  slot.fd = -1;
  ++slot.generation;  // an event of this turn that was already reported finds another generation
  slot.on_ready = nullptr;
  free_slots_.push_back(index);
}

EventLoop::Watch::Watch(Watch&& other) noexcept
    : loop_(std::exchange(other.loop_, nullptr)), slot_(other.slot_) {}
EventLoop::Watch& EventLoop::Watch::operator=(Watch&& other) noexcept {
  if (this != &other) {
    reset();
    loop_ = std::exchange(other.loop_, nullptr);
    slot_ = other.slot_;
  }
  return *this;
}
void EventLoop::Watch::reset() noexcept {
  if (EventLoop* loop = std::exchange(loop_, nullptr)) loop->end_watch(slot_);
}
void EventLoop::Watch::want(std::uint32_t events) {
  assert(loop_ != nullptr);
  const Slot& slot = loop_->slots_[slot_];
  epoll_event event{.events = events, .data = {.u64 = pack(slot_, slot.generation)}};
  [[maybe_unused]] const int rc = ::epoll_ctl(loop_->epoll_.get(), EPOLL_CTL_MOD, slot.fd, &event);
  assert(rc == 0 && "epoll_ctl MOD");
}

EventLoop::Timer EventLoop::at(Time when, Work work) {
  const Timer::Key key{when, timer_serial_++};
  timers_.emplace(key, std::move(work));
  return Timer(this, key);
}
EventLoop::Timer::Timer(Timer&& other) noexcept
    : loop_(std::exchange(other.loop_, nullptr)), key_(std::move(other.key_)) {}
EventLoop::Timer& EventLoop::Timer::operator=(Timer&& other) noexcept {
  if (this != &other) {
    reset();
    loop_ = std::exchange(other.loop_, nullptr);
    key_ = other.key_;
  }
  return *this;
}
void EventLoop::Timer::reset() noexcept {
  if (EventLoop* loop = std::exchange(loop_, nullptr)) loop->timers_.erase(key_);
}
EventLoop::Timer::operator bool() const noexcept { return loop_ != nullptr && loop_->timers_.contains(key_); }

bool EventLoop::run_posted() {
  const auto count = posted_.size();  // what they post in turn waits for the next turn
  for (std::size_t i = 0; i < count && !stopped_; ++i) {
    Work work = std::move(posted_.front());
    posted_.pop_front();
    work();
  }
  return count > 0;
}

bool EventLoop::run_due_timers() {
  bool any = false;
  const Time now_read = now();
  while (!timers_.empty() && timers_.begin()->first.first <= now_read && !stopped_) {
    Work work = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    work();
    any = true;
  }
  return any;
}

int EventLoop::wait(epoll_event* events, int events_max, Time deadline) {
  if (!posted_.empty()) deadline = Time::min();
  if (!timers_.empty()) deadline = std::min(deadline, timers_.begin()->first.first);
  if (deadline == Time::max()) return wait_for_events(epoll_.get(), events, events_max, nullptr);
  const Time now_read = now();
  const Duration left = deadline <= now_read ? Duration::zero() : deadline - now_read;
  return wait_for_events(epoll_.get(), events, events_max, &left);
}

bool EventLoop::run_once(Time deadline) {
  std::array<epoll_event, kEventsPerTurnMax> events{};
  const int ready = wait(events.data(), kEventsPerTurnMax, deadline);
  assert((ready >= 0 || errno == EINTR) && "epoll_wait");
  bool any = ready > 0;
  for (int i = 0; i < ready && !stopped_; ++i) {
    const auto index = static_cast<std::uint32_t>(events[static_cast<std::size_t>(i)].data.u64 & 0xffffffffu);
    const auto generation = static_cast<std::uint32_t>(events[static_cast<std::size_t>(i)].data.u64 >> 32);
    if (slots_[index].generation != generation) continue;
    // The handler may end its own watch: it runs from here, and goes back only if the watch still stands.
    OnReady on_ready = std::move(slots_[index].on_ready);
    on_ready(events[static_cast<std::size_t>(i)].events);
    if (slots_[index].generation == generation) slots_[index].on_ready = std::move(on_ready);
  }
  any = run_due_timers() || any;
  any = run_posted() || any;
  return any;
}

void EventLoop::run() {
  stopped_ = false;
  while (!stopped_) run_once();
}

}  // namespace cxxrun
