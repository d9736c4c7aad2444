// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/event_loop.hpp"
#include "base/unique_fd.hpp"
#include "net/socket.hpp"
#include "rendezvous/coordinator.hpp"

namespace cxxrun::rendezvous {

/// The coordinator behind a port: agents, status page and store clients, told apart by their first bytes.
///
/// Runs on a thread and a loop of its own, from the first connection on (until then the owner's loop watches
/// the listening sockets), and shares nothing with its owner: they exchange datagrams on a socket pair. The
/// owner talks to it as a member like everybody else, over TCP.
class CoordinatorServer {
 public:
  struct Options {
    CoordinatorConfig core;
    std::string token;             ///< empty: none
    std::string host_incarnation;  ///< the member that hosts us; empty: none does
    bool serving = true;  ///< false: only a candidate, until serve(); answers who it is and nothing else
    bool store_clients = false;  ///< hand TCPStore clients to the owner; else they are closed
  };
  /// All are called on the owner's loop.
  struct Handlers {
    std::function<void(UniqueFd, std::vector<std::uint8_t> first)> on_store_client;
    std::function<void(std::string)>
        on_note;  ///< one line for the log; rate-limited where a stranger causes it
    std::function<void(const Error&)> on_failed;  ///< no thread could be had when the first client came
  };

  /// Takes the listening sockets. Errors: no descriptor to be had.
  static Result<std::unique_ptr<CoordinatorServer>> start(EventLoop& loop,
                                                          std::vector<net::Listener> listeners,
                                                          Options options, Handlers handlers);
  /// When the job is closed: waits until every member has been told and has gone, or close_timeout. Joins the
  /// thread.
  virtual ~CoordinatorServer() = default;

  [[nodiscard]] virtual const std::string& id() const = 0;  ///< random, named in probed and welcome
  [[nodiscard]] virtual std::uint16_t port() const = 0;
  virtual void serve() = 0;
};

}  // namespace cxxrun::rendezvous
