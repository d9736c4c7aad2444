// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace cxxrun {

/// One round of one job, as one node sees it. Equal on all nodes but for the group rank and what follows from
/// it.
struct World {
  std::int64_t round = 0;    ///< strictly rises, from 0
  int group_rank = 0;        ///< 0 <= group_rank < group_world_size
  int group_world_size = 1;  ///< number of nodes
  int local_world_size = 1;  ///< workers of this node
  int base_rank = 0;         ///< global rank of this node's local rank 0
  int world_size = 1;        ///< workers of all nodes
  int base_role_rank = 0;    ///< rank within the role of this node's local rank 0
  int role_world_size = 1;   ///< workers of all nodes with this node's role
  int restart_count = 0;     ///< restarts spent by failures, TORCHELASTIC_RESTART_COUNT
  std::string master_addr;  ///< numeric address, IPv6 without brackets; a host name only if the user gave one
  std::uint16_t master_port = 0;
  bool agent_store = true;  ///< an agent serves MASTER_ADDR:MASTER_PORT, TORCHELASTIC_USE_AGENT_STORE
  bool operator==(const World&) const = default;
};

}  // namespace cxxrun
