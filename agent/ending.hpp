// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "agent/agent.hpp"
#include "agent/config.hpp"
#include "agent/machine.hpp"
#include "rendezvous/member.hpp"

namespace cxxrun::agent {

/// How this agent ends, after --exit-code.
struct Ending {
  End end;
  std::string_view outcome;  ///< for the result file: "succeeded", "failed", ...; of static storage
  std::string code_note;     ///< why the code is not the usual one; mostly empty
};

/// What an agent's end depends on.
struct EndFacts {
  Finish order;                              ///< what the machine decided
  std::optional<rendezvous::Closed> closed;  ///< what the rendezvous said, if it did
  bool ran = false;                          ///< a round was started here
  int group_rank = -1;                       ///< of this node in the last round; -1: in none
};

/// Pure.
[[nodiscard]] Ending ending(const FailureOptions& options, const EndFacts& facts);

/// A code that the user chose for one class of ends, as "--exit-code usage=64", or nothing.
[[nodiscard]] std::optional<int> chosen_code(const FailureOptions& options, FailureOptions::Class of);

}  // namespace cxxrun::agent
