// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include "base/limits.hpp"
#include "rendezvous/coordinator_decider.hpp"

namespace cxxrun::rendezvous {
namespace {

constexpr std::size_t kFencesMax = 64;  // unfinished ones of a round

}  // namespace

/// The host last: when it has its message it may end, and we with it.
std::vector<MemberId> CoordinatorDecider::told_order() const {
  std::vector<MemberId> ids;
  for (const auto& [id, m] : s_.members) {
    if (m.connected) ids.push_back(id);
  }
  std::stable_partition(ids.begin(), ids.end(), [&](MemberId id) { return !s_.members.at(id).link.host; });
  return ids;
}

void CoordinatorDecider::on(const event::Ready& e) {
  CoordinatorMember* m = find(e.id);
  if (m == nullptr || s_.phase == Phase::Closed) return;
  if (m->in_round && (s_.phase == Phase::Running || e.ready.round < s_.round)) return;
  m->ready = true;
  m->store_port = e.ready.store_port;
}

void CoordinatorDecider::on(const event::Failed& e) {
  const CoordinatorMember* m = find(e.id);
  if (m == nullptr || !m->in_round || e.failure.round != s_.round) return;
  if (s_.phase != Phase::Running && s_.phase != Phase::Stopping) return;
  Failure failure = e.failure;
  failure.age = std::clamp(failure.age, std::chrono::milliseconds(0),
                           std::chrono::milliseconds(limits::kFailureAgeMax));
  if (s_.reports.size() < static_cast<std::size_t>(limits::kWorkersPerNodeMax)) {
    s_.reports.push_back(Report{e.id, failure, now_ - failure.age});
  }
  if (s_.phase == Phase::Running) stop_round(failure_text(failure), failure);
}

void CoordinatorDecider::on(const event::Done& e) {
  CoordinatorMember* m = find(e.id);
  if (m == nullptr || !m->in_round || e.round != s_.round) return;
  if (s_.phase == Phase::Running || s_.phase == Phase::Stopping) m->done = true;
}

void CoordinatorDecider::on(const event::Left& e) {
  const CoordinatorMember* m = find(e.id);
  if (m == nullptr) return;
  const std::string why = name_of(*m) + " leaves" + (e.leave.sentence.empty() ? "" : ": " + e.leave.sentence);
  const std::string host = m->hello.host_name;
  if (e.leave.why == Leaving::StopJob && s_.phase != Phase::Closed) {
    close(Outcome::Interrupted, 130,
          "interrupted at " + host + (e.leave.sentence.empty() ? "" : ": " + e.leave.sentence), std::nullopt);
  }
  const bool hosts = m->link.host && config_.hosted;
  if (s_.phase != Phase::Closed) {
    depart(e.id, why);
    if (hosts) {
      // The rendezvous goes with its node: whoever runs must stop, now, and look for the endpoint.
      for (const MemberId id : told_order()) {
        if (id != e.id)
          send(id, wire::Stop{s_.epoch, s_.round, why + "; it hosts the rendezvous", std::nullopt});
      }
    }
  }
  send(e.id, wire::Goodbye{});
  actions_.push_back(action::Drop{e.id});
  s_.members.erase(e.id);
}

void CoordinatorDecider::on(const event::Cut& e) {
  CoordinatorMember* m = find(e.id);
  if (m == nullptr || !m->connected) return;
  if (m->link.direct && !m->hello.proxied) return lose(e.id, "is gone: its process ended", false);
  m->connected = false;
  m->lost_at = now_ + config_.timeouts.rejoin_grace;
}

void CoordinatorDecider::on(const event::Silent& e) {
  CoordinatorMember* m = find(e.id);
  if (m == nullptr || !m->connected) return;
  actions_.push_back(action::Drop{e.id});
  const auto silence = config_.timeouts.keep_alive_interval * config_.timeouts.keep_alive_max_attempt;
  lose(e.id, "is lost: nothing heard for " + text(silence), true);
}

void CoordinatorDecider::on(const event::FencePart& e) {
  const CoordinatorMember* m = find(e.id);
  if (m == nullptr || !m->in_round || s_.phase != Phase::Running || e.fence.round != s_.round) return;
  if (e.fence.blob.size() > limits::kFenceBlobBytesMax) return;
  if (s_.fences.size() >= kFencesMax && !s_.fences.contains(e.fence.name)) return;
  auto& parts = s_.fences[e.fence.name];
  parts[m->group_rank] = e.fence.blob;
  if (static_cast<int>(parts.size()) < live_in_round()) return;
  wire::Fenced all{s_.round, e.fence.name, {}};
  for (auto& [group_rank, blob] : parts) all.blobs.push_back(std::move(blob));
  s_.fences.erase(e.fence.name);
  for (const MemberId id : told_order()) {
    if (find(id)->in_round) send(id, all);
  }
}

void CoordinatorDecider::on(const event::Suspended& e) {
  if (CoordinatorMember* m = find(e.id)) m->suspended = e.suspended;
}

/// `silent`: its process may still run somewhere; no round starts before it must have stopped itself.
void CoordinatorDecider::lose(MemberId id, std::string how, bool silent) {
  const CoordinatorMember m = *find(id);
  if (silent && m.in_round) s_.fence_until = std::max(s_.fence_until, now_ + fence_timeout(config_.timeouts));
  if (s_.phase != Phase::Closed) note(name_of(m) + " " + how);
  depart(id, name_of(m) + " " + how);
  s_.members.erase(id);
}

/// The member is about to be forgotten: what that means for the round.
void CoordinatorDecider::depart(MemberId id, const std::string& sentence) {
  CoordinatorMember& m = *find(id);
  if (!m.in_round || (s_.phase != Phase::Running && s_.phase != Phase::Stopping)) return;
  // All its workers had ended well: the others need nothing of it any more. If they do (its store), they fail
  // by themselves, and this departure explains them.
  auto& list = m.done ? s_.done_departures : s_.departures;
  list.push_back(Departure{id, sentence, now_});
  const bool done = m.done;
  m.in_round = false;
  m.connected = false;
  if (!done && s_.phase == Phase::Running) stop_round(sentence, std::nullopt);
}

}  // namespace cxxrun::rendezvous
