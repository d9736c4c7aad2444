// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/member_core.hpp"

#include <algorithm>
#include <utility>

#include "base/limits.hpp"

namespace cxxrun::rendezvous {
namespace {

constexpr Duration kRetryFirst = 1ms;  // a host that starts at the same moment is up within a few
constexpr Duration kRetryMax = 1s;
constexpr Duration kQuietAtFirst = 1s;    // errors of the first moment are how jobs start
constexpr std::size_t kFailuresMax = 64;  // told again; the first ones matter
constexpr std::size_t kSaidMax = 64;
constexpr int kRefusedCode = 69;
constexpr int kMissingCode = 75;

class Decider {
 public:
  Decider(const MemberConfig& config, MemberState state, Time now)
      : config_(config), s_(std::move(state)), now_(now) {}

  void on(const member_event::AgentReady& e);
  void on(const member_event::AgentFailed& e);
  void on(const member_event::AgentDone& e);
  void on(const member_event::AgentGoesAway& e);
  void on(const member_event::AgentSuspended& e);
  void on(const member_event::AgentFences& e);
  void on(const member_event::AgentLeaves& e);
  void on(const member_event::Connected& e);
  void on(const member_event::AttemptFailed& e);
  void on(const member_event::Received& e);
  void on(const member_event::Disconnected& e);
  void on(const member_event::Tick&) {}
  MemberStep finish();

 private:
  void receive(const wire::Welcome& m);
  void receive(const wire::Refused& m);
  void receive(const wire::Notice& m) { deliver(Waiting{m.sentence}); }
  void receive(const wire::Start& m);
  void receive(const wire::Stop& m);
  void receive(const wire::Close& m);
  void receive(const wire::Goodbye&);
  void receive(const wire::Fenced& m);
  template <class Other>
  void receive(const Other&) {}  // keep-alives only prove life; the rest is for coordinators

  void send(wire::Message message) { actions_.push_back(member_action::Send{std::move(message)}); }
  void deliver(MemberEvent event) { actions_.push_back(member_action::Deliver{std::move(event)}); }
  void say_once(const std::string& sentence);
  void look(Duration limit);
  void lost_connection(bool proven, const std::string& how);
  void stop_workers(const std::string& why);
  void attempt_failed(const std::string& sentence);
  void give_up();
  void end(Closed closed);
  Duration rejoin_limit() const;
  void due();
  Time next_wake() const;

