// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/hosting.hpp"

#include <algorithm>

namespace cxxrun::rendezvous {
namespace {

Hosting host(Role role, const std::vector<net::Address>& resolved,
             const std::vector<net::InterfaceAddress>& own) {
  Hosting out;
  out.role = role;
  const auto mine =
      std::find_if(resolved.begin(), resolved.end(), [&](const auto& a) { return net::is_own(a, own); });
  if (mine != resolved.end()) out.own = *mine;
  return out;
}

}  // namespace

std::uint16_t coordinator_port(const Config& config) {
  if (config.backend != BackendKind::Static || config.agent_store) return config.endpoint.port;
  return config.control_port != 0 ? config.control_port
                                  : static_cast<std::uint16_t>(config.endpoint.port + 1);
}

Hosting decide_hosting(const Config& config, const std::vector<net::Address>& resolved,
                       const std::vector<net::InterfaceAddress>& own) {
  const bool several = config.nnodes_max > 1;
  if (config.backend == BackendKind::Static) {
    return config.node_rank.value_or(-1) == 0 ? host(Role::Host, resolved, own) : Hosting{};
  }
  const bool loopback = net::loopback_host(config.endpoint.host);
  if (loopback && several && config.other_hosts_known) {
    Hosting out;
    out.role = Role::Refuse;
    out.exit_code = 2;
    out.why = "endpoint " + net::endpoint_text(config.endpoint.host, config.endpoint.port) +
              " means each host itself, but the job has other hosts; write --rdzv-endpoint with an address "
              "that all of "
              "them reach";
    return out;
  }
  // Several agents of one machine may be told so: one serves, the others are its clients.
  if (config.is_host) return *config.is_host ? host(Role::HostIfFree, resolved, own) : Hosting{};
  if (config.endpoint.port == 0) return host(Role::Host, resolved, own);  // nobody else can know the port
  const bool mine =
      std::any_of(resolved.begin(), resolved.end(), [&](const auto& a) { return net::is_own(a, own); });
  if (!mine) return Hosting{Role::Candidate, {}, 0, {}, {}};
  // Only the node with rank 0 is ever told a loopback address that the others do not have.
  if (loopback && several && config.node_rank.value_or(0) != 0) return Hosting{};
  Hosting out = host(Role::HostIfFree, resolved, own);
  if (loopback) out.listen_address = out.own;
  return out;
}

}  // namespace cxxrun::rendezvous
