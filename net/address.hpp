// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace cxxrun::net {

/// A numeric IPv4 or IPv6 address without port. An IPv4 address mapped into IPv6 is kept as IPv4, so that
/// both ends of a connection to a dual-stack socket name it alike.
struct Address {
  bool v6 = false;
  std::array<std::uint8_t, 16> bytes{};  ///< IPv4: the first four
  std::uint32_t scope = 0;               ///< interface of a link-local IPv6 address, 0: none
  bool operator==(const Address&) const = default;

  [[nodiscard]] bool loopback() const;
  [[nodiscard]] bool link_local() const;
  [[nodiscard]] bool unspecified() const;
  [[nodiscard]] bool multicast() const;
};

/// "10.0.0.1", "fe80::1%eth0"; IPv6 without brackets. nullopt: not a numeric address.
[[nodiscard]] std::optional<Address> parse_address(std::string_view text);
[[nodiscard]] std::string text(const Address& address);
/// "10.0.0.1:80", "[::1]:80".
[[nodiscard]] std::string text(const Address& address, std::uint16_t port);

/// An address for connect(2) and bind(2).
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};
[[nodiscard]] SocketAddress socket_address(const Address& address, std::uint16_t port);
/// nullopt for another family than IPv4 and IPv6.
[[nodiscard]] std::optional<Address> address_of(const sockaddr* address, std::uint16_t* port = nullptr);

/// A range of addresses: "10.78.0.0/16", "fd00::/8".
struct Prefix {
  Address address;
  int bits = 0;
  [[nodiscard]] bool contains(const Address& other) const;
};
/// nullopt: no "/", not numeric, or too many bits.
[[nodiscard]] std::optional<Prefix> parse_prefix(std::string_view text);

/// Host and port of an endpoint; IPv6 without brackets. `port` unset where the text has none.
struct HostPort {
  std::string host;
  std::optional<std::uint16_t> port;
  bool operator==(const HostPort&) const = default;
};

/// torchrun's endpoint text: "HOST", "HOST:PORT", "[::1]", "[::1]:5". Blanks around are dropped; empty:
/// "localhost". Departure: an IPv6 address without brackets is an address, not a host and a port. Errors name
/// the part that is wrong.
[[nodiscard]] Result<HostPort> parse_endpoint(std::string_view text);
/// "host:port", with brackets where the host has a colon.
[[nodiscard]] std::string endpoint_text(std::string_view host, std::uint16_t port);

/// "localhost", or a numeric loopback address: only this machine's agents can mean the same place.
[[nodiscard]] bool loopback_host(std::string_view host);

}  // namespace cxxrun::net
