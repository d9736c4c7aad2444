// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace cxxrun::store {

/// An IPv6 address, or an IPv4 one in its mapped form (::ffff:a.b.c.d). Scope ids are left out.
using AddressBytes = std::array<std::uint8_t, 16>;

/// Nothing for a family other than IPv4 and IPv6.
[[nodiscard]] std::optional<AddressBytes> address_bytes(const sockaddr_storage& address);
/// "10.0.0.7", "fd00::7".
[[nodiscard]] std::string text(const AddressBytes& address);

/// Who may use a store. Loopback always may.
class Admission {
 public:
  /// `rule`: a numeric address, with or without a scope id; a prefix ("10.0.0.0/8", "fd00::/64"); or "any".
  /// Errors: it is none of these; no name is ever looked up.
  Result<> add(const std::string& rule);
  [[nodiscard]] bool allows(const AddressBytes& address) const;

 private:
  struct Prefix {
    AddressBytes address{};
    int bits = 128;
  };
  std::vector<Prefix> prefixes_;
  bool any_ = false;
};

}  // namespace cxxrun::store
