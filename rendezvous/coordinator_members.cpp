// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <utility>

#include "base/limits.hpp"
#include "rendezvous/coordinator_decider.hpp"

namespace cxxrun::rendezvous {

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
  m->suspended = false;
  m->store_port = e.ready.store_port;
}

void CoordinatorDecider::on(const event::Failed& e) {
  const CoordinatorMember* m = find(e.id);
  if (m == nullptr || !m->in_round || e.failure.round != s_.round) return;
  if (s_.phase != Phase::Running && s_.phase != Phase::Stopping) return;
  Failure failure = e.failure;
  failure.age = std::clamp(failure.age, std::chrono::milliseconds(0),
                           std::chrono::milliseconds(limits::kFailureAgeMax));
  if (failure.host == m->hello.host_name) failure.host = label(s_, *m);  // several nodes may be called alike
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

std::string CoordinatorDecider::leaving_text(const CoordinatorMember& m, const std::string& sentence) const {
  const bool hosts = m.link.host && config_.hosted;
  return name_of(m) + " leaves" + (sentence.empty() ? "" : ": " + sentence) +
         (hosts ? "; it hosts the rendezvous" : "");
}

/// It has begun to stop its workers: the others do so now, not after its grace.
void CoordinatorDecider::on(const event::GoingAway& e) {
  CoordinatorMember* m = find(e.id);
  if (m == nullptr || s_.phase == Phase::Closed || m->going_since != Time::max()) return;
  m->going_since = now_;
  if (s_.phase == Phase::Running && m->in_round && !m->done)
    stop_round(leaving_text(*m, e.going.sentence), std::nullopt);
}

void CoordinatorDecider::on(const event::Left& e) {
  const CoordinatorMember* m = find(e.id);
  if (m == nullptr) return;
  if (e.leave.why == Leaving::StopJob && s_.phase != Phase::Closed) {
    close(Outcome::Interrupted, 130,
          "interrupted at " + label(s_, *m) + (e.leave.sentence.empty() ? "" : ": " + e.leave.sentence),
          std::nullopt);
  }
  if (s_.phase != Phase::Closed) {
    const std::string why = leaving_text(*m, e.leave.sentence);
    const bool told = s_.phase == Phase::Stopping && m->in_round && m->going_since != Time::max();
    s_.abandoned = s_.abandoned || (m->link.host && config_.hosted);
    if (!m->in_round) note(why);
    depart(e.id, why);
    // The rendezvous goes with its node: whoever runs must stop, now, and look for the endpoint.
    if (s_.abandoned && !told) {
      for (const MemberId id : told_order()) {
        if (id != e.id) send(id, wire::Stop{s_.epoch, s_.round, why, std::nullopt});
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
  if (m->link.direct && !m->hello.proxied)
    return lose(e.id, "is gone: its process ended" + memory_sentence(e.memory, now_), false);
  m->connected = false;
  m->memory = e.memory;
  m->lost_at = now_ + config_.timeouts.rejoin_grace;
}

void CoordinatorDecider::on(const event::Silent& e) {
  CoordinatorMember* m = find(e.id);
  if (m == nullptr || !m->connected) return;
  actions_.push_back(action::Drop{e.id});
  const auto silence = config_.timeouts.keep_alive_interval * config_.timeouts.keep_alive_max_attempt;
  lose(e.id, "is lost: nothing heard for " + text(silence) + memory_sentence(e.memory, now_), true);
}

/// Ctrl-Z at a node: its workers sleep, the round goes on. The others hear why theirs may wait.
void CoordinatorDecider::on(const event::Suspended& e) {
  CoordinatorMember* m = find(e.id);
  if (m == nullptr || std::exchange(m->suspended, e.suspended) == e.suspended || !m->in_round) return;
  const std::string what =
      name_of(*m) + (e.suspended ? " is suspended: its workers do nothing until somebody "
                                   "continues it (fg, or SIGCONT to its agent)"
                                 : " goes on");
  note_told(what);
  for (const MemberId id : told_order()) {
    if (id != e.id) send(id, wire::Notice{what});
  }
}

/// `silent`: its process may still run somewhere; no round starts before it must have stopped itself.
void CoordinatorDecider::lose(MemberId id, std::string how, bool silent) {
  const CoordinatorMember m = *find(id);
  if (silent && m.in_round) s_.fence_until = std::max(s_.fence_until, now_ + fence_timeout(config_.timeouts));
  const std::string sentence = name_of(m) + " " + how;
  // The members of a running round hear it as the reason of its stop.
  if (m.in_round && s_.phase == Phase::Running) {
    note_told(sentence);
  } else if (s_.phase != Phase::Closed) {
    note(sentence);
  }
  depart(id, sentence);
  s_.members.erase(id);
}

/// The member is about to be forgotten: what that means for the round.
void CoordinatorDecider::depart(MemberId id, const std::string& sentence) {
  CoordinatorMember& m = *find(id);
  if (!m.in_round || (s_.phase != Phase::Running && s_.phase != Phase::Stopping)) return;
  // All its workers had ended well: the others need nothing of it any more. If they do (its store), they fail
  // by themselves, and this departure explains them.
  auto& list = m.done ? s_.done_departures : s_.departures;
  list.push_back(Departure{id, sentence, now_, m.going_since});
  const bool done = m.done;
  m.in_round = false;
  m.connected = false;
  if (!done && s_.phase == Phase::Running) stop_round(sentence, std::nullopt);
  if (done) fail_open_fences(sentence);
}

}  // namespace cxxrun::rendezvous