  const MemberConfig& config_;
  MemberState s_;
  Time now_;
  std::vector<MemberAction> actions_;
};

// --- the agent ---

void Decider::on(const member_event::AgentReady& e) {
  if (s_.phase == MemberPhase::Ended) return;
  s_.ready = true;
  s_.running = false;
  s_.done = false;
  s_.failures.clear();
  s_.suspended = false;  // nothing is left that could sleep
  s_.store_port = e.store_port;
  s_.grace_until = Time::max();
  if (s_.phase == MemberPhase::Idle) return look(config_.timeouts.join);
  if (s_.phase == MemberPhase::Looking) return look(s_.ever_joined ? rejoin_limit() : config_.timeouts.join);
  if (s_.phase == MemberPhase::Joined) send(wire::Ready{s_.round, s_.store_port});
}

void Decider::on(const member_event::AgentFailed& e) {
  if (s_.phase == MemberPhase::Ended || !s_.running) return;
  if (s_.failures.size() < kFailuresMax) s_.failures.push_back(e.failure);
  if (s_.phase == MemberPhase::Joined) send(wire::Failed{e.failure});
}

void Decider::on(const member_event::AgentDone& e) {
  if (s_.phase == MemberPhase::Ended || !s_.running || e.round != s_.round) return;
  s_.done = true;
  if (s_.phase == MemberPhase::Joined) send(wire::Done{e.round});
}

void Decider::on(const member_event::AgentGoesAway& e) {
  if (s_.phase == MemberPhase::Ended || s_.going_away) return;
  s_.going_away = e.sentence;
  if (s_.phase == MemberPhase::Joined) send(wire::GoingAway{e.sentence});
}

void Decider::on(const member_event::AgentSuspended& e) {
  if (s_.phase == MemberPhase::Ended || s_.suspended == e.suspended) return;
  s_.suspended = e.suspended;
  if (s_.phase == MemberPhase::Joined) send(wire::Suspended{e.suspended});
}

void Decider::on(const member_event::AgentFences& e) {
  if (!fence_possible(s_.running, e.name, e.blob)) return;
  s_.fences[e.name] = e.blob;
  if (s_.phase == MemberPhase::Joined) send(wire::Fence{s_.round, e.name, e.blob});
}

void Decider::on(const member_event::AgentLeaves& e) {
  s_.leaving = true;
  if (s_.phase == MemberPhase::Joined) {
    s_.leave_until = now_ + e.limit;
    return send(wire::Leave{e.why, e.sentence});
  }
  actions_.push_back(member_action::HangUp{});
  actions_.push_back(member_action::Left{});
  s_.phase = MemberPhase::Ended;
}

// --- looking for the coordinator ---

void Decider::look(Duration limit) {
  s_.phase = MemberPhase::Looking;
  s_.look_since = now_;
  s_.look_until = now_ + limit;
  s_.retry_delay = kRetryFirst;
  s_.next_attempt = now_;
}

/// 30 s where no restart is left: nobody waits long for a job that may not restart anyway.
Duration Decider::rejoin_limit() const {
  const bool restart_left = s_.restart_count < config_.max_restarts;
  return config_.timeouts.rejoin.value_or(restart_left ? config_.timeouts.join
                                                       : std::chrono::milliseconds(30s));
}

void Decider::say_once(const std::string& sentence) {
  if (s_.said.size() < kSaidMax && s_.said.insert(sentence).second) deliver(Waiting{sentence});
}

void Decider::on(const member_event::AttemptFailed& e) {
  if (s_.phase != MemberPhase::Looking) return;
  s_.attempting = false;
  if (e.exit_code != 0) return end(Closed{Outcome::Refused, e.exit_code, e.sentence, std::nullopt});
  attempt_failed(e.sentence);
}

void Decider::attempt_failed(const std::string& sentence) {
  s_.last_error = sentence;
  s_.attempting = false;
  if (now_ - s_.look_since >= kQuietAtFirst)
    say_once(s_.ended_before ? "the job at " + config_.endpoint +
                                   " had ended before this node came; looking for a new one there for " +
                                   text(config_.timeouts.close) + " (--rdzv-conf close_timeout=SECONDS)"
                             : sentence);
  s_.next_attempt = now_ + s_.retry_delay;
  s_.retry_delay = std::min(s_.retry_delay * 2, kRetryMax);
}

void Decider::on(const member_event::Connected& e) {
  if (s_.phase != MemberPhase::Looking) return;
  s_.attempting = false;
  s_.phase = MemberPhase::Greeting;
  s_.greet_until = now_ + limits::kHelloTimeout;
  wire::Hello hello = config_.hello;
  hello.own_local = e.own_local;
  hello.own_remote = e.own_remote;
  hello.advertise = e.advertise;
  hello.interface_addresses = e.interface_addresses;
  hello.ready = s_.told_ready = s_.ready;
  hello.store_port = s_.store_port;
  hello.epoch = s_.epoch;
  hello.round = s_.round;
  hello.round_size = s_.round_size;
  hello.restart_count = s_.restart_count;
  hello.running = s_.running;
  send(std::move(hello));
}

void Decider::give_up() {
  if (s_.ended_before) {
    const wire::Close& m = *s_.ended_before;
    return end(Closed{m.outcome, m.exit_code, "the job had ended before this node came: " + m.reason,
                      m.root_cause, m.no_restart});
  }
  const std::string last =
      s_.last_error.empty() ? "; no answer from it: the host is down, or its packets are dropped on the way"
                            : "; last: " + s_.last_error;
  const std::string waited = text(s_.look_until - s_.look_since);
  if (s_.ever_joined) {
    return end(Closed{Outcome::NodesMissing, kMissingCode,
                      "the rendezvous at " + config_.endpoint + " did not come back within " + waited +
                          " (--rdzv-conf rejoin_timeout=SECONDS)" + last,
                      std::nullopt});
  }
  end(Closed{Outcome::Refused, kRefusedCode,
             "no rendezvous at " + config_.endpoint + " within " + waited +
                 " (--rdzv-conf join_timeout=SECONDS)" + last,
             std::nullopt});
}

void Decider::end(Closed closed) {
  s_.phase = MemberPhase::Ended;
  s_.running = false;
  actions_.push_back(member_action::HangUp{});
  deliver(std::move(closed));
  if (s_.leaving) actions_.push_back(member_action::Left{});
}

// --- what the coordinator says ---

void Decider::on(const member_event::Received& e) {
  if (s_.phase != MemberPhase::Greeting && s_.phase != MemberPhase::Joined) return;
  s_.heard = now_;
  std::visit([&](const auto& m) { receive(m); }, e.message);
}

void Decider::receive(const wire::Welcome& m) {
  if (s_.phase != MemberPhase::Greeting) return;
  if (m.version_major != wire::kVersionMajor) {
    return end(Closed{Outcome::Refused, kRefusedCode,
                      "wrong version: the rendezvous speaks protocol " + std::to_string(m.version_major) +
                          ", this node " + std::to_string(wire::kVersionMajor),
                      std::nullopt});
  }
  s_.phase = MemberPhase::Joined;
  s_.hosted = m.hosted;
  s_.direct = m.direct;
  s_.keep_alive = std::chrono::milliseconds(m.keep_alive_interval_ms);
  s_.silence_max = s_.keep_alive * m.keep_alive_max_attempt;
  s_.heard = now_;
  s_.next_keep_alive = now_ + s_.keep_alive;
  s_.grace_until = Time::max();
  if (s_.ready && !s_.told_ready) send(wire::Ready{s_.round, s_.store_port});
  if (s_.suspended) send(wire::Suspended{true});
  if (s_.going_away) send(wire::GoingAway{*s_.going_away});
  s_.partly_fenced.clear();
  if (s_.running) {  // what was said into the lost connection may be lost with it
    for (const auto& failure : s_.failures) send(wire::Failed{failure});
    if (s_.done) send(wire::Done{s_.round});
    for (const auto& [name, blob] : s_.fences) send(wire::Fence{s_.round, name, blob});
  }
}

void Decider::receive(const wire::Refused& m) {
  if (!m.retry) return end(Closed{Outcome::Refused, m.exit_code, m.sentence, std::nullopt});
  actions_.push_back(member_action::HangUp{});
  s_.phase = MemberPhase::Looking;
  attempt_failed(m.sentence);
}

void Decider::receive(const wire::Start& m) {
  if (s_.phase != MemberPhase::Joined || !s_.ready) return;
  if (std::pair(m.epoch, m.world.round) <= std::pair(s_.epoch, s_.round)) return;
  s_.ever_joined = true;
  s_.epoch = m.epoch;
  s_.round = m.world.round;
  s_.round_size = m.world.group_world_size;
  s_.restart_count = m.world.restart_count;
  s_.ready = false;
  s_.running = true;
  s_.ended_before.reset();
  s_.fences.clear();
  s_.partly_fenced.clear();
  deliver(Started{m.world, m.admit});
}

void Decider::receive(const wire::Stop& m) {
  if (s_.phase != MemberPhase::Joined || std::pair(m.epoch, m.round) < std::pair(s_.epoch, s_.round)) return;
  s_.epoch = m.epoch;
  s_.round = m.round;
  if (s_.running) {
    s_.running = false;
    if (!s_.going_away) deliver(Stopped{m.round, m.reason, m.cause});  // else it stops them already
  } else if (s_.ready) {
    send(wire::Ready{s_.round, s_.store_port});  // never started it: stopped already
  }
}

void Decider::receive(const wire::Close& m) {
  if (!m.late) return end(Closed{m.outcome, m.exit_code, m.reason, m.root_cause, m.no_restart});
  actions_.push_back(member_action::HangUp{});
  if (!s_.ended_before) look(config_.timeouts.close);
  s_.phase = MemberPhase::Looking;
  s_.ended_before = m;
  attempt_failed("the job at " + config_.endpoint + " has ended");
}

void Decider::receive(const wire::Goodbye&) {
  if (!s_.leaving) return;
  s_.phase = MemberPhase::Ended;
  actions_.push_back(member_action::HangUp{});
  actions_.push_back(member_action::Left{});
}

void Decider::receive(const wire::Fenced& m) {
  if (!s_.running || m.round != s_.round || !s_.fences.contains(m.name)) return;
  Fenced& all = s_.partly_fenced[m.name];
  all.error = m.error;
  if (m.first == 0) all.blobs.clear();
  if (m.error.empty()) {
    std::size_t bytes = 0;
    for (const auto& blob : all.blobs) bytes += blob.size();
    for (const auto& blob : m.blobs) bytes += blob.size();
    if (static_cast<int>(all.blobs.size()) != m.first || bytes > limits::kFenceBytesMax) return;
    all.blobs.insert(all.blobs.end(), m.blobs.begin(), m.blobs.end());
    if (static_cast<int>(all.blobs.size()) < m.total) return;
  }
  all.round = m.round;
  all.name = m.name;
  Fenced out = std::move(all);
  s_.partly_fenced.erase(m.name);
  s_.fences.erase(m.name);
  deliver(std::move(out));
}

// --- losing it ---

void Decider::on(const member_event::Disconnected& e) {
  if (s_.phase == MemberPhase::Greeting) {
    s_.phase = MemberPhase::Looking;
    return attempt_failed(e.sentence);
  }
  if (s_.phase == MemberPhase::Joined) lost_connection(e.proven, e.sentence);
}

void Decider::lost_connection(bool proven, const std::string& how) {
  if (s_.leaving) {
    s_.phase = MemberPhase::Ended;
    actions_.push_back(member_action::Left{});
    return;
  }
  s_.ever_joined = true;
  look(rejoin_limit());
  s_.last_error = how;
  if (!s_.running) return;
  if (!s_.hosted) {  // it lives elsewhere: healthy workers go on while it can come back
    s_.grace_until = s_.look_until = now_ + config_.timeouts.reconnect;
  } else if (s_.direct && proven) {
    stop_workers("the node that hosts the rendezvous is gone: its process ended");
  } else if (proven) {
    s_.grace_until = now_ + config_.timeouts.rejoin_grace;
  } else {
    stop_workers("the node that hosts the rendezvous is lost: " + how);
  }
}

void Decider::stop_workers(const std::string& why) {
  s_.running = false;
  s_.grace_until = Time::max();
  deliver(Stopped{s_.round, why, std::nullopt});
}

// --- after each event ---

void Decider::due() {
  if (s_.phase == MemberPhase::Joined) {
    if (s_.leaving && now_ >= s_.leave_until) {
      s_.phase = MemberPhase::Ended;
      actions_.push_back(member_action::HangUp{});
      actions_.push_back(member_action::Left{});
    } else if (now_ - s_.heard >= s_.silence_max) {
      // Perhaps only we are deaf. The end of this connection would tell the coordinator that our workers are
      // gone, so it stays open until they are.
      s_.hang_up_first = true;
      s_.phase = MemberPhase::Looking;
      lost_connection(false, "nothing heard for " + text(s_.silence_max));
    } else if (now_ >= s_.next_keep_alive) {
      send(wire::KeepAlive{});
      s_.next_keep_alive = now_ + s_.keep_alive;
    }
  }
  if (s_.phase == MemberPhase::Greeting && now_ >= s_.greet_until) {
    actions_.push_back(member_action::HangUp{});
    s_.phase = MemberPhase::Looking;
    attempt_failed(config_.endpoint + " takes connections but does not answer: not a rendezvous port?");
  }
  if (s_.phase != MemberPhase::Looking) return;
  if (s_.running && now_ >= s_.grace_until)
    return stop_workers("the rendezvous is lost and did not come back in time");
  const bool stopping = !s_.ready && !s_.running;
  if (stopping && s_.hang_up_first) return;
  if (!stopping && now_ >= s_.look_until) {  // the clock starts when the agent is ready
    if (s_.running) return stop_workers("the rendezvous is lost");
    return give_up();
  }
  if (!s_.attempting && now_ >= s_.next_attempt) {
    s_.attempting = true;
    s_.next_attempt = Time::max();
    if (std::exchange(s_.hang_up_first, false)) actions_.push_back(member_action::HangUp{});
    actions_.push_back(member_action::Attempt{});
  }
}

Time Decider::next_wake() const {
  switch (s_.phase) {
    case MemberPhase::Idle:
    case MemberPhase::Ended: return Time::max();
    case MemberPhase::Greeting: return s_.greet_until;
    case MemberPhase::Joined:
      return std::min({s_.leave_until, s_.next_keep_alive, s_.heard + s_.silence_max});
    case MemberPhase::Looking:
      if (!s_.ready && !s_.running) return s_.hang_up_first || s_.attempting ? Time::max() : s_.next_attempt;
      return std::min({s_.grace_until, s_.look_until, s_.attempting ? Time::max() : s_.next_attempt});
  }
  return Time::max();
}

MemberStep Decider::finish() {
  due();
  const Time wake = next_wake();
  return MemberStep{std::move(s_), std::move(actions_), wake};
}

}  // namespace

Result<> fence_possible(bool running, std::string_view name, std::string_view blob) {
  if (!running) return plain_error("a fence needs a running round");
  if (name.empty() || name.size() > limits::kFenceNameBytesMax) {
    return plain_error("the name of a fence has 1 to " + std::to_string(limits::kFenceNameBytesMax) +
                       " bytes");
  }
  if (blob.size() > limits::kFenceBlobBytesMax) {
    return plain_error("a node's part of a fence has at most " + std::to_string(limits::kFenceBlobBytesMax) +
                       " bytes, this one has " + std::to_string(blob.size()));
  }
  return kOk;
}

MemberStep step(const MemberConfig& config, MemberState state, const MemberCoreEvent& event, Time now) {
  Decider decider(config, std::move(state), now);
  std::visit([&](const auto& e) { decider.on(e); }, event);
  return decider.finish();
}

}  // namespace cxxrun::rendezvous
