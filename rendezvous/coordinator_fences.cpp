// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include "base/limits.hpp"
#include "rendezvous/coordinator_decider.hpp"

namespace cxxrun::rendezvous {
namespace {

constexpr std::size_t kFencesMax = 64;                // of a round, complete ones included
constexpr std::size_t kMessageBytesMax = 256u << 10;  // of blobs in one message: hex digits double it

std::size_t bytes_of(const FenceState& fence) {
  std::size_t out = 0;
  for (const auto& [group_rank, blob] : fence.parts) out += blob.size();
  return out;
}

}  // namespace

void CoordinatorDecider::on(const event::FencePart& e) {
  const CoordinatorMember* m = find(e.id);
  if (m == nullptr || !m->in_round || s_.phase != Phase::Running || e.fence.round != s_.round) return;
  if (e.fence.blob.size() > limits::kFenceBlobBytesMax) return;
  const std::string& name = e.fence.name;
  if (!s_.fences.contains(name)) {
    forget_old_fences();
    if (s_.fences.size() >= kFencesMax) {
      wire::Fenced no{s_.round, name, 0,
                      0,        {},   "more than " + std::to_string(kFencesMax) + " fences are open"};
      return send(e.id, std::move(no));
    }
    s_.fences[name].number = ++s_.fence_serial;
  }
  FenceState& fence = s_.fences[name];
  // Asked again: the answer was lost with a connection, or it came too late.
  if (fence.complete || !fence.error.empty()) return answer_fence(name, fence, e.id);
  fence.parts[m->group_rank] = e.fence.blob;
  std::size_t open_bytes = 0;
  for (const auto& [other, state] : s_.fences) open_bytes += state.complete ? 0 : bytes_of(state);
  if (open_bytes > limits::kFenceBytesMax) {
    fence.error = "the parts of the fence are larger than " + std::to_string(limits::kFenceBytesMax) +
                  " bytes together";
    fence.parts.clear();
    return answer_fence(name, fence, std::nullopt);
  }
  if (live_in_round() < s_.round_size) return fail_open_fences("a node of the round has gone");
  if (static_cast<int>(fence.parts.size()) < s_.round_size) return;
  fence.complete = true;
  answer_fence(name, fence, std::nullopt);
}

/// A node went whose workers had ended well: the round goes on, its part never comes.
void CoordinatorDecider::fail_open_fences(const std::string& why) {
  for (auto& [name, fence] : s_.fences) {
    if (fence.complete || !fence.error.empty()) continue;
    fence.error = why;
    fence.parts.clear();
    answer_fence(name, fence, std::nullopt);
  }
}

/// Makes room for one more: complete ones go, the oldest first.
void CoordinatorDecider::forget_old_fences() {
  const auto complete_bytes = [&] {
    std::size_t out = 0;
    for (const auto& [name, fence] : s_.fences) out += fence.complete ? bytes_of(fence) : 0;
    return out;
  };
  while (s_.fences.size() >= kFencesMax || complete_bytes() > limits::kFenceBytesMax) {
    auto oldest = s_.fences.end();
    for (auto it = s_.fences.begin(); it != s_.fences.end(); ++it) {
      const bool older = oldest == s_.fences.end() || it->second.number < oldest->second.number;
      if (it->second.complete && older) oldest = it;
    }
    if (oldest == s_.fences.end()) return;
    s_.fences.erase(oldest);
  }
}

/// To one member, or to all of the round.
void CoordinatorDecider::answer_fence(const std::string& name, const FenceState& fence,
                                      std::optional<MemberId> only) {
  std::vector<wire::Fenced> messages;
  const int total = static_cast<int>(fence.parts.size());
  messages.push_back(wire::Fenced{s_.round, name, 0, total, {}, fence.error});
  std::size_t bytes = 0;
  for (const auto& [group_rank, blob] : fence.parts) {
    if (bytes > 0 && bytes + blob.size() > kMessageBytesMax) {
      const int first = messages.back().first + static_cast<int>(messages.back().blobs.size());
      messages.push_back(wire::Fenced{s_.round, name, first, total, {}, {}});
      bytes = 0;
    }
    messages.back().blobs.push_back(blob);
    bytes += blob.size();
  }
  for (const MemberId id : told_order()) {
    if (only ? id != *only : !find(id)->in_round) continue;
    for (const auto& message : messages) send(id, message);
  }
}

}  // namespace cxxrun::rendezvous
