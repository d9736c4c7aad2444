// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "net/connection.hpp"
#include "net/socket.hpp"

namespace cxxrun::agent {

/// What a prober hears of this node.
struct Health {
  const char* state = "";   ///< as the agent's phase is called
  std::int64_t round = -1;  ///< -1: none has started
  int workers = 0;          ///< that live
  int hanging = 0;  ///< those of them that let a timer or their heartbeat run out, and have not ended yet
  std::optional<Duration> progress_age;  ///< since a worker last said that it goes on; unset: none did
};

/// The whole answer to one HTTP request (its lines up to the empty one): 200, or 503 while a worker hangs.
/// Pure.
[[nodiscard]] std::string health_answer(std::string_view head, const Health& health);

/// Serves that on a port of its own, for the liveness probe of a pod: who answers is alive, since the agent's
/// one thread does. At most kSessionsMax callers at once, each for kHelloTimeout.
class HealthPort {
 public:
  using Ask = std::function<Health()>;
  /// Listens on every address of this host. Errors: those of net::listen().
  static Result<std::unique_ptr<HealthPort>> open(EventLoop& loop, std::uint16_t port, Ask ask);

 private:
  struct Session {
    UniqueFd socket;
    std::string head;
    std::unique_ptr<net::Connection> connection;  ///< once the answer is on its way
    EventLoop::Watch watch;
    EventLoop::Timer deadline;
  };
  HealthPort(EventLoop& loop, net::Listener listener, Ask ask);
  void accept_some();
  void read_head(int id);
  void answer(int id);

  EventLoop& loop_;
  net::Listener listener_;
  Ask ask_;
  int next_id_ = 0;
  std::map<int, Session> sessions_;
  EventLoop::Watch watch_;
};

}  // namespace cxxrun::agent
