// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "cli/options.hpp"

namespace cxxrun::cli {

/// Parsed and checked, but what they do does not exist yet: refused with exit code 2 unless set to their
/// default, and not in --help. Who builds one takes it out here, and renews the ready-made help: cli_tests
/// "[write-help]".
inline constexpr std::array<Opt, 0> kNotYet{};

/// Of these only the default exists yet; they are in --help.
inline constexpr std::array<Opt, 0> kOnlyDefaultYet{};

constexpr bool not_yet(Opt option) {
  for (const Opt one : kNotYet) {
    if (one == option) return true;
  }
  return false;
}

constexpr bool only_default_yet(Opt option) {
  for (const Opt one : kOnlyDefaultYet) {
    if (one == option) return true;
  }
  return not_yet(option);
}

}  // namespace cxxrun::cli
