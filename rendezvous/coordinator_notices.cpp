// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <utility>

#include "rendezvous/coordinator_decider.hpp"

namespace cxxrun::rendezvous {
namespace {

constexpr Duration kNoticeGapMin = 1s;
constexpr Duration kNoticeGapMax = 120s;

}  // namespace

/// Who came beyond MAX waits without a word otherwise.
void CoordinatorDecider::tell_spares() {
  if (s_.phase != Phase::Running) return;
  for (auto& [id, m] : s_.members) {
    if (m.in_round || !m.ready || !m.connected || std::exchange(m.told_spare, true)) continue;
    send(id,
         wire::Notice{"round " + std::to_string(s_.round) + " runs on " + std::to_string(live_in_round()) +
                      " nodes, as many as it may have; this node is a spare and steps in when one goes"});
  }
}

void CoordinatorDecider::tell_waiting() {
  if (s_.phase != Phase::Gathering) {
    s_.notice_at = Time::max();
    return;
  }
  std::uint64_t key = s_.last_call_until != Time::max() ? 2 : 1;  // who is there, in one number
  for (const auto& [id, m] : s_.members) {
    if (m.ready && m.connected) key = key * 1'000'003u + id;
  }
  if (key != s_.notice_key && s_.notice_last != Time::min()) {
    s_.notice_at = std::min(s_.notice_at, std::max(now_ + kFirstNotice, s_.notice_last + kNoticeGapMin));
  }
  if (now_ < s_.notice_at) return;
  s_.notice_key = key;
  s_.notice_last = now_;
  s_.notice_at = now_ + s_.notice_gap;
  s_.notice_gap = std::min(s_.notice_gap * 2, kNoticeGapMax);
  const std::string words = sentence(config_, s_, now_);
  note(words);
  for (const MemberId id : told_order()) {
    if (find(id)->ready) send(id, wire::Notice{words});
  }
}

}  // namespace cxxrun::rendezvous
