// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bitset>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace cxxrun::rendezvous {

using namespace std::chrono_literals;

/// How the coordinator is found (DESIGN: backends).
enum class BackendKind {
  Local,   ///< one node, no endpoint: the coordinator's decisions are taken inside the agent, nothing listens
  C10d,    ///< the node that owns the endpoint's address hosts it
  Static,  ///< the node with node rank 0 hosts it at MASTER_ADDR:MASTER_PORT, ranks are the node ranks
};

/// Where an agent looks for the coordinator. `host`: name or address, IPv6 without brackets. `port` 0: any
/// (one machine only).
struct Endpoint {
  std::string host;
  std::uint16_t port = 0;
  bool operator==(const Endpoint&) const = default;
};

/// Ports that may be opened, both ends included; 0..0: any.
struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;
  [[nodiscard]] bool any() const { return first == 0; }
  bool operator==(const PortRange&) const = default;
};

/// Time limits; the keys of --rdzv-conf with the same names (seconds there).
struct Timeouts {
  std::chrono::milliseconds join{600s};      ///< join_timeout: start to the first round
  std::chrono::milliseconds last_call{30s};  ///< last_call_timeout: MIN reached to start
  std::chrono::milliseconds close{30s};      ///< close_timeout
  std::chrono::milliseconds rejoin_grace{
      1s};  ///< rejoin_grace: connection lost to member lost, behind NAT or proxy
  std::optional<std::chrono::milliseconds>
      rejoin;                                ///< rejoin_timeout: unset: 30 s with no restart left, else join
  std::chrono::milliseconds reconnect{60s};  ///< reconnect_timeout: an outside coordinator may be away
  std::chrono::milliseconds keep_alive_interval{1s};  ///< keep_alive_interval
  int keep_alive_max_attempt = 4;  ///< keep_alive_max_attempt: silence of interval x attempts is a loss
};

/// How much memory the control group of a node's workers uses.
struct MemoryUse {
  std::uint64_t used = 0;   ///< bytes that cannot simply be given back
  std::uint64_t limit = 0;  ///< bytes; 0: none, or not known
  int pressure = 0;         ///< share of the last 10 s in which all of them waited for memory, 1/100 percent
  bool operator==(const MemoryUse&) const = default;
};

/// Everything the rendezvous of one agent needs to know. Plain data, validated by cli/plan.
struct Config {
  BackendKind backend = BackendKind::Local;
  Endpoint endpoint;   ///< not for Local
  std::string run_id;  ///< not empty, at most kRunIdBytesMax
  int nnodes_min = 1;
  int nnodes_max = 1;
  int local_world_size = 1;
  std::string role = "default";
  int max_restarts = 0;             ///< of the whole job
  std::bitset<256> hopeless_codes;  ///< the job is not restarted after these (128 + n: signal n)
  std::optional<int> node_rank;     ///< Static: exact rank; C10d: hint, honoured where hints are unique
  std::optional<bool> is_host;      ///< --rdzv-conf is_host: forces or forbids hosting
  bool proxied = false;             ///< --rdzv-conf proxied=1
  bool other_hosts_known = false;  ///< the surroundings name other hosts: a loopback endpoint is then refused
  std::string local_addr;  ///< --local-addr: address, name, interface or prefix; empty: the connection's own
  std::uint16_t control_port = 0;  ///< Static without agent store: the coordinator's port; 0: MASTER_PORT + 1
  bool agent_store = true;         ///< the agent of group rank 0 serves the worker store
  PortRange ports;                 ///< every port that we open ourselves
  std::string token;               ///< empty: none. Never logged
  Timeouts timeouts;
  std::function<MemoryUse()> memory_use;  ///< asked before each keep-alive; may be empty
  std::string host_name;                  ///< what this node calls itself in reports; need not resolve
};

}  // namespace cxxrun::rendezvous
