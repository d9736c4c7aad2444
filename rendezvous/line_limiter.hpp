// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "base/time.hpp"

namespace cxxrun::rendezvous {

/// Lines for a console that strangers cause: each distinct one at most once in `gap`, and at most `lines_max`
/// in `gap`.
class LineLimiter {
 public:
  LineLimiter(Duration gap, std::size_t lines_max) : gap_(gap), lines_max_(lines_max) {}

  [[nodiscard]] bool may_say(const std::string& line, Time now) {
    std::erase_if(said_, [&](const auto& entry) { return now - entry.second >= gap_; });
    return said_.size() < lines_max_ && said_.emplace(line, now).second;
  }

 private:
  Duration gap_;
  std::size_t lines_max_;
  std::map<std::string, Time> said_;
};

}  // namespace cxxrun::rendezvous
