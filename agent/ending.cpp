// SPDX-License-Identifier: Apache-2.0
#include "agent/ending.hpp"

#include <array>

namespace cxxrun::agent {
namespace {

using Class = FailureOptions::Class;
using rendezvous::Outcome;

constexpr int kUsage = 2;  // cli/exit_code.hpp has them all
constexpr int kCannotStart = 70;
constexpr int kStuckProcess = 71;
constexpr std::array<std::string_view, 5> kClassNames{"usage", "rendezvous", "lost-node", "stopped",
                                                      "peer-failed"};

std::string_view outcome_of(const EndFacts& facts) {
  if (facts.order.signo != 0) return "stopped";
  if (facts.order.exit_code == kStuckProcess && (!facts.closed || facts.closed->exit_code != kStuckProcess))
    return "stuck";
  if (!facts.closed && facts.order.exit_code == kUsage) return "usage";
  if (!facts.closed && facts.order.exit_code == kCannotStart) return "not-started";
  if (!facts.closed) return "refused";
  switch (facts.closed->outcome) {
    case Outcome::Succeeded: return "succeeded";
    case Outcome::Failed: return "failed";
    case Outcome::Interrupted: return "interrupted";
    case Outcome::NodesMissing: return "nodes-missing";
    case Outcome::Refused: return "refused";
  }
  return "failed";
}

/// The class of an end whose code may be chosen.
std::optional<Class> class_of(const EndFacts& facts, std::string_view outcome) {
  if (outcome == "stopped" || outcome == "interrupted") return Class::Stopped;
  if (outcome == "usage") return Class::Usage;
  if (outcome == "nodes-missing") return facts.ran ? Class::LostNode : Class::Rendezvous;
  if (outcome == "refused") return facts.order.exit_code == kUsage ? Class::Usage : Class::Rendezvous;
  if (outcome == "failed" && facts.closed->root_cause && facts.group_rank >= 0 &&
      facts.closed->root_cause->group_rank != facts.group_rank) {
    return Class::PeerFailed;
  }
  return std::nullopt;
}

}  // namespace

std::optional<int> chosen_code(const FailureOptions& options, FailureOptions::Class of) {
  return options.exit_codes[static_cast<std::size_t>(of)];
}

Ending ending(const FailureOptions& options, const EndFacts& facts) {
  Ending out{{facts.order.exit_code, facts.order.signo}, outcome_of(facts), {}};
  if (out.outcome == "succeeded" || (out.end.exit_code == 0 && out.end.signo == 0)) return out;
  const auto which = class_of(facts, out.outcome);
  const auto code = which ? chosen_code(options, *which) : std::nullopt;
  if (!code) return out;
  out.code_note = "--exit-code " + std::string(kClassNames[static_cast<std::size_t>(*which)]) + "=" +
                  std::to_string(*code) + ", else " + std::to_string(facts.order.exit_code);
  out.end = {*code, 0};
  return out;
}

}  // namespace cxxrun::agent
