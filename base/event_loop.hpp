// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <vector>

#include "base/time.hpp"
#include "base/unique_fd.hpp"

namespace cxxrun {

/// One thread's waiting: descriptors (level-triggered), deadlines, and work put off to the next turn.
///
/// Not thread-safe: a loop belongs to the thread that runs it. Handlers run inside run(). A registration ends
/// with its owner (Watch, Timer): after that its handler is never called again, also not for an event that
/// was already reported. A handler may destroy any Watch or Timer, its own included. The loop must outlive
/// both.
///
/// Costs one epoll descriptor; wakes up only for an event or a deadline. Why not Asio: docs/adr/0001.
class EventLoop {
 public:
  using OnReady = std::function<void(std::uint32_t events)>;
  using Work = std::function<void()>;

  EventLoop();  ///< throws std::system_error when there is no descriptor for it
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;
  ~EventLoop();

  /// Calls the handler while a descriptor is ready. The descriptor is borrowed and must stay open while
  /// watched.
  class Watch {
   public:
    Watch() = default;
    Watch(Watch&& other) noexcept;
    Watch& operator=(Watch&& other) noexcept;
    ~Watch() { reset(); }
    void reset() noexcept;            ///< ends the watch; nothing if there is none
    void want(std::uint32_t events);  ///< EPOLLIN, EPOLLOUT, 0; errors and hang-ups are always reported
    explicit operator bool() const noexcept { return loop_ != nullptr; }

   private:
    friend class EventLoop;
    Watch(EventLoop* loop, std::uint32_t slot) noexcept : loop_(loop), slot_(slot) {}
    EventLoop* loop_ = nullptr;
    std::uint32_t slot_ = 0;
  };

  /// Calls the handler once, at or after a time.
  class Timer {
   public:
    Timer() = default;
    Timer(Timer&& other) noexcept;
    Timer& operator=(Timer&& other) noexcept;
    ~Timer() { reset(); }
    void reset() noexcept;                    ///< cancels; nothing if it has fired or was never set
    explicit operator bool() const noexcept;  ///< still to fire

   private:
    friend class EventLoop;
    using Key = std::pair<Time, std::uint64_t>;
    Timer(EventLoop* loop, Key key) noexcept : loop_(loop), key_(key) {}
    EventLoop* loop_ = nullptr;
    Key key_{};
  };

  /// `fd` must be one that epoll accepts (not a regular file); anything else is a bug and asserts.
  [[nodiscard]] Watch watch(int fd, std::uint32_t events, OnReady on_ready);
  [[nodiscard]] Timer at(Time when, Work work);
  [[nodiscard]] Timer after(Duration delay, Work work) {
    return at(std::chrono::steady_clock::now() + delay, std::move(work));
  }
  /// Runs `work` on the loop's next turn. For calling back without re-entering the caller. The caller makes
  /// sure that what `work` refers to still lives; where that is in doubt, use a Timer of zero, which ends
  /// with its owner.
  void post(Work work) { posted_.push_back(std::move(work)); }

  /// Runs until stop(). Not re-entrant.
  void run();
  /// One turn: waits at most until `deadline`, runs what is due. False when nothing happened before the
  /// deadline.
  bool run_once(Time deadline = Time::max());
  void stop() noexcept { stopped_ = true; }

  /// Now; one clock reading per call.
  [[nodiscard]] static Time now() { return std::chrono::steady_clock::now(); }

 private:
  struct Slot {
    int fd = -1;
    std::uint32_t generation = 0;
    OnReady on_ready;
  };
  void end_watch(std::uint32_t slot) noexcept;
  bool run_posted();
  bool run_due_timers();
  int wait(epoll_event* events, int events_max, Time deadline);

  UniqueFd epoll_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_slots_;
  std::map<Timer::Key, Work> timers_;
  std::uint64_t timer_serial_ = 0;
  std::deque<Work> posted_;
  bool stopped_ = false;
};

}  // namespace cxxrun
