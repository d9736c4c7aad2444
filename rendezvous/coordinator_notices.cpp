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

/// Who came beyond MAX waits without a word otherwise. Perhaps it belongs to another job with the same id.
void CoordinatorDecider::tell_spares() {
  if (s_.phase != Phase::Running) return;
  const int size = live_in_round();
  for (auto& [id, m] : s_.members) {
    if (m.in_round || !m.ready || !m.connected || std::exchange(m.told_spare, true)) continue;
    if (size < config_.nnodes_max) {
      send(id, wire::Notice{
                   "workers of round " + std::to_string(s_.round) +
                   " have ended well already, so the job does not start again for this node: it is a spare"});
      continue;
    }
    send(id, wire::Notice{
                 "this node is a spare of run id '" + config_.run_id + "', which is complete at " +
                 job_name() + ": round " + std::to_string(s_.round) + " runs on " + std::to_string(size) +
                 " of " + std::to_string(config_.nnodes_max) +
                 " nodes, and this one steps in when one of them goes. If it belongs to another job, give "
                 "that job another port in --rdzv-endpoint, and another --rdzv-id"});
    note(name_of(m) + " waits as a spare");
  }
}

/// In Stopping: who still has workers, once it takes long.
void CoordinatorDecider::tell_stopping() {
  if (now_ < s_.notice_at) return;
  s_.notice_at = now_ + s_.notice_gap;
  s_.notice_gap = std::min(s_.notice_gap * 2, kNoticeGapMax);
  tell_ready(sentence(config_, s_, now_));
}

void CoordinatorDecider::tell_ready(const std::string& words) {
  note_told(words);
  for (const MemberId id : told_order()) {
    if (find(id)->ready) send(id, wire::Notice{words});
  }
}

void CoordinatorDecider::tell_waiting() {
  if (s_.phase == Phase::Stopping) return tell_stopping();
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
  tell_ready(sentence(config_, s_, now_));
}

}  // namespace cxxrun::rendezvous
