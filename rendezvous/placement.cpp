// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/placement.hpp"

#include <algorithm>
#include <cassert>
#include <map>
#include <set>

#include "net/address.hpp"

namespace cxxrun::rendezvous {
namespace {

bool digit(char c) { return c >= '0' && c <= '9'; }

const CoordinatorMember& member(const CoordinatorState& state, MemberId id) { return state.members.at(id); }

/// Hints count only where each of `ids` has one and no two are equal.
bool hints_unique(const CoordinatorState& state, const std::vector<MemberId>& ids) {
  std::set<int> seen;
  for (const MemberId id : ids) {
    const auto& hint = member(state, id).hello.node_rank;
    if (!hint || !seen.insert(*hint).second) return false;
  }
  return true;
}

/// The order in which nodes without a rank get one.
void sort_newcomers(const CoordinatorState& state, std::vector<MemberId>& ids) {
  if (hints_unique(state, ids)) {
    std::sort(ids.begin(), ids.end(), [&](MemberId a, MemberId b) {
      return *member(state, a).hello.node_rank < *member(state, b).hello.node_rank;
    });
    return;
  }
  std::stable_sort(ids.begin(), ids.end(), [&](MemberId a, MemberId b) {
    const auto& left = member(state, a);
    const auto& right = member(state, b);
    if (left.link.host != right.link.host) return left.link.host;
    return natural_less(left.hello.host_name, right.hello.host_name);
  });
}

/// New ones whose hint is a free rank get it. Hints beyond the size (1, 2, 3 of three) only give an order.
void place_by_hint(const CoordinatorState& state, std::vector<MemberId>& newcomers,
                   std::vector<MemberId>& slots) {
  const auto hint_of = [&](MemberId id) { return *member(state, id).hello.node_rank; };
  if (!hints_unique(state, newcomers)) return;
  for (const MemberId id : newcomers) {
    if (hint_of(id) < 0 || hint_of(id) >= static_cast<int>(slots.size())) return;
  }
  std::erase_if(newcomers, [&](MemberId id) {
    const int hint = hint_of(id);
    auto& slot = slots[static_cast<std::size_t>(hint)];
    if (slot != 0) return false;
    slot = id;
    return true;
  });
}

bool reachable_elsewhere(const std::string& text) {
  const auto address = net::parse_address(text);
  return address && !address->loopback() && !address->link_local() && !address->unspecified();
}

/// What the peers of this round use to reach `m`: what it asked for, else its side of the connection to us. A
/// node on our own machine may have come over loopback: then the address at which the others reached this
/// machine.
std::string master_address(const CoordinatorState& state, const std::vector<MemberId>& ranked,
                           const CoordinatorMember& m) {
  if (!m.hello.advertise.empty()) return m.hello.advertise;
  const std::string& local = m.hello.own_local.empty() ? m.link.member_address : m.hello.own_local;
  const std::string own = local.substr(0, local.find(' '));
  if (reachable_elsewhere(own)) return own;
  for (const MemberId id : ranked) {
    const auto& server = member(state, id).link.server_address;
    if (id != m.id && reachable_elsewhere(server)) return server;
  }
  return own.empty() ? "127.0.0.1" : own;
}

}  // namespace

bool natural_less(std::string_view a, std::string_view b) {
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (digit(a[i]) && digit(b[j])) {
      const std::size_t i0 = std::min(a.find_first_not_of('0', i), a.size());
      const std::size_t j0 = std::min(b.find_first_not_of('0', j), b.size());
      std::size_t i1 = i0, j1 = j0;
      while (i1 < a.size() && digit(a[i1])) ++i1;
      while (j1 < b.size() && digit(b[j1])) ++j1;
      if (i1 - i0 != j1 - j0) return i1 - i0 < j1 - j0;
      const int order = a.substr(i0, i1 - i0).compare(b.substr(j0, j1 - j0));
      if (order != 0) return order < 0;
      i = i1;
      j = j1;
      continue;
    }
    if (a[i] != b[j]) return static_cast<unsigned char>(a[i]) < static_cast<unsigned char>(b[j]);
    ++i;
    ++j;
  }
  if ((i == a.size()) != (j == b.size())) return i == a.size();
  return a < b;  // equal as numbers: "n1" and "n01" still need an order
}

