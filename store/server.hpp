// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/event_loop.hpp"
#include "base/limits.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace cxxrun::store {

struct ServerOptions {
  std::uint16_t port_first = 0;  ///< 0: any port
  std::uint16_t port_last = 0;
  std::uint16_t port_skip = 0;  ///< not this one: it is somebody's by agreement; 0: none
  std::size_t value_bytes_max = limits::kStoreValueBytesMax;
  std::size_t bytes_max = limits::kStoreBytesMax;  ///< keys and values together
  bool listening = true;                           ///< false: no socket of its own, only adopt(); port() is 0
  Duration handshake_timeout =
      std::chrono::seconds(30);  ///< from accept to VALIDATE; later silence is allowed for ever
};

/// Is this something that Server::admit() understands? Errors say what it should be.
Result<> check_admission(const std::string& rule);

/// The worker store of one round: a TCPStore server (PyTorch 2.x, dialect M) on a thread of its own.
///
/// Costs one listening socket until the first client comes: the owner's loop watches it, the first connection
/// starts the thread, which then owns the socket. Destruction closes every connection and joins the thread.
/// All calls from the owner's thread.
class Server {
 public:
  /// Called on the owner's loop, once per refused address: a client that is not admitted.
  using OnRefused = std::function<void(const std::string& address)>;

  /// Listens on all interfaces (IPv6 and IPv4). Errors: no port of the range is free (names the range).
  static Result<std::unique_ptr<Server>> listen(EventLoop& loop, const ServerOptions& options,
                                                OnRefused on_refused);
  virtual ~Server() = default;

  [[nodiscard]] virtual std::uint16_t port() const = 0;
  /// Who may connect besides loopback and this host itself: numeric addresses, or CIDR prefixes; "any":
  /// everybody. Connections that came earlier wait, unread, for the first call. A later call replaces the
  /// list for connections to come. A rule that check_admission() refuses is left out, and its sentence goes
  /// to OnRefused.
  virtual void admit(std::vector<std::string> addresses) = 0;
  /// Serves a connection that somebody else accepted and read `first` from. Same admission.
  virtual void adopt(UniqueFd socket, std::vector<std::uint8_t> first) = 0;
};

}  // namespace cxxrun::store
