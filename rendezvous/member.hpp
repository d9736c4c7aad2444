// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/event_loop.hpp"
#include "base/failure.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "base/world.hpp"
#include "rendezvous/config.hpp"

namespace cxxrun::rendezvous {

/// How a job ended, equal on all its nodes.
enum class Outcome {
  Succeeded,     ///< all workers of the last round exited 0
  Failed,        ///< a worker failed and no restart was left
  Interrupted,   ///< a person stopped the job (SIGINT to one agent)
  NodesMissing,  ///< too few nodes within the time limit, at first or later
  Refused,       ///< this agent cannot take part: wrong id, token, version, sizes; resolve or connect failed
};

// --- what the rendezvous tells the agent ---

/// What is being waited for, in one sentence. Sent when the sentence changes.
struct Waiting {
  std::string sentence;
};
/// A round starts. `admit`: numeric addresses that may use this round's worker store (for the node of group
/// rank 0).
struct Started {
  World world;
  std::vector<std::string> admit;
};
/// The round is over: stop the workers, then say ready() again, or leave.
/// `cause`: the first failure, if one is the reason. `reason`: one sentence, also where there is no failure.
struct Stopped {
  std::int64_t round = 0;
  std::string reason;
  std::optional<Failure> cause;
};
/// The job is over (stop workers that still run). Nothing comes after it.
/// `exit_code`: what every agent exits with. `root_cause`: equal on all nodes.
struct Closed {
  Outcome outcome = Outcome::Succeeded;
  int exit_code = 0;
  std::string reason;
  std::optional<Failure> root_cause;
  std::string no_restart{};  ///< why there was none, where one might have been expected; else empty
};
/// A worker reached the control port with the TCPStore protocol: give it to the current round's store.
/// `first`: bytes that were read from it already.
struct StoreClient {
  UniqueFd socket;
  std::vector<std::uint8_t> first;
};

/// All nodes of the round gave their part of a fence: `blobs` by group rank. `error` not empty: no parts will
/// come.
struct Fenced {
  std::int64_t round = 0;
  std::string name;
  std::vector<std::string> blobs;
  std::string error;
};

using MemberEvent = std::variant<Waiting, Started, Stopped, Closed, StoreClient, Fenced>;

/// Why an agent goes.
enum class Leaving {
  Politely,    ///< SIGTERM, SIGHUP: the others go on
  StopJob,     ///< SIGINT: the whole job ends with 130
  BrokenHost,  ///< a process here cannot be killed, or workers cannot be started here
};

/// This agent's membership of the job. Finds the coordinator, or hosts it, keeps the connection, and comes
/// back after a loss by itself; where a loss means that workers must stop, it says Stopped.
///
/// Order of calls in a round: ready -> (Started) -> any number of failed -> done, or (Stopped) -> ready
/// again. Events are delivered on the loop's thread, never from inside a call. Destruction closes the
/// connection without a goodbye (what the other side takes for a crash), and ends a hosted coordinator.
class Member {
 public:
  virtual ~Member() = default;

  /// No old process is left on this node, and its store for the next round listens on `store_port` (0: none).
  /// The first call joins. After Stopped it also says that the old round has ended here.
  virtual void ready(std::uint16_t store_port) = 0;
  /// A worker failed. Tells everybody at once. `failure.age` is filled in by the caller.
  virtual void failed(const Failure& failure) = 0;
  /// All workers of this node exited 0.
  virtual void done(std::int64_t round) = 0;
  /// A polite leave() will follow once this node's workers are stopped, which has begun: the others need not
  /// wait for that.
  virtual void announce_leaving(std::string_view sentence) = 0;
  /// The workers here sleep (Ctrl-Z), or go on: the others are told, and nobody takes their silence for a
  /// loss.
  virtual void suspended(bool suspended) = 0;
  /// This node's part of a fence, of at most kFenceBlobBytesMax bytes; Fenced comes when all nodes of the
  /// round gave theirs, or never if the round ends first. `name`: at most kFenceNameBytesMax bytes, once a
  /// round. Errors: too long, no round.
  virtual Result<> fence(std::string_view name, std::string_view blob) = 0;
  /// Goodbye; `then` is called when it was sent and answered, or after `limit`. Workers must be gone
  /// (StopJob: need not).
  virtual void leave(Leaving why, std::string_view sentence, Duration limit, std::function<void()> then) = 0;
};

/// Makes the member for `config.backend`. Nothing is opened before the first ready().
std::unique_ptr<Member> make_member(EventLoop& loop, Config config,
                                    std::function<void(MemberEvent)> on_event);

}  // namespace cxxrun::rendezvous
