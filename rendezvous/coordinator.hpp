// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bitset>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/time.hpp"
#include "rendezvous/config.hpp"
#include "rendezvous/message.hpp"

/// The coordinator's decisions, without I/O or clock: membership, rounds, cause and cost of a stop, the end.
namespace cxxrun::rendezvous {

/// One member, as the shell knows it: a number per agent that said hello, never used twice.
using MemberId = std::uint64_t;

/// What all nodes of the job must agree on, and the limits.
struct CoordinatorConfig {
  std::string run_id;
  int nnodes_min = 1;
  int nnodes_max = 1;
  int max_restarts = 0;
  std::bitset<256> hopeless_codes;  ///< no restart after these
  bool exact_ranks = false;         ///< static: node ranks are given, not chosen
  bool hosted = true;               ///< lives in a member of the job
  bool agent_store = true;
  std::optional<Endpoint>
      fixed_master;  ///< static: MASTER_ADDR and MASTER_PORT exactly as the user gave them
  Timeouts timeouts;
};

/// The coordinator's config that follows from the agent's.
[[nodiscard]] CoordinatorConfig coordinator_config(const Config& config);

/// What the shell saw of a member's connection. Addresses numeric, without port.
struct Link {
  std::string member_address;  ///< where it comes from
  std::string server_address;  ///< our address that it reached
  bool direct =
      true;  ///< both ends see the same addresses: the end of the connection is the end of the process
  bool host = false;  ///< the member whose process we live in, or that owns the endpoint
};

namespace event {
struct Joined {
  MemberId id = 0;
  wire::Hello hello;
  Link link;
};
struct Ready {
  MemberId id = 0;
  wire::Ready ready;
};
struct Failed {
  MemberId id = 0;
  Failure failure;
};
struct Done {
  MemberId id = 0;
  std::int64_t round = 0;
};
struct Left {
  MemberId id = 0;
  wire::Leave leave;
};
struct GoingAway {
  MemberId id = 0;
  wire::GoingAway going;
};
/// The last that its keep-alives said of its memory.
struct LastMemory {
  MemoryUse use;
  Time at = Time::min();
};
struct Cut {
  MemberId id = 0;
  LastMemory memory{};
};  ///< FIN or RST without a goodbye
struct Silent {
  MemberId id = 0;
  LastMemory memory{};
};  ///< nothing heard for keep-alive interval x attempts, or a time-out of TCP
struct FencePart {
  MemberId id = 0;
  wire::Fence fence;
};
struct Suspended {
  MemberId id = 0;
  bool suspended = false;
};
struct Tick {};
}  // namespace event

using CoordinatorEvent =
    std::variant<event::Joined, event::Ready, event::Failed, event::Done, event::Left, event::GoingAway,
                 event::Cut, event::Silent, event::FencePart, event::Suspended, event::Tick>;

namespace action {
struct Send {
  MemberId to = 0;
  wire::Message message;
};
struct Drop {
  MemberId id = 0;
};  ///< close its connection when all was sent
struct Rename {
  MemberId connection = 0;
  MemberId id = 0;
};  ///< this connection belongs to a member known before
/// A decision, for the log. `told`: the members hear it in other words, so their consoles have it already.
/// `stranger`: somebody outside the job can cause it as often as he likes.
struct Note {
  std::string sentence;
  bool told = false;
  bool stranger = false;
};
}  // namespace action

using CoordinatorAction = std::variant<action::Send, action::Drop, action::Rename, action::Note>;

enum class Phase { Gathering, Running, Stopping, Closed };

struct CoordinatorMember {
  MemberId id = 0;
  wire::Hello hello;
  Link link;
  bool connected = true;
  bool ready = false;
  bool suspended = false;
  bool in_round = false;           ///< of the current or last round
  bool told_spare = false;         ///< knows that the round goes on without it
  bool ever_ran = false;           ///< was in a round of this coordinator
  Time going_since = Time::max();  ///< said that it stops its workers and leaves
  bool done = false;               ///< all its workers of this round exited 0
  event::LastMemory memory{};      ///< known when its connection was lost
  std::uint16_t store_port = 0;
  int group_rank = -1;         ///< of the last round it was in; kept while it stays
  Time lost_at = Time::max();  ///< not connected: from here on it is lost
};

/// One failure report, with the time at which it happened on the coordinator's clock: receipt minus age.
struct Report {
  MemberId from = 0;
  Failure failure;
  Time happened;
};

/// A member of the round that went before the round's end.
struct Departure {
  MemberId id = 0;
  std::string sentence;
  Time seen;
  Time announced = Time::max();  ///< said before that it would go: what fails there after that is no cause
};

/// A fence of the running round.
struct FenceState {
  std::uint64_t number = 0;          ///< in order of their first parts
  std::map<int, std::string> parts;  ///< by group rank
  bool complete = false;             ///< kept, for a member whose connection was lost meanwhile
  std::string error;                 ///< not empty: too large
};

struct CoordinatorState {
  Phase phase = Phase::Gathering;
  std::int64_t epoch = 1;
  std::int64_t round = -1;  ///< last started by us, or heard of
  bool any_round = false;   ///< we started one
  int round_size = 0;       ///< nodes of the round that we started last
  int restarts = 0;         ///< spent by failures
  std::map<MemberId, CoordinatorMember> members;

  Time gather_deadline = Time::max();  ///< Gathering, below MIN: then closed
  Time last_call_until = Time::max();  ///< Gathering, MIN reached in a first round: then start
  Time fence_until = Time::min();      ///< no round before
  std::string gather_reason;

  std::vector<Report> reports;             ///< of this round
  std::vector<Departure> departures;       ///< of this round
  std::vector<Departure> done_departures;  ///< went after all their workers had exited 0
  Time stop_since = Time::max();           ///< Stopping
  bool stop_by_failure = false;
  std::string stop_reason;
  std::optional<Failure> stop_cause;

  std::optional<wire::Close> close;  ///< Closed

  std::map<std::string, FenceState> fences;  ///< of this round, by name
  std::uint64_t fence_serial = 0;

  bool abandoned = false;  ///< our host leaves, and we with it: no round starts any more

  std::uint64_t notice_key = 0;  ///< what the members were told last
  Time notice_at = Time::max();  ///< next time to tell
  Time notice_last = Time::min();
  Duration notice_gap{0};
};

struct CoordinatorStep {
  CoordinatorState state;
  std::vector<CoordinatorAction> actions;
  Time wake_at = Time::max();  ///< send a Tick then
};

/// Pure: same arguments, same result. Events that make no sense in a state change nothing: late ones are
/// normal.
[[nodiscard]] CoordinatorStep step(const CoordinatorConfig& config, CoordinatorState state,
                                   const CoordinatorEvent& event, Time now);

/// What is going on, in one sentence: "2 of 3 nodes joined: a, b; waiting for 1 more, 412 s left; then: exit
/// 75".
[[nodiscard]] std::string sentence(const CoordinatorConfig& config, const CoordinatorState& state, Time now);

/// ", memory at 99.7 % of its limit of 512 MiB 200 ms before: probably out of memory"; empty where that says
/// nothing about a node that is gone.
[[nodiscard]] std::string memory_sentence(const event::LastMemory& memory, Time now);

/// Time that a lost node has for stopping itself.
[[nodiscard]] Duration fence_timeout(const Timeouts& timeouts);

}  // namespace cxxrun::rendezvous
