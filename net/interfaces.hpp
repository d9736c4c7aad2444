// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "net/address.hpp"

namespace cxxrun::net {

struct InterfaceAddress {
  std::string interface;
  Address address;
};

/// The addresses of this host's interfaces that are up, in the kernel's order.
[[nodiscard]] std::vector<InterfaceAddress> interface_addresses();

/// Is `address` this host's? All of 127.0.0.0/8 is.
[[nodiscard]] bool is_own(const Address& address, const std::vector<InterfaceAddress>& own);

/// The address that --local-addr asks for: an address, an interface, a prefix ("10.78.0.0/16"), or a name,
/// which the caller has looked up (`looked_up`; empty: it is no name, or unknown). Errors name the text and
/// what there is.
[[nodiscard]] Result<Address> choose_local_address(std::string_view wanted,
                                                   const std::vector<InterfaceAddress>& own,
                                                   const std::vector<Address>& looked_up);

/// True where `wanted` is neither address, interface nor prefix, so that it must be looked up.
[[nodiscard]] bool local_address_is_name(std::string_view wanted, const std::vector<InterfaceAddress>& own);

}  // namespace cxxrun::net
