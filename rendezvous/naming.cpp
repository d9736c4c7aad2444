// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/naming.hpp"

#include <algorithm>
#include <set>

#include "rendezvous/placement.hpp"

namespace cxxrun::rendezvous {
namespace {

constexpr std::size_t kNamesMax = 8;

std::string host_of(const CoordinatorMember& m) {
  return m.hello.host_name.empty() ? "a node" : m.hello.host_name;
}

/// The members with this one's host name, itself included, by joining.
std::vector<const CoordinatorMember*> namesakes(const CoordinatorState& state, const CoordinatorMember& m) {
  std::vector<const CoordinatorMember*> out;
  for (const auto& [id, other] : state.members) {
    if (other.hello.host_name == m.hello.host_name) out.push_back(&other);
  }
  return out;
}

template <class Key>
bool all_differ(const std::vector<const CoordinatorMember*>& members, Key key) {
  std::set<decltype(key(*members.front()))> seen;
  return std::all_of(members.begin(), members.end(),
                     [&](const CoordinatorMember* m) { return seen.insert(key(*m)).second; });
}

}  // namespace

std::string label(const CoordinatorState& state, const CoordinatorMember& m) {
  const auto same = namesakes(state, m);
  if (same.size() < 2) return host_of(m);
  const bool ranks =
      std::all_of(same.begin(), same.end(),
                  [](const auto* other) { return other->hello.node_rank.value_or(-1) >= 0; }) &&
      all_differ(same, [](const CoordinatorMember& other) { return *other.hello.node_rank; });
  if (ranks && m.hello.node_rank) return host_of(m) + "#" + std::to_string(*m.hello.node_rank);
  if (all_differ(same, [](const CoordinatorMember& other) { return other.link.member_address; })) {
    return host_of(m) + " (" + m.link.member_address + ")";
  }
  const auto at =
      std::find_if(same.begin(), same.end(), [&](const auto* other) { return other->id == m.id; });
  return host_of(m) + "#" + std::to_string(at - same.begin());
}

std::string full_name(const CoordinatorState& state, const CoordinatorMember& m) {
  const std::string name = label(state, m);
  if (m.link.member_address.empty() || name.ends_with(')')) return name;
  return name + " (" + m.link.member_address + ")";
}

std::string label_list(const CoordinatorState& state, std::vector<const CoordinatorMember*> members) {
  const std::size_t shown = std::min(members.size(), kNamesMax);
  std::partial_sort(members.begin(), members.begin() + static_cast<std::ptrdiff_t>(shown), members.end(),
                    [](const auto* a, const auto* b) {
                      if (a->hello.host_name != b->hello.host_name)
                        return natural_less(a->hello.host_name, b->hello.host_name);
                      return a->id < b->id;
                    });
  std::vector<std::string> labels;
  for (std::size_t i = 0; i < shown; ++i) {
    labels.push_back(label(state, *members[i]) + (members[i]->suspended ? " (suspended)" : ""));
  }
  std::sort(labels.begin(), labels.end(), [](const auto& x, const auto& y) { return natural_less(x, y); });
  std::string out;
  for (const auto& name : labels) out += (out.empty() ? "" : ", ") + name;
  if (members.size() > shown) out += " and " + std::to_string(members.size() - shown) + " more";
  return out;
}

}  // namespace cxxrun::rendezvous
