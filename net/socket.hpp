// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "net/address.hpp"

/// Non-blocking, close-on-exec TCP sockets.
namespace cxxrun::net {

struct Listener {
  UniqueFd fd;
  std::uint16_t port = 0;
};

/// Listens on `address` (nullopt: every address, IPv6 and IPv4 in one socket; IPv4 alone where there is no
/// IPv6). `last` 0: exactly `first` (0: any free port); else the first free port of first..last. Errors:
/// EADDRINUSE (all of the range is taken), EADDRNOTAVAIL, EACCES; the text names address and port.
[[nodiscard]] Result<Listener> listen(const std::optional<Address>& address, std::uint16_t first,
                                      std::uint16_t last = 0);

/// One waiting connection, with TCP_NODELAY. nullopt: none is waiting any more. Errors: EMFILE, ENFILE,
/// ENOBUFS, ENOMEM.
[[nodiscard]] Result<std::optional<UniqueFd>> accept(int listener);

/// Both ends of a connected socket. nullopt: not connected.
struct Ends {
  Address local;
  std::uint16_t local_port = 0;
  Address remote;
  std::uint16_t remote_port = 0;
};
[[nodiscard]] std::optional<Ends> ends(int socket);

/// One attempt to connect. `done` is called once, on the loop, with the socket or an error: ECONNREFUSED,
/// EHOSTUNREACH, ETIMEDOUT after `limit`. Destruction gives up; then `done` is not called. `from`: our side's
/// address, if it matters.
class Connect {
 public:
  using Done = std::function<void(Result<UniqueFd>)>;
  Connect(EventLoop& loop, const Address& to, std::uint16_t port, Duration limit,
          const std::optional<Address>& from, Done done);
  Connect(const Connect&) = delete;

 private:
  int begin(const Address& to, std::uint16_t port, const std::optional<Address>& from);
  void finish(Result<UniqueFd> result);
  UniqueFd fd_;
  EventLoop::Watch watch_;
  EventLoop::Timer timer_;
  Done done_;
};

/// "refused", "no answer", "unreachable" or the system's text, for sentences.
[[nodiscard]] std::string connect_failure_text(int errno_value);

}  // namespace cxxrun::net
