// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <string_view>
#include <variant>

#include "base/limits.hpp"
#include "net/frame.hpp"
#include "rendezvous/coordinator.hpp"
#include "rendezvous/message.hpp"

namespace cxxrun::fuzz {

/// What a server does with a stream of an agent's frames, without sockets: each frame decoded, each message
/// taken as the next event of one of three members. Whatever comes, the coordinator must not crash, and not
/// ask to be woken in the past.
inline void feed_coordinator(std::string_view bytes) {
  using namespace rendezvous;
  net::FrameReader reader(limits::kHelloBytesMax);
  CoordinatorConfig config;
  config.run_id = "t";
  config.nnodes_min = 1;
  config.nnodes_max = 2;
  config.max_restarts = 2;
  CoordinatorState state;
  Time now = Time{} + std::chrono::hours(1);
  MemberId next = 0;
  const auto take = [&](const CoordinatorEvent& event) {
    auto after = step(config, std::move(state), event, now);
    state = std::move(after.state);
    if (after.wake_at <= now) std::abort();
    for (const auto& action : after.actions) {
      const auto* send = std::get_if<action::Send>(&action);
      if (send != nullptr && !wire::decode(wire::encode(send->message))) std::abort();
    }
  };
  reader.feed(bytes);
  for (;;) {
    const auto body = reader.next();
    if (!body || !*body) return;
    const auto message = wire::decode(**body);
    if (!message || !*message) continue;
    now += 300ms;
    const MemberId member = 1 + next++ % 3;
    if (const auto* hello = std::get_if<wire::Hello>(&**message)) take(event::Joined{next + 10, *hello, {}});
    for (const MemberId id : {member, next + 9}) {
      if (const auto* m = std::get_if<wire::Ready>(&**message)) take(event::Ready{id, *m});
      if (const auto* m = std::get_if<wire::Failed>(&**message)) take(event::Failed{id, m->failure});
      if (const auto* m = std::get_if<wire::Done>(&**message)) take(event::Done{id, m->round});
      if (const auto* m = std::get_if<wire::Leave>(&**message)) take(event::Left{id, *m});
      if (const auto* m = std::get_if<wire::GoingAway>(&**message)) take(event::GoingAway{id, *m});
      if (const auto* m = std::get_if<wire::Fence>(&**message)) take(event::FencePart{id, *m});
      if (const auto* m = std::get_if<wire::Suspended>(&**message)) take(event::Suspended{id, m->suspended});
    }
    take(event::Tick{});
  }
}

}  // namespace cxxrun::fuzz
