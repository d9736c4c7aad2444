// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cassert>
#include <string>

#include "rendezvous/coordinator_decider.hpp"
#include "rendezvous/placement.hpp"

namespace cxxrun::rendezvous {
namespace {

constexpr int kClosedMissing = 75;

int failure_code(const Failure& f) {
  const int code = shell_code(f.status);
  return code == 0 ? 1 : code;
}

}  // namespace

int CoordinatorDecider::live_in_round() const {
  return static_cast<int>(std::count_if(s_.members.begin(), s_.members.end(),
                                        [](const auto& entry) { return entry.second.in_round; }));
}

/// How long a job that ran already waits for its missing nodes.
Duration CoordinatorDecider::rejoin_limit() const {
  const auto& t = config_.timeouts;
  const bool restart_left = s_.restarts < config_.max_restarts;
  return t.rejoin.value_or(restart_left ? t.join : std::chrono::milliseconds(30s));
}

void CoordinatorDecider::begin_gathering(bool first) {
  s_.phase = Phase::Gathering;
  s_.gather_deadline = now_ + (first ? Duration(config_.timeouts.join) : rejoin_limit());
  s_.last_call_until = Time::max();
  s_.notice_key = 0;
  s_.notice_gap = kNoticeGapFirst;
  s_.notice_at = now_ + kFirstNotice;
}

void CoordinatorDecider::stop_round(std::string reason, const std::optional<Failure>& cause) {
  assert(s_.phase == Phase::Running);
  s_.phase = Phase::Stopping;
  s_.stop_since = now_;
  s_.stop_by_failure = cause.has_value();
  s_.stop_reason = std::move(reason);
  s_.stop_cause = cause;
  s_.notice_gap = kNoticeGapFirst;
  s_.notice_at = now_ + kStoppingNotice;
  note_told("round " + std::to_string(s_.round) + " stops: " + s_.stop_reason);
  for (const MemberId id : told_order()) {
    CoordinatorMember& m = *find(id);
    if (!m.in_round) continue;
    m.ready = false;  // also one that never started it: it answers the stop at once
    if (m.going_since != Time::max()) continue;  // it stops already
    send(id, wire::Stop{s_.epoch, s_.round, s_.stop_reason, cause});
  }
}

/// What the stop is charged to: the failure that came first, by the time it happened, unless a departure
/// explains it.
std::optional<Failure> CoordinatorDecider::root_cause() const {
  const bool departed = !s_.departures.empty() || !s_.done_departures.empty();
  const Report* first = nullptr;
  for (const Report& r : s_.reports) {
    const bool own_record = r.failure.own_exception || r.failure.outside_signal;
    const bool of_departed = std::any_of(s_.departures.begin(), s_.departures.end(), [&](const Departure& d) {
      return d.id == r.from && r.happened < d.announced;
    });
    const bool departure_first = departed && !s_.stop_by_failure && r.happened >= s_.stop_since;
    if (departed && !of_departed && !own_record) continue;  // its peers fail because it is gone
    if (departure_first && !of_departed) continue;
    // A resize stopped the workers: what fails after that fails because we stopped it.
    if (!departed && !s_.stop_by_failure && r.happened >= s_.stop_since) continue;
    if (first == nullptr || r.happened < first->happened) first = &r;
  }
  if (first == nullptr) return std::nullopt;
  return first->failure;
}

void CoordinatorDecider::end_stopping_if_all_stopped() {
  if (s_.phase != Phase::Stopping) return;
  bool all_done = live_in_round() > 0 && s_.reports.empty() && s_.departures.empty();
  for (const auto& [id, m] : s_.members) {
    if (!m.in_round) continue;
    all_done = all_done && m.done;
    if (!m.ready && !m.done) return;
  }
  if (all_done) return close(Outcome::Succeeded, 0, "all workers ended with 0", std::nullopt);
  for (const auto& [id, m] : s_.members) {
    if (m.in_round && !m.ready) return;
  }
  const auto root = root_cause();
  if (root && (s_.restarts >= config_.max_restarts || hopeless(*root))) return give_up(*root);
  if (root) ++s_.restarts;
  s_.gather_reason = root                    ? failure_text(*root)
                     : s_.departures.empty() ? s_.stop_reason
                                             : s_.departures.front().sentence;
  note("round " + std::to_string(s_.round) + " has ended: " + s_.gather_reason +
       (root ? "; restart " + std::to_string(s_.restarts) + " of " + std::to_string(config_.max_restarts)
             : "; spends no restart"));
  begin_gathering(false);
}

bool CoordinatorDecider::hopeless(const Failure& root) const {
  return config_.hopeless_codes.test(static_cast<std::size_t>(failure_code(root) & 255));
}

/// No restart: where one might have been expected, it is said why.
void CoordinatorDecider::give_up(const Failure& root) {
  std::string why;
  if (config_.max_restarts > 0) {
    why = s_.restarts >= config_.max_restarts ? "restart " + std::to_string(s_.restarts) + " of " +
                                                    std::to_string(config_.max_restarts) + " was the last"
                                              : text(root.status) + " is not one to restart for";
  }
  const std::string reason = failure_text(root) + (why.empty() ? "" : " (" + why + ")");
  close(Outcome::Failed, failure_code(root), reason, root, why);
}

/// A fresh coordinator: is everybody here who was in the round before it? All but the one that hosted.
bool CoordinatorDecider::old_round_accounted_for() const {
  if (s_.any_round || s_.round < 0) return false;
  int size = 0;
  int here = 0;
  for (const auto& [id, m] : s_.members) {
    if (m.hello.round != s_.round) continue;
    size = std::max(size, m.hello.round_size);
    ++here;
  }
  return size > 0 && here >= size - 1;
}

void CoordinatorDecider::start_if_possible() {
  if (s_.phase != Phase::Gathering || s_.abandoned) return;
  if (old_round_accounted_for()) s_.fence_until = Time::min();
  if (now_ < s_.fence_until) return;
  // One that is here and not ready still stops workers of an earlier round: no new world beside it.
  for (const auto& [id, m] : s_.members) {
    if (m.connected && !m.ready) return;
  }
  const int ready =
      static_cast<int>(std::count_if(s_.members.begin(), s_.members.end(), [](const auto& entry) {
        return entry.second.ready && entry.second.connected;
      }));
  const int n = std::min(ready, config_.nnodes_max);
  if (n < config_.nnodes_min || n == 0) {
    s_.last_call_until = Time::max();
    if (now_ >= s_.gather_deadline) {
      const auto key = s_.any_round || s_.round >= 0 ? "rejoin_timeout" : "join_timeout";
      const std::string lost = s_.any_round && !s_.departures.empty() ? s_.gather_reason + "; " : "";
      close(Outcome::NodesMissing, kClosedMissing,
            lost + "only " + std::to_string(n) + " of " + std::to_string(config_.nnodes_min) +
                " nodes were there when the time was over (--rdzv-conf " + key + "=SECONDS)",
            std::nullopt);
    }
    return;
  }
  if (n < config_.nnodes_max && !s_.any_round && !old_round_accounted_for()) {
    if (s_.last_call_until == Time::max()) s_.last_call_until = now_ + config_.timeouts.last_call;
    if (now_ < s_.last_call_until) return;
  }
  start(rank(config_, s_, choose(config_, s_)));
}

/// A node that fits below MAX stops the round, and spends nothing. Where workers have ended well already, the
/// job is about to end: nobody starts it again for a newcomer.
void CoordinatorDecider::let_newcomer_in() {
  if (s_.phase != Phase::Running || live_in_round() >= config_.nnodes_max || !s_.done_departures.empty())
    return;
  const CoordinatorMember* newcomer = nullptr;
  for (const auto& [id, m] : s_.members) {
    if (m.done) return;
    if (newcomer == nullptr && !m.in_round && m.ready && m.connected) newcomer = &m;
  }
  if (newcomer != nullptr) stop_round(name_of(*newcomer) + " joined", std::nullopt);
}

void CoordinatorDecider::start(const std::vector<MemberId>& ranked) {
  s_.phase = Phase::Running;
  ++s_.round;
  s_.any_round = true;
  s_.round_size = static_cast<int>(ranked.size());
  s_.gather_deadline = s_.last_call_until = Time::max();
  s_.reports.clear();
  s_.departures.clear();
  s_.done_departures.clear();
  s_.fences.clear();
  s_.stop_cause.reset();
  s_.stop_reason.clear();
  for (auto& [id, m] : s_.members) {
    m.in_round = m.done = false;
    m.group_rank = -1;
  }
  const auto all = worlds(config_, s_, ranked);
  for (std::size_t i = 0; i < ranked.size(); ++i) {
    CoordinatorMember& m = *find(ranked[i]);
    m.in_round = m.ever_ran = true;
    m.ready = m.told_spare = false;
    m.group_rank = static_cast<int>(i);
    send(ranked[i],
         wire::Start{s_.epoch, all[i], i == 0 ? admitted(s_, ranked) : std::vector<std::string>{}});
  }
  note_told("round " + std::to_string(s_.round) + " starts with " + std::to_string(ranked.size()) + " nodes");
}

void CoordinatorDecider::check_done() {
  if (s_.phase != Phase::Running) return;
  bool any = false;
  for (const auto& [id, m] : s_.members) {
    if (!m.in_round) continue;
    if (!m.done) return;
    any = true;
  }
  if (any || !s_.done_departures.empty())
    close(Outcome::Succeeded, 0, "all workers ended with 0", std::nullopt);
}

wire::Close CoordinatorDecider::close_for(const CoordinatorMember& m) const {
  wire::Close out = *s_.close;
  if (!m.in_round && s_.any_round &&
      out.outcome != Outcome::Interrupted) {  // a spare: it did its part by waiting
    out.exit_code = 0;
  }
  return out;
}

void CoordinatorDecider::close(Outcome outcome, int exit_code, std::string reason,
                               std::optional<Failure> root, std::string no_restart) {
  note_told("the job has ended: " + reason);
  s_.close = wire::Close{
      s_.epoch, outcome, exit_code, std::move(reason), std::move(root), false, std::move(no_restart)};
  s_.phase = Phase::Closed;
  // Below MIN nobody is in a round any more, yet all of them share the outcome.
  const bool all_alike = outcome == Outcome::NodesMissing;
  for (const MemberId id : told_order()) {
    CoordinatorMember m = *find(id);
    m.in_round = m.in_round || all_alike;
    if (s_.any_round && !m.in_round && !m.ever_ran)
      send(id, wire::Notice{"the job has ended; this node was a spare and ran no worker"});
    send(id, close_for(m));
  }
}

}  // namespace cxxrun::rendezvous
