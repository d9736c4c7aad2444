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
  std::uint16_t port_first = 0;                            ///< 0: any port
  std::uint16_t port_last = 0;
  std::size_t value_bytes_max = limits::kStoreValueBytesMax;
  std::size_t bytes_max = limits::kStoreBytesMax;          ///< keys and values together
};

/// The worker store of one round: a TCPStore server (PyTorch 2.x, dialect M) on a thread of its own.
///
/// Costs one listening socket until the first client comes: the owner's loop watches it, the first connection starts
/// the thread, which then owns the socket. Destruction closes every connection and joins the thread.
/// All calls from the owner's thread.
class Server {
 public:
  /// Called on the owner's loop, once per refused address: a client that is not admitted.
  using OnRefused = std::function<void(const std::string& address)>;

  /// Listens on all interfaces (IPv6 and IPv4). Errors: no port of the range is free (names the range).
  static Result<std::unique_ptr<Server>> listen(EventLoop& loop, const ServerOptions& options, OnRefused on_refused);
  virtual ~Server() = default;

  [[nodiscard]] virtual std::uint16_t port() const = 0;
  /// Who may connect besides loopback: numeric addresses, or CIDR prefixes; "any": everybody. Connections that
  /// came earlier wait, unread, for this call.
  virtual void admit(std::vector<std::string> addresses) = 0;
  /// Serves a connection that somebody else accepted and read `first` from. Same admission.
  virtual void adopt(UniqueFd socket, std::vector<std::uint8_t> first) = 0;
};

}  // namespace cxxrun::store