std::vector<MemberId> choose(const CoordinatorConfig& config, const CoordinatorState& state) {
  std::vector<MemberId> ids;
  for (const auto& [id, m] : state.members) {
    if (m.ready && m.connected) ids.push_back(id);
  }
  std::stable_sort(ids.begin(), ids.end(), [&](MemberId a, MemberId b) {
    const auto& left = member(state, a);
    const auto& right = member(state, b);
    if ((left.group_rank >= 0) != (right.group_rank >= 0)) return left.group_rank >= 0;
    return left.link.host && !right.link.host;
  });
  if (ids.size() > static_cast<std::size_t>(config.nnodes_max))
    ids.resize(static_cast<std::size_t>(config.nnodes_max));
  return ids;
}

std::vector<MemberId> rank(const CoordinatorConfig& config, const CoordinatorState& state,
                           std::vector<MemberId> chosen) {
  std::vector<MemberId> slots(chosen.size(), 0);
  std::vector<MemberId> newcomers;
  std::vector<MemberId> displaced;
  for (const MemberId id : chosen) {
    const auto& m = member(state, id);
    const int wanted = config.exact_ranks ? m.hello.node_rank.value_or(-1) : m.group_rank;
    if (wanted < 0) {
      newcomers.push_back(id);
    } else if (wanted >= static_cast<int>(slots.size()) || slots[static_cast<std::size_t>(wanted)] != 0) {
      displaced.push_back(id);
    } else {
      slots[static_cast<std::size_t>(wanted)] = id;
    }
  }
  std::sort(displaced.begin(), displaced.end(), [&](MemberId a, MemberId b) {
    return std::pair(member(state, a).group_rank, a) < std::pair(member(state, b).group_rank, b);
  });
  place_by_hint(state, newcomers, slots);
  sort_newcomers(state, newcomers);
  displaced.insert(displaced.end(), newcomers.begin(), newcomers.end());
  auto next = displaced.begin();
  for (MemberId& slot : slots) {
    if (slot == 0) slot = *next++;
  }
  assert(next == displaced.end());
  return slots;
}

std::vector<World> worlds(const CoordinatorConfig& config, const CoordinatorState& state,
                          const std::vector<MemberId>& ranked) {
  World common;
  common.round = state.round;
  common.group_world_size = static_cast<int>(ranked.size());
  common.restart_count = state.restarts;
  common.agent_store = config.agent_store;
  const auto& first = member(state, ranked.front());
  common.master_addr = config.fixed_master ? config.fixed_master->host : master_address(state, ranked, first);
  common.master_port = config.fixed_master ? config.fixed_master->port : first.store_port;
  common.world_size = 0;
  std::map<std::string, int> role_sizes;
  std::vector<World> out;
  for (std::size_t i = 0; i < ranked.size(); ++i) {
    const auto& hello = member(state, ranked[i]).hello;
    World world = common;
    world.group_rank = static_cast<int>(i);
    world.local_world_size = hello.local_world_size;
    world.base_rank = common.world_size;
    world.base_role_rank = role_sizes[hello.role];
    common.world_size += hello.local_world_size;
    role_sizes[hello.role] += hello.local_world_size;
    out.push_back(std::move(world));
  }
  for (std::size_t i = 0; i < ranked.size(); ++i) {
    out[i].world_size = common.world_size;
    out[i].role_world_size = role_sizes[member(state, ranked[i]).hello.role];
  }
  return out;
}

std::vector<std::string> admitted(const CoordinatorState& state, const std::vector<MemberId>& ranked) {
  std::set<std::string> all;
  for (const MemberId id : ranked) {
    const auto& m = member(state, id);
    for (const auto& address : m.hello.interface_addresses) all.insert(address);
    if (!m.hello.advertise.empty()) all.insert(m.hello.advertise);
    if (!m.link.member_address.empty()) all.insert(m.link.member_address);
  }
  return {all.begin(), all.end()};
}

}  // namespace cxxrun::rendezvous
