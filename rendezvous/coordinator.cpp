// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator.hpp"

#include <algorithm>

#include "rendezvous/coordinator_decider.hpp"

namespace cxxrun::rendezvous {

void CoordinatorDecider::settle() {
  std::vector<MemberId> expired;
  for (const auto& [id, m] : s_.members) {
    if (!m.connected && now_ >= m.lost_at) expired.push_back(id);
  }
  for (const MemberId id : expired) {
    const std::string memory = memory_sentence(s_.members.at(id).memory, now_);
    lose(id, "is lost: it did not come back in time" + memory, true);
  }
  check_done();
  end_stopping_if_all_stopped();
  start_if_possible();
  let_newcomer_in();
  tell_spares();
  tell_waiting();
}

Time CoordinatorDecider::next_wake() const {
  if (s_.phase == Phase::Closed) return Time::max();
  Time wake = Time::max();
  for (const auto& [id, m] : s_.members) wake = std::min(wake, m.lost_at);
  if (s_.phase == Phase::Stopping && s_.notice_at > now_) wake = std::min(wake, s_.notice_at);
  if (s_.phase == Phase::Gathering) {
    const Time decide_at = s_.last_call_until != Time::max() ? s_.last_call_until : s_.gather_deadline;
    // A decision that is due and not taken waits for an event.
    for (const Time at : {s_.notice_at, decide_at, s_.fence_until}) {
      if (at > now_) wake = std::min(wake, at);
    }
  }
  return wake;
}

CoordinatorStep CoordinatorDecider::finish() {
  settle();
  const Time wake = next_wake();
  return CoordinatorStep{std::move(s_), std::move(actions_), wake};
}

CoordinatorConfig coordinator_config(const Config& config) {
  CoordinatorConfig out;
  out.run_id = config.run_id;
  out.exact_ranks = config.backend == BackendKind::Static;
  out.nnodes_max = config.nnodes_max;
  out.nnodes_min = out.exact_ranks ? config.nnodes_max : config.nnodes_min;  // as torchrun: only MAX counts
  out.max_restarts = config.max_restarts;
  out.hopeless_codes = config.hopeless_codes;
  out.agent_store = config.agent_store;
  if (out.exact_ranks) out.fixed_master = config.endpoint;
  out.timeouts = config.timeouts;
  return out;
}

CoordinatorStep step(const CoordinatorConfig& config, CoordinatorState state, const CoordinatorEvent& event,
                     Time now) {
  CoordinatorDecider decider(config, std::move(state), now);
  std::visit([&](const auto& e) { decider.on(e); }, event);
  return decider.finish();
}

Duration fence_timeout(const Timeouts& t) { return t.keep_alive_interval * t.keep_alive_max_attempt + 1s; }

}  // namespace cxxrun::rendezvous
