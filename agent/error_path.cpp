// SPDX-License-Identifier: Apache-2.0
#include "agent/error_path.hpp"

#include <sys/random.h>

#include <cstdio>

namespace cxxrun::agent {

std::string private_path(const std::string& temporary) {
  std::uint64_t dice[2] = {};
  [[maybe_unused]] const auto n = ::getrandom(dice, sizeof dice, 0);
  char name[64];
  std::snprintf(name, sizeof name, "/cxxrun_%016llx%016llx", static_cast<unsigned long long>(dice[0]),
                static_cast<unsigned long long>(dice[1]));
  return (temporary.empty() ? "/tmp" : temporary) + name;
}

ErrorPaths::ErrorPaths(const std::string& temporary) : prefix_(private_path(temporary) + "_") {}

std::string ErrorPaths::path(std::int64_t round, int local_rank) const {
  return prefix_ + std::to_string(round) + "_" + std::to_string(local_rank) + ".json";
}

}  // namespace cxxrun::agent
