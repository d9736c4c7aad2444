// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator.hpp"

#include <algorithm>
#include <cassert>

#include "base/limits.hpp"
#include "rendezvous/placement.hpp"

namespace cxxrun::rendezvous {
namespace {

constexpr Duration kFirstNotice = 200ms;  // a job that starts at once should say nothing
constexpr Duration kNoticeGapMin = 1s;
constexpr Duration kNoticeGapFirst = 15s;  // then doubling: at most 10 lines in the first minute, few later
constexpr Duration kNoticeGapMax = 120s;
constexpr std::size_t kFencesMax = 64;  // unfinished ones of a round
constexpr int kClosedMissing = 75;
constexpr int kRefused = 69;
constexpr int kUsage = 2;

std::string name_of(const CoordinatorMember& m) {
  std::string out = m.hello.host_name.empty() ? "a node" : m.hello.host_name;
  if (!m.link.member_address.empty()) out += " (" + m.link.member_address + ")";
  return out;
}

std::string failure_text(const Failure& f) {
  std::string out = f.rank >= 0 ? "rank " + std::to_string(f.rank) : "node";
  if (!f.host.empty()) out += " on " + f.host;
  out += " failed: " + text(f.status);
  if (!f.message.empty()) out += ": " + f.message;
  return out;
}

int failure_code(const Failure& f) {
  const int code = shell_code(f.status);
  return code == 0 ? 1 : code;
}

/// One call of step(): the state, the time and the actions so far.
class Decider {
 public:
  Decider(const CoordinatorConfig& config, CoordinatorState state, Time now)
      : config_(config), s_(std::move(state)), now_(now) {}

  void on(const event::Joined& e);
  void on(const event::Ready& e);
  void on(const event::Failed& e);
  void on(const event::Done& e);
  void on(const event::Left& e);
  void on(const event::Cut& e);
  void on(const event::Silent& e);
  void on(const event::FencePart& e);
  void on(const event::Suspended& e);
  void on(const event::Tick&) {}

  CoordinatorStep finish();

 private:
  CoordinatorMember* find(MemberId id) {
    const auto it = s_.members.find(id);
    return it == s_.members.end() ? nullptr : &it->second;
  }
  void send(MemberId to, wire::Message message) { actions_.push_back(action::Send{to, std::move(message)}); }
  void note(std::string sentence) { actions_.push_back(action::Note{std::move(sentence)}); }
  std::vector<MemberId> told_order() const;

  std::optional<wire::Refused> objection(const event::Joined& e) const;
  std::optional<wire::Refused> rank_objection(const event::Joined& e);
  bool reattach(const event::Joined& e);
  void replace_lost_twin(const wire::Hello& hello, const Link& link);
  void learn(const wire::Hello& hello);

  void lose(MemberId id, std::string how, bool silent);
  void depart(MemberId id, const std::string& sentence);
  void check_done();
  [[nodiscard]] Duration rejoin_limit() const;
  void begin_gathering(bool first);
  void stop_round(std::string reason, const std::optional<Failure>& cause);
  void end_stopping_if_all_stopped();
  std::optional<Failure> root_cause() const;
  bool old_round_accounted_for() const;
  void start_if_possible();
  void let_newcomer_in();
  void start(const std::vector<MemberId>& ranked);
  void close(Outcome outcome, int exit_code, std::string reason, std::optional<Failure> root);
  wire::Close close_for(const CoordinatorMember& m) const;
  void settle();
  void tell_spares();
  void tell_waiting();
  int live_in_round() const;
  Time next_wake() const;

