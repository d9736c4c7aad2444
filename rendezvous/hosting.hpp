// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "net/address.hpp"
#include "net/interfaces.hpp"
#include "rendezvous/config.hpp"

/// Who serves the coordinator at an endpoint. Pure.
namespace cxxrun::rendezvous {

enum class Role {
  Host,        ///< serves; if the port is taken that is an error
  HostIfFree,  ///< serves if the port is free; else another agent of this machine does, and this one is a
               ///< client
  Candidate,   ///< no interface owns the address (service address, DNAT): serves if it meets itself through
               ///< the endpoint
  Client,
  Refuse,  ///< this can never work; `why` says so
};

struct Hosting {
  Role role = Role::Client;
  std::string why;
  int exit_code = 0;                           ///< Refuse
  std::optional<net::Address> listen_address;  ///< nullopt: all interfaces
  std::optional<net::Address> own;             ///< Host, HostIfFree: where we reach ourselves
};

/// `resolved`: what the endpoint's host means here.
[[nodiscard]] Hosting decide_hosting(const Config& config, const std::vector<net::Address>& resolved,
                                     const std::vector<net::InterfaceAddress>& own);

/// The coordinator's port: the endpoint's, or the control port of a static job without agent store.
[[nodiscard]] std::uint16_t coordinator_port(const Config& config);

}  // namespace cxxrun::rendezvous
