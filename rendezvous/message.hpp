// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/failure.hpp"
#include "base/result.hpp"
#include "base/world.hpp"
#include "rendezvous/config.hpp"
#include "rendezvous/member.hpp"

/// What agents and coordinator say to each other: one JSON object with `type` per frame (docs/protocol:
/// rendezvous). Unknown types and unknown fields are ignored, so that minor versions can add both.
namespace cxxrun::rendezvous::wire {

inline constexpr std::string_view kMagic = "CXR1";  ///< first bytes of both directions
inline constexpr int kVersionMajor = 1;             ///< another one is refused, both are named
inline constexpr int kVersionMinor = 0;

// --- before hello ---

/// Who answers at this address? The node that hosts where no interface owns the endpoint must meet itself.
struct Probe {};
/// `coordinator`: random id of the server. `serving`: it takes members (not only a candidate).
struct Probed {
  std::string coordinator;
  bool serving = false;
};
/// The client has a token and wants to prove it. Both nonces are random, 32 hex digits.
struct AuthBegin {
  std::string nonce;
};
/// `proof`: the server knows the token too; 64 hex digits.
struct Challenge {
  std::string nonce;
  std::string proof;
};
struct Proof {
  std::string proof;
};

// --- agent to coordinator ---

/// An agent presents itself. Also after a lost connection, then with the same incarnation.
struct Hello {
  int version_major = kVersionMajor;
  int version_minor = kVersionMinor;
  std::string run_id;
  std::string incarnation;  ///< random 128 bit, 32 hex digits, one per agent process
  std::string host_name;
  std::string role;
  int nnodes_min = 1;
  int nnodes_max = 1;
  int local_world_size = 1;
  int max_restarts = 0;
  bool exact_rank = false;  ///< static: node_rank is the rank, not a hint
  bool agent_store = true;
  std::optional<int> node_rank;
  std::string own_local;  ///< own view of this connection, "ADDRESS PORT"
  std::string own_remote;
  bool proxied = false;      ///< equal views prove nothing here
  std::string advertise;     ///< --local-addr, numeric; empty: the address of this connection
  std::string peer_address;  ///< where members can ask this agent; empty: nowhere yet
  std::vector<std::string> interface_addresses;
  std::vector<std::string> capabilities;
  bool ready = false;            ///< no old process is left, take me into the next round
  std::uint16_t store_port = 0;  ///< with ready
  std::int64_t epoch = 0;        ///< last seen, 0: none
  std::int64_t round = -1;       ///< last started here, -1: none
  int round_size = 0;            ///< nodes of that round
  int restart_count = 0;         ///< last seen
  bool running = false;          ///< workers of `round` run: reattach, do not restart
};
/// `round`: the round that has ended here.
struct Ready {
  std::int64_t round = -1;
  std::uint16_t store_port = 0;
};
struct Failed {
  Failure failure;
};
struct Done {
  std::int64_t round = 0;
};
struct Leave {
  Leaving why = Leaving::Politely;
  std::string sentence;
};
/// A polite leave has begun: this node stops its workers now, and says `leave` when they are gone.
struct GoingAway {
  std::string sentence;
};
/// A node's part of a fence (PMI, preflight): all parts come back to all when all nodes of the round gave
/// theirs. A name is used once in a round; the same part may be sent again after a lost connection.
struct Fence {
  std::int64_t round = 0;
  std::string name;
  std::string blob;
};
struct Suspended {
  bool suspended = false;
};

// --- coordinator to agent ---

struct Welcome {
  int version_major = kVersionMajor;
  int version_minor = kVersionMinor;
  std::string coordinator;  ///< random id of the server
  bool hosted = true;       ///< it lives in a member of the job
  bool direct = true;       ///< both ends see the same addresses: its end is the end of the process
  std::int64_t keep_alive_interval_ms = 1000;
  int keep_alive_max_attempt = 4;
};
struct Refused {
  int exit_code = 69;
  bool retry = false;
  std::string sentence;
};
struct Notice {
  std::string sentence;
};  ///< what is being waited for
struct Start {
  std::int64_t epoch = 0;
  World world;
  std::vector<std::string> admit;
};
struct Stop {
  std::int64_t epoch = 0;
  std::int64_t round = 0;
  std::string reason;
  std::optional<Failure> cause;
};
struct Close {
  std::int64_t epoch = 0;
  Outcome outcome = Outcome::Succeeded;
  int exit_code = 0;
  std::string reason;
  std::optional<Failure> root_cause;
  bool late = false;         ///< you came after the end: a new job with this run id may come
  std::string no_restart{};  ///< why there was none, where one might have been expected
};
struct Goodbye {};  ///< answer to leave
/// The parts of a fence by group rank, in several messages where they are long: those from `first` on of
/// `total`.
struct Fenced {
  std::int64_t round = 0;
  std::string name;
  int first = 0;
  int total = 0;
  std::vector<std::string> blobs;
  std::string error;  ///< not empty: no parts come, ever
};

// --- both ---
/// The coordinator answers each with one. From an agent: its node's memory, as evidence should it die.
struct KeepAlive {
  MemoryUse memory{};
};

using Message =
    std::variant<Probe, Probed, AuthBegin, Challenge, Proof, Hello, Ready, Failed, Done, Leave, GoingAway,
                 Fence, Suspended, Welcome, Refused, Notice, Start, Stop, Close, Goodbye, Fenced, KeepAlive>;

/// What greets a port that may be no rendezvous ends with this (blank space in JSON): whoever waits for
/// lines, as an HTTP server does, then answers at once, and can be told from one that is silent.
inline constexpr std::string_view kEndOfGreeting = "\r\n\r\n";

/// One JSON object. Bytes that are not UTF-8 become U+FFFD.
[[nodiscard]] std::string encode(const Message& message);

/// nullopt: a type that this version does not know. Errors: not a JSON object, a field of the wrong type or
/// out of its range; the text names it. `bytes` may be anything; nesting and sizes are bounded.
[[nodiscard]] Result<std::optional<Message>> decode(std::string_view bytes);

}  // namespace cxxrun::rendezvous::wire
