// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <vector>

#include "base/time.hpp"
#include "rendezvous/coordinator.hpp"
#include "rendezvous/coordinator_decider.hpp"
#include "rendezvous/naming.hpp"

namespace cxxrun::rendezvous {
namespace {

constexpr double kNearLimit = 0.9;    // below that nothing follows from the memory
constexpr double kAtLimit = 0.97;     // so full when a node dies: probably that is why
constexpr int kHardPressure = 10'00;  // or all of them waited for memory a tenth of the time

/// "a, b" of the members for which `wanted` holds.
template <class Wanted>
std::string names(const CoordinatorState& state, Wanted wanted) {
  std::vector<const CoordinatorMember*> members;
  for (const auto& [id, m] : state.members) {
    if (wanted(m)) members.push_back(&m);
  }
  return label_list(state, std::move(members));
}

std::string left(Time until, Time now) {
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(std::max(until - now, Time::duration::zero()));
  return seconds < 1h ? std::to_string(seconds.count()) + " s" : text(Duration(seconds));
}

std::string gathering(const CoordinatorConfig& config, const CoordinatorState& state, Time now) {
  const auto there = [](const CoordinatorMember& m) { return m.ready && m.connected; };
  const auto n = static_cast<int>(std::count_if(state.members.begin(), state.members.end(),
                                                [&](const auto& entry) { return there(entry.second); }));
  const bool elastic = config.nnodes_min != config.nnodes_max;
  std::string out = state.gather_reason.empty() ? "" : state.gather_reason + ": ";
  out += std::to_string(n) + " of " + std::to_string(config.nnodes_min) +
         (elastic ? ".." + std::to_string(config.nnodes_max) : "") + " nodes joined";
  if (n > 0) out += ": " + names(state, there);
  if (n < config.nnodes_min) {
    out += "; waiting for " + std::to_string(config.nnodes_min - n) + " more";
    if (state.gather_deadline != Time::max())
      out += ", " + left(state.gather_deadline, now) + " left; then: exit 75";
  } else if (now < state.fence_until) {
    out +=
        "; a lost node gets " + left(state.fence_until, now) + " to stop itself, then the next round starts";
  } else if (state.last_call_until != Time::max()) {
    out += "; up to " + std::to_string(config.nnodes_max - n) + " more may come, starting in " +
           left(state.last_call_until, now);
  }
  return out;
}

}  // namespace

std::string failure_text(const Failure& f) {
  std::string out = f.rank >= 0 ? "rank " + std::to_string(f.rank) : "node";
  if (!f.host.empty()) out += " on " + f.host;
  out += " failed: " + text(f.status);
  // One line: the report has all of it.
  const auto first_line = f.message.substr(0, f.message.find('\n'));
  if (!first_line.empty()) out += ": " + first_line;
  return out;
}

std::string memory_sentence(const event::LastMemory& memory, Time now) {
  if (memory.use.limit == 0) return {};
  const double share = static_cast<double>(memory.use.used) / static_cast<double>(memory.use.limit);
  if (share < kNearLimit) return {};
  char percent[32];
  std::snprintf(percent, sizeof percent, "%.1f", std::min(share, 1.0) * 100);
  std::string out = std::string(", memory at ") + percent + " % of its limit " +
                    text(std::max(now - memory.at, Time::duration::zero())) + " before";
  if (share >= kAtLimit || memory.use.pressure >= kHardPressure) out += ": probably out of memory";
  return out;
}

std::string sentence(const CoordinatorConfig& config, const CoordinatorState& state, Time now) {
  const auto in_round = [](const CoordinatorMember& m) { return m.in_round; };
  switch (state.phase) {
    case Phase::Gathering: return gathering(config, state, now);
    case Phase::Running: {
      const std::string done = names(state, [](const CoordinatorMember& m) { return m.in_round && m.done; });
      return "round " + std::to_string(state.round) + " runs on " + names(state, in_round) +
             (done.empty() ? "" : "; ended well on " + done);
    }
    case Phase::Stopping:
      return "round " + std::to_string(state.round) + " stops (" + state.stop_reason +
             "); waiting for the workers to end on " +
             names(state, [](const CoordinatorMember& m) { return m.in_round && !m.ready; });
    case Phase::Closed: return "the job has ended: " + state.close->reason;
  }
  return "";
}

}  // namespace cxxrun::rendezvous
