// SPDX-License-Identifier: Apache-2.0
#include "agent/local_time.hpp"

#include <array>
#include <cstdio>
#include <ctime>

namespace cxxrun::agent {

std::string local_time_text(std::chrono::milliseconds since_epoch) {
  const auto seconds = static_cast<std::time_t>(since_epoch.count() / 1000);
  std::tm parts{};
  if (::localtime_r(&seconds, &parts) == nullptr) return {};
  std::array<char, 64> date{};
  std::array<char, 32> zone{};
  std::strftime(date.data(), date.size(), "%Y-%m-%d %H:%M:%S", &parts);
  std::strftime(zone.data(), zone.size(), "%Z", &parts);
  std::array<char, 128> out{};
  std::snprintf(out.data(), out.size(), "%s.%03d %s", date.data(),
                static_cast<int>(since_epoch.count() % 1000), zone.data());
  return out.data();
}

}  // namespace cxxrun::agent
