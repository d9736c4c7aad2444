// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <string>

#include "base/limits.hpp"
#include "rendezvous/coordinator_decider.hpp"

namespace cxxrun::rendezvous {
namespace {

constexpr int kRefused = 69;
constexpr int kUsage = 2;

/// Who asks to join, by its own name: "hb (10.77.0.2)".
std::string newcomer(const event::Joined& e) {
  const std::string name = e.hello.host_name.empty() ? "a node" : e.hello.host_name;
  return name + (e.link.member_address.empty() ? "" : " (" + e.link.member_address + ")");
}

}  // namespace

/// The host of the job, for sentences.
std::string CoordinatorDecider::job_name() const {
  for (const auto& [id, m] : s_.members) {
    if (m.link.host) return name_of(m);
  }
  return "this endpoint";
}

/// All nodes agree on sizes and budget. Both sides are named, with what their users wrote.
std::optional<wire::Refused> CoordinatorDecider::disagreement(const event::Joined& e) const {
  const wire::Hello& h = e.hello;
  const auto refuse = [&](const std::string& option, const std::string& theirs, const std::string& ours) {
    return wire::Refused{kRefused, false,
                         option + " differs: " + newcomer(e) + " has " + theirs + ", the job at " +
                             job_name() + " has " + ours + "; start all nodes with the same options"};
  };
  const auto sizes = [](int min, int max) {
    return min == max ? std::to_string(max) : std::to_string(min) + ":" + std::to_string(max);
  };
  const auto store = [](bool agent) { return agent ? "agent" : "none"; };
  if (h.exact_rank != config_.exact_ranks)
    return refuse("--rdzv-backend", h.exact_rank ? "static" : "c10d",
                  config_.exact_ranks ? "static" : "c10d");
  if (h.nnodes_min != config_.nnodes_min || h.nnodes_max != config_.nnodes_max)
    return refuse("--nnodes", sizes(h.nnodes_min, h.nnodes_max),
                  sizes(config_.nnodes_min, config_.nnodes_max));
  if (h.max_restarts != config_.max_restarts)
    return refuse("--max-restarts", std::to_string(h.max_restarts), std::to_string(config_.max_restarts));
  if (h.agent_store != config_.agent_store)
    return refuse("--worker-store", store(h.agent_store), store(config_.agent_store));
  return std::nullopt;
}

std::optional<wire::Refused> CoordinatorDecider::objection(const event::Joined& e) const {
  const wire::Hello& h = e.hello;
  if (h.version_major != wire::kVersionMajor) {
    return wire::Refused{kRefused, false,
                         "wrong version: " + newcomer(e) + " speaks rendezvous protocol " +
                             std::to_string(h.version_major) + ", the job at " + job_name() + " " +
                             std::to_string(wire::kVersionMajor)};
  }
  if (h.run_id != config_.run_id && s_.phase == Phase::Closed) {
    return wire::Refused{kRefused, true,
                         "the port is still held by job '" + config_.run_id + "', which has ended"};
  }
  if (h.run_id != config_.run_id) {
    return wire::Refused{kRefused, false,
                         "wrong run id: " + newcomer(e) + " has '" + h.run_id + "', the job at " +
                             job_name() + " has '" + config_.run_id + "' (--rdzv-id)"};
  }
  if (auto differs = disagreement(e)) return differs;
  if (h.local_world_size < 1 || h.local_world_size > limits::kWorkersPerNodeMax) {
    return wire::Refused{kUsage, false,
                         "--nproc-per-node " + std::to_string(h.local_world_size) + " is out of range"};
  }
  if (s_.members.size() >= static_cast<std::size_t>(limits::kNodesMax))
    return wire::Refused{kRefused, false, "too many nodes"};
  return std::nullopt;
}

std::optional<wire::Refused> CoordinatorDecider::rank_objection(const event::Joined& e) {
  if (!config_.exact_ranks) return std::nullopt;
  const int wanted = e.hello.node_rank.value_or(-1);
  if (wanted < 0 || wanted >= config_.nnodes_max) {
    return wire::Refused{kUsage, false,
                         "--node-rank " + std::to_string(wanted) + " is out of range: the job has " +
                             std::to_string(config_.nnodes_max) + " nodes, ranks 0 to " +
                             std::to_string(config_.nnodes_max - 1)};
  }
  for (const auto& [id, m] : s_.members) {
    if (m.hello.node_rank.value_or(-1) != wanted) continue;
    // One that is away may be dead already: the newcomer asks again until that is known.
    return wire::Refused{kUsage, !m.connected,
                         "--node-rank " + std::to_string(wanted) + " is taken by " + name_of(m) +
                             "; each node needs a rank of its own"};
  }
  return std::nullopt;
}

/// The same agent process comes back on a new connection.
bool CoordinatorDecider::reattach(const event::Joined& e) {
  const auto known = std::find_if(s_.members.begin(), s_.members.end(), [&](const auto& entry) {
    return entry.second.hello.incarnation == e.hello.incarnation;
  });
  if (known == s_.members.end()) return false;
  CoordinatorMember& m = known->second;
  if (m.connected)
    actions_.push_back(action::Drop{m.id});  // the old connection is dead, we only did not know
  actions_.push_back(action::Rename{e.id, m.id});
  m.connected = true;
  m.lost_at = Time::max();
  m.link = e.link;
  const bool missed_start = s_.phase == Phase::Running && m.in_round && e.hello.round < s_.round;
  m.hello = e.hello;
  if (s_.phase == Phase::Closed) {
    send(m.id, close_for(m));
  } else if (missed_start || (s_.phase == Phase::Running && m.in_round && !e.hello.running && !m.done)) {
    // It never started this round, or has stopped already: the round cannot go on without it.
    stop_round(name_of(m) + " was away", std::nullopt);
  } else if (s_.phase == Phase::Stopping && m.in_round && !e.hello.ready) {
    send(m.id, wire::Stop{s_.epoch, s_.round, s_.stop_reason, s_.stop_cause});
  } else if (s_.phase == Phase::Gathering && e.hello.running) {
    send(m.id,
         wire::Stop{s_.epoch, e.hello.round, "the round has ended while this node was away", std::nullopt});
  } else if (e.hello.ready) {
    m.ready = true;
    m.store_port = e.hello.store_port;
  }
  return true;
}

/// A fresh agent of a node whose old agent is away replaces it: nobody else will come back there.
void CoordinatorDecider::replace_lost_twin(const wire::Hello& hello, const Link& link) {
  for (const auto& [id, m] : s_.members) {
    const bool same_node =
        m.hello.host_name == hello.host_name && m.link.member_address == link.member_address;
    if (same_node && !m.connected) return lose(id, "was started anew", false);
  }
}

/// A fresh coordinator goes on where the members' last one stopped.
void CoordinatorDecider::learn(const wire::Hello& hello) {
  if (hello.epoch >= s_.epoch) s_.epoch = hello.epoch + 1;
  if (!s_.any_round) {
    // Others of that round may still stop their workers, out of our sight: they get the time of a lost node.
    if (s_.round < 0 && hello.round >= 0)
      s_.fence_until = std::max(s_.fence_until, now_ + fence_timeout(config_.timeouts));
    s_.round = std::max(s_.round, hello.round);
    s_.restarts = std::max(s_.restarts, std::min(hello.restart_count, config_.max_restarts));
  }
}

void CoordinatorDecider::on(const event::Joined& e) {
  if (reattach(e)) return;
  replace_lost_twin(e.hello, e.link);
  auto refused = objection(e);
  if (!refused && s_.phase != Phase::Closed) refused = rank_objection(e);
  if (refused) {
    actions_.push_back(action::Note{"refused " + newcomer(e) + ": " + refused->sentence, false, true});
    send(e.id, std::move(*refused));
    actions_.push_back(action::Drop{e.id});
    return;
  }
  if (s_.phase == Phase::Closed) {
    wire::Close late = *s_.close;
    late.late = true;
    send(e.id, std::move(late));
    actions_.push_back(action::Drop{e.id});
    return;
  }
  learn(e.hello);
  CoordinatorMember m;
  m.id = e.id;
  m.hello = e.hello;
  m.link = e.link;
  m.ready = e.hello.ready && !e.hello.running;
  m.store_port = e.hello.store_port;
  s_.members.emplace(e.id, std::move(m));
  if (e.hello.running) {  // workers of a round that we never started: they must go first
    send(e.id, wire::Stop{s_.epoch, e.hello.round, "the rendezvous was started anew", std::nullopt});
  }
  if (s_.phase != Phase::Gathering) return;
  if (s_.gather_deadline == Time::max()) begin_gathering(true);
  // A coordinator made after a loss: these members have waited for one job already, not for the first time.
  if (!s_.any_round && s_.round >= 0)
    s_.gather_deadline = std::min(s_.gather_deadline, now_ + rejoin_limit());
}

}  // namespace cxxrun::rendezvous
