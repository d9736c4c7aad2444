// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/time.hpp"
#include "rendezvous/config.hpp"
#include "rendezvous/member.hpp"
#include "rendezvous/message.hpp"

/// An agent's side of the rendezvous, without I/O or clock: when to look for the coordinator, what to tell
/// it, and what a lost connection means.
namespace cxxrun::rendezvous {

struct MemberConfig {
  wire::Hello hello;  ///< what does not change; the rest is filled in for each connection
  Timeouts timeouts;
  int max_restarts = 0;
  std::string endpoint;  ///< for sentences
};

enum class MemberPhase {
  Idle,      ///< before the first ready
  Looking,   ///< no connection
  Greeting,  ///< connected, hello sent
  Joined,    ///< welcome
  Ended,     ///< closed, refused, or left
};

namespace member_event {
struct AgentReady {
  std::uint16_t store_port = 0;
};
struct AgentFailed {
  Failure failure;
};
struct AgentDone {
  std::int64_t round = 0;
};
struct AgentGoesAway {
  std::string sentence;
};
struct AgentSuspended {
  bool suspended = false;
};
struct AgentFences {
  std::string name;
  std::string blob;
};
struct AgentLeaves {
  Leaving why = Leaving::Politely;
  std::string sentence;
  Duration limit{0};
};
/// The connection stands and may carry a hello. Own view of it, "ADDRESS PORT"; `advertise` numeric, may be
/// empty.
struct Connected {
  std::string own_local;
  std::string own_remote;
  std::string advertise;
  std::vector<std::string> interface_addresses;
};
/// `exit_code` not 0: trying again is useless.
struct AttemptFailed {
  std::string sentence;
  int exit_code = 0;
};
struct Received {
  wire::Message message;
};
/// `proven`: FIN or RST; else a time-out of TCP. `sentence`: how.
struct Disconnected {
  bool proven = true;
  std::string sentence;
};
struct Tick {};
}  // namespace member_event

using MemberCoreEvent =
    std::variant<member_event::AgentReady, member_event::AgentFailed, member_event::AgentDone,
                 member_event::AgentGoesAway, member_event::AgentSuspended, member_event::AgentFences,
                 member_event::AgentLeaves, member_event::Connected, member_event::AttemptFailed,
                 member_event::Received, member_event::Disconnected, member_event::Tick>;

namespace member_action {
struct Attempt {};  ///< find the coordinator and connect; answer: Connected or AttemptFailed
struct Send {
  wire::Message message;
};
struct HangUp {};  ///< close the connection or the attempt; no Disconnected comes
struct Deliver {
  MemberEvent event;
};
struct Left {};  ///< the goodbye is done
}  // namespace member_action

using MemberAction = std::variant<member_action::Attempt, member_action::Send, member_action::HangUp,
                                  member_action::Deliver, member_action::Left>;

struct MemberState {
  MemberPhase phase = MemberPhase::Idle;
  bool ready = false;       ///< the agent is, since its last Stopped
  bool told_ready = false;  ///< the hello of this connection said ready
  bool running = false;     ///< Started was delivered, and no Stopped since
  std::uint16_t store_port = 0;
  std::int64_t epoch = 0;
  std::int64_t round = -1;
  int round_size = 0;  ///< nodes of it
  int restart_count = 0;
  std::vector<Failure> failures;  ///< of this round, told again after a new connection
  bool done = false;
  bool suspended = false;
  std::optional<std::string> going_away;        ///< said that it will leave; why
  std::map<std::string, std::string> fences;    ///< our parts that were not answered, by name
  std::map<std::string, Fenced> partly_fenced;  ///< answers of which some messages came

  bool attempting = false;
  bool hang_up_first =
      false;  ///< a silent connection is still open: its end would say that our workers are gone
  bool ever_joined = false;
  Time look_until = Time::max();
  Time look_since = Time::max();
  Time next_attempt = Time::max();
  Duration retry_delay{0};
  Time greet_until = Time::max();
  Time grace_until = Time::max();  ///< Looking with running workers: then they stop
  std::string last_error;
  std::set<std::string> said;               ///< each error once
  std::optional<wire::Close> ended_before;  ///< told that the job had ended: look for a new one, else this

  bool hosted = true;  ///< from welcome
  bool direct = true;
  Duration keep_alive{1s};
  Duration silence_max{4s};
  Time heard = Time::max();
  Time next_keep_alive = Time::max();

  bool leaving = false;
  Time leave_until = Time::max();
};

struct MemberStep {
  MemberState state;
  std::vector<MemberAction> actions;
  Time wake_at = Time::max();
};

/// Whether a round takes this part of a fence: sizes, and that a round runs.
[[nodiscard]] Result<> fence_possible(bool running, std::string_view name, std::string_view blob);

/// Pure. The shell carries the actions out in order.
[[nodiscard]] MemberStep step(const MemberConfig& config, MemberState state, const MemberCoreEvent& event,
                              Time now);

}  // namespace cxxrun::rendezvous
