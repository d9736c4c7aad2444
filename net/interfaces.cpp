// SPDX-License-Identifier: Apache-2.0
#include "net/interfaces.hpp"

#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>

namespace cxxrun::net {
namespace {

bool is_interface(std::string_view wanted, const std::vector<InterfaceAddress>& own) {
  return std::any_of(own.begin(), own.end(), [&](const auto& entry) { return entry.interface == wanted; });
}

/// Global addresses before link-local ones, IPv4 before IPv6.
const InterfaceAddress* best(const std::vector<const InterfaceAddress*>& candidates) {
  const auto cost = [](const InterfaceAddress* a) {
    return (a->address.link_local() ? 2 : 0) + (a->address.v6 ? 1 : 0);
  };
  const auto it = std::min_element(candidates.begin(), candidates.end(),
                                   [&](const auto* a, const auto* b) { return cost(a) < cost(b); });
  return it == candidates.end() ? nullptr : *it;
}

std::string listed(const std::vector<InterfaceAddress>& own) {
  std::string out;
  for (const auto& [interface, address] : own) {
    if (!out.empty()) out += ", ";
    out += interface + " " + text(address);
  }
  return out.empty() ? "no address at all" : out;
}

}  // namespace

std::vector<InterfaceAddress> interface_addresses() {
  std::vector<InterfaceAddress> out;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return out;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    if (const auto address = address_of(entry->ifa_addr)) out.push_back({entry->ifa_name, *address});
  }
  ::freeifaddrs(list);
  return out;
}

bool is_own(const Address& address, const std::vector<InterfaceAddress>& own) {
  if (address.loopback()) return true;
  return std::any_of(own.begin(), own.end(), [&](const auto& entry) {
    return entry.address.v6 == address.v6 && entry.address.bytes == address.bytes;
  });
}

bool local_address_is_name(std::string_view wanted, const std::vector<InterfaceAddress>& own) {
  return !wanted.empty() && !parse_address(wanted) && wanted.find('/') == std::string_view::npos &&
         !is_interface(wanted, own);
}

Result<Address> choose_local_address(std::string_view wanted, const std::vector<InterfaceAddress>& own,
                                     const std::vector<Address>& looked_up) {
  const std::string said = "--local-addr " + std::string(wanted);
  if (const auto address = parse_address(wanted)) return *address;  // also one that NAT maps to us
  std::vector<const InterfaceAddress*> fit;
  const bool slash = wanted.find('/') != std::string_view::npos;
  const auto prefix = parse_prefix(wanted);
  if (slash && !prefix) return plain_error(said + ": not a prefix such as 10.78.0.0/16");
  for (const auto& entry : own) {
    const bool named =
        std::any_of(looked_up.begin(), looked_up.end(), [&](const Address& a) { return a == entry.address; });
    if (prefix ? prefix->contains(entry.address) : (entry.interface == wanted || named))
      fit.push_back(&entry);
  }
  if (const auto* chosen = best(fit)) return chosen->address;
  if (!slash && !looked_up.empty()) return looked_up.front();
  return plain_error(said + ": no interface of this host has such an address; there is " + listed(own));
}

}  // namespace cxxrun::net
