// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>

#include "base/event_loop.hpp"
#include "rendezvous/member.hpp"

namespace cxxrun::rendezvous {

/// Events on their way to the agent: one a turn of the loop, never from inside a call of the agent's.
///
/// The handler may destroy the delivery, and whatever owns it.
class Delivery {
 public:
  Delivery(EventLoop& loop, std::function<void(MemberEvent)> on_event)
      : loop_(loop), on_event_(std::move(on_event)) {}

  void add(MemberEvent event);
  /// Calls `last` once, when all events were delivered.
  void then(std::function<void()> last);

 private:
  void schedule();
  void deliver();

  EventLoop& loop_;
  std::function<void(MemberEvent)> on_event_;
  std::deque<MemberEvent> events_;
  std::function<void()> last_;
  EventLoop::Timer soon_;
};

}  // namespace cxxrun::rendezvous