  const CoordinatorConfig& config_;
  CoordinatorState s_;
  Time now_;
  std::vector<CoordinatorAction> actions_;
};

/// The host last: when it has its message it may end, and we with it.
std::vector<MemberId> Decider::told_order() const {
  std::vector<MemberId> ids;
  for (const auto& [id, m] : s_.members) {
    if (m.connected) ids.push_back(id);
  }
  std::stable_partition(ids.begin(), ids.end(), [&](MemberId id) { return !s_.members.at(id).link.host; });
  return ids;
}

// --- members come and go ---

std::optional<wire::Refused> Decider::objection(const event::Joined& e) const {
  const wire::Hello& h = e.hello;
  const auto refuse = [](int code, std::string sentence) {
    return wire::Refused{code, false, std::move(sentence)};
  };
  const auto differ = [&](const char* what, const std::string& ours, const std::string& theirs) {
    return refuse(kRefused, std::string(what) + " differs: this node has " + theirs + ", the job has " +
                                ours + "; start all nodes with the same options");
  };
  const auto sizes = [](int min, int max) { return std::to_string(min) + ":" + std::to_string(max); };
  if (h.version_major != wire::kVersionMajor) {
    return refuse(kRefused, "wrong version: this node speaks rendezvous protocol " +
                                std::to_string(h.version_major) + ", the job " +
                                std::to_string(wire::kVersionMajor));
  }
  if (h.run_id != config_.run_id && s_.phase == Phase::Closed) {
    return wire::Refused{kRefused, true,
                         "the port is still held by job '" + config_.run_id + "', which has ended"};
  }
  if (h.run_id != config_.run_id) {
    return refuse(kRefused, "wrong run id: this node has '" + h.run_id + "', the job at this endpoint has '" +
                                config_.run_id + "' (--rdzv-id)");
  }
  if (h.exact_rank != config_.exact_ranks) {
    return differ("--rdzv-backend", config_.exact_ranks ? "static" : "c10d",
                  h.exact_rank ? "static" : "c10d");
  }
  if (h.nnodes_min != config_.nnodes_min || h.nnodes_max != config_.nnodes_max) {
    return differ("--nnodes", sizes(config_.nnodes_min, config_.nnodes_max),
                  sizes(h.nnodes_min, h.nnodes_max));
  }
  if (h.max_restarts != config_.max_restarts) {
    return differ("--max-restarts", std::to_string(config_.max_restarts), std::to_string(h.max_restarts));
  }
  if (h.agent_store != config_.agent_store) {
    return differ("--worker-store", config_.agent_store ? "agent" : "none", h.agent_store ? "agent" : "none");
  }
  if (h.local_world_size < 1 || h.local_world_size > limits::kWorkersPerNodeMax) {
    return refuse(kUsage, "--nproc-per-node " + std::to_string(h.local_world_size) + " is out of range");
  }
  if (s_.members.size() >= static_cast<std::size_t>(limits::kNodesMax))
    return refuse(kRefused, "too many nodes");
  return std::nullopt;
}

std::optional<wire::Refused> Decider::rank_objection(const event::Joined& e) {
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
bool Decider::reattach(const event::Joined& e) {
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
void Decider::replace_lost_twin(const wire::Hello& hello, const Link& link) {
  for (const auto& [id, m] : s_.members) {
    const bool same_node =
        m.hello.host_name == hello.host_name && m.link.member_address == link.member_address;
    if (same_node && !m.connected) return lose(id, "was started anew", false);
  }
}

/// A fresh coordinator goes on where the members' last one stopped.
void Decider::learn(const wire::Hello& hello) {
  if (hello.epoch >= s_.epoch) s_.epoch = hello.epoch + 1;
  if (!s_.any_round) {
    // Others of that round may still stop their workers, out of our sight: they get the time of a lost node.
    if (s_.round < 0 && hello.round >= 0)
      s_.fence_until = std::max(s_.fence_until, now_ + fence_timeout(config_.timeouts));
    s_.round = std::max(s_.round, hello.round);
    s_.restarts = std::max(s_.restarts, std::min(hello.restart_count, config_.max_restarts));
  }
}

void Decider::on(const event::Joined& e) {
  if (reattach(e)) return;
  replace_lost_twin(e.hello, e.link);
  auto refused = objection(e);
  if (!refused && s_.phase != Phase::Closed) refused = rank_objection(e);
  if (refused) {
    note("refused " + e.hello.host_name + " (" + e.link.member_address + "): " + refused->sentence);
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

void Decider::on(const event::Ready& e) {
  CoordinatorMember* m = find(e.id);
  if (m == nullptr || s_.phase == Phase::Closed) return;
  if (m->in_round && (s_.phase == Phase::Running || e.ready.round < s_.round)) return;
  m->ready = true;
  m->store_port = e.ready.store_port;
}

void Decider::on(const event::Failed& e) {
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

void Decider::on(const event::Done& e) {
  CoordinatorMember* m = find(e.id);
  if (m == nullptr || !m->in_round || e.round != s_.round) return;
  if (s_.phase == Phase::Running || s_.phase == Phase::Stopping) m->done = true;
}

void Decider::on(const event::Left& e) {
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

void Decider::on(const event::Cut& e) {
  CoordinatorMember* m = find(e.id);
  if (m == nullptr || !m->connected) return;
  if (m->link.direct && !m->hello.proxied) return lose(e.id, "is gone: its process ended", false);
  m->connected = false;
  m->lost_at = now_ + config_.timeouts.rejoin_grace;
}

void Decider::on(const event::Silent& e) {
  CoordinatorMember* m = find(e.id);
  if (m == nullptr || !m->connected) return;
  actions_.push_back(action::Drop{e.id});
  const auto silence = config_.timeouts.keep_alive_interval * config_.timeouts.keep_alive_max_attempt;
  lose(e.id, "is lost: nothing heard for " + text(silence), true);
}

/// `silent`: its process may still run somewhere; no round starts before it must have stopped itself.
void Decider::lose(MemberId id, std::string how, bool silent) {
  const CoordinatorMember m = *find(id);
  if (silent && m.in_round) s_.fence_until = std::max(s_.fence_until, now_ + fence_timeout(config_.timeouts));
  if (s_.phase != Phase::Closed) note(name_of(m) + " " + how);
  depart(id, name_of(m) + " " + how);
  s_.members.erase(id);
}

/// The member is about to be forgotten: what that means for the round.
void Decider::depart(MemberId id, const std::string& sentence) {
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

// --- rounds ---

int Decider::live_in_round() const {
  return static_cast<int>(std::count_if(s_.members.begin(), s_.members.end(),
                                        [](const auto& entry) { return entry.second.in_round; }));
}

/// How long a job that ran already waits for its missing nodes.
Duration Decider::rejoin_limit() const {
  const auto& t = config_.timeouts;
  const bool restart_left = s_.restarts < config_.max_restarts;
  return t.rejoin.value_or(restart_left ? t.join : std::chrono::milliseconds(30s));
}

void Decider::begin_gathering(bool first) {
  s_.phase = Phase::Gathering;
  s_.gather_deadline = now_ + (first ? Duration(config_.timeouts.join) : rejoin_limit());
  s_.last_call_until = Time::max();
  s_.notice_key = 0;
  s_.notice_gap = kNoticeGapFirst;
  s_.notice_at = now_ + kFirstNotice;
}

void Decider::stop_round(std::string reason, const std::optional<Failure>& cause) {
  assert(s_.phase == Phase::Running);
  s_.phase = Phase::Stopping;
  s_.stop_since = now_;
  s_.stop_by_failure = cause.has_value();
  s_.stop_reason = std::move(reason);
  s_.stop_cause = cause;
  note("round " + std::to_string(s_.round) + " stops: " + s_.stop_reason);
  for (const MemberId id : told_order()) {
    CoordinatorMember& m = *find(id);
    if (!m.in_round) continue;
    m.ready = false;  // also one that never started it: it answers the stop at once
    send(id, wire::Stop{s_.epoch, s_.round, s_.stop_reason, cause});
  }
}

/// What the stop is charged to: the failure that came first, by the time it happened, unless a departure
/// explains it.
std::optional<Failure> Decider::root_cause() const {
  const bool departed = !s_.departures.empty() || !s_.done_departures.empty();
  const Report* first = nullptr;
  for (const Report& r : s_.reports) {
    const bool own_record = r.failure.own_exception || r.failure.outside_signal;
    const bool of_departed = std::any_of(s_.departures.begin(), s_.departures.end(),
                                         [&](const Departure& d) { return d.id == r.from; });
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

void Decider::end_stopping_if_all_stopped() {
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
  if (root && s_.restarts >= config_.max_restarts) {
    const std::string budget = config_.max_restarts == 0
                                   ? ""
                                   : " (restart " + std::to_string(s_.restarts) + " of " +
                                         std::to_string(config_.max_restarts) + " was the last)";
    return close(Outcome::Failed, failure_code(*root), failure_text(*root) + budget, root);
  }
  if (root) ++s_.restarts;
  s_.gather_reason = root                    ? failure_text(*root)
                     : s_.departures.empty() ? s_.stop_reason
                                             : s_.departures.front().sentence;
  note("round " + std::to_string(s_.round) + " has ended: " + s_.gather_reason +
       (root ? "; restart " + std::to_string(s_.restarts) + " of " + std::to_string(config_.max_restarts)
             : "; spends no restart"));
  begin_gathering(false);
}

/// A fresh coordinator: is everybody here who was in the round before it? All but the one that hosted.
bool Decider::old_round_accounted_for() const {
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

void Decider::start_if_possible() {
  if (s_.phase != Phase::Gathering) return;
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
      close(Outcome::NodesMissing, kClosedMissing,
            "only " + std::to_string(n) + " of " + std::to_string(config_.nnodes_min) +
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
void Decider::let_newcomer_in() {
  if (s_.phase != Phase::Running || live_in_round() >= config_.nnodes_max || !s_.done_departures.empty())
    return;
  const CoordinatorMember* newcomer = nullptr;
  for (const auto& [id, m] : s_.members) {
    if (m.done) return;
    if (newcomer == nullptr && !m.in_round && m.ready && m.connected) newcomer = &m;
  }
  if (newcomer != nullptr) stop_round(name_of(*newcomer) + " joined", std::nullopt);
}

void Decider::start(const std::vector<MemberId>& ranked) {
  s_.phase = Phase::Running;
  ++s_.round;
  s_.any_round = true;
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
    m.in_round = true;
    m.ready = m.told_spare = false;
    m.group_rank = static_cast<int>(i);
    send(ranked[i],
         wire::Start{s_.epoch, all[i], i == 0 ? admitted(s_, ranked) : std::vector<std::string>{}});
  }
  note("round " + std::to_string(s_.round) + " starts with " + std::to_string(ranked.size()) + " nodes");
}

void Decider::check_done() {
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

wire::Close Decider::close_for(const CoordinatorMember& m) const {
  wire::Close out = *s_.close;
  if (!m.in_round && s_.any_round &&
      out.outcome != Outcome::Interrupted) {  // a spare: it did its part by waiting
    out.exit_code = 0;
  }
  return out;
}

void Decider::close(Outcome outcome, int exit_code, std::string reason, std::optional<Failure> root) {
  note("the job has ended: " + reason);
  s_.close = wire::Close{s_.epoch, outcome, exit_code, std::move(reason), std::move(root)};
  s_.phase = Phase::Closed;
  // Below MIN nobody is in a round any more, yet all of them share the outcome.
  const bool all_alike = outcome == Outcome::NodesMissing;
  for (const MemberId id : told_order()) {
    CoordinatorMember m = *find(id);
    m.in_round = m.in_round || all_alike;
    send(id, close_for(m));
  }
}

// --- fences ---

void Decider::on(const event::FencePart& e) {
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

void Decider::on(const event::Suspended& e) {
  if (CoordinatorMember* m = find(e.id)) m->suspended = e.suspended;
}

// --- after each event ---

void Decider::settle() {
  std::vector<MemberId> expired;
  for (const auto& [id, m] : s_.members) {
    if (!m.connected && now_ >= m.lost_at) expired.push_back(id);
  }
  for (const MemberId id : expired) lose(id, "is lost: it did not come back in time", true);
  check_done();
  end_stopping_if_all_stopped();
  start_if_possible();
  let_newcomer_in();
  tell_spares();
  tell_waiting();
}

/// Who came beyond MAX waits without a word otherwise.
void Decider::tell_spares() {
  if (s_.phase != Phase::Running) return;
  for (auto& [id, m] : s_.members) {
    if (m.in_round || !m.ready || !m.connected || std::exchange(m.told_spare, true)) continue;
    send(id,
         wire::Notice{"round " + std::to_string(s_.round) + " runs on " + std::to_string(live_in_round()) +
                      " nodes, as many as it may have; this node is a spare and steps in when one goes"});
  }
}

void Decider::tell_waiting() {
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

Time Decider::next_wake() const {
  if (s_.phase == Phase::Closed) return Time::max();
  Time wake = Time::max();
  for (const auto& [id, m] : s_.members) wake = std::min(wake, m.lost_at);
  if (s_.phase == Phase::Gathering) {
    const Time decide_at = s_.last_call_until != Time::max() ? s_.last_call_until : s_.gather_deadline;
    // A decision that is due and not taken waits for an event.
    for (const Time at : {s_.notice_at, decide_at, s_.fence_until}) {
      if (at > now_) wake = std::min(wake, at);
    }
  }
  return wake;
}

CoordinatorStep Decider::finish() {
  settle();
  const Time wake = next_wake();
  return CoordinatorStep{std::move(s_), std::move(actions_), wake};
}

}  // namespace

CoordinatorConfig coordinator_config(const Config& config) {
  CoordinatorConfig out;
  out.run_id = config.run_id;
  out.exact_ranks = config.backend == BackendKind::Static;
  out.nnodes_max = config.nnodes_max;
  out.nnodes_min = out.exact_ranks ? config.nnodes_max : config.nnodes_min;  // as torchrun: only MAX counts
  out.max_restarts = config.max_restarts;
  out.agent_store = config.agent_store;
  if (out.exact_ranks) out.fixed_master = config.endpoint;
  out.timeouts = config.timeouts;
  return out;
}

CoordinatorStep step(const CoordinatorConfig& config, CoordinatorState state, const CoordinatorEvent& event,
                     Time now) {
  Decider decider(config, std::move(state), now);
  std::visit([&](const auto& e) { decider.on(e); }, event);
  return decider.finish();
}

Duration fence_timeout(const Timeouts& t) { return t.keep_alive_interval * t.keep_alive_max_attempt + 1s; }

}  // namespace cxxrun::rendezvous
