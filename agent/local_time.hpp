// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

namespace cxxrun::agent {

/// "2026-12-01 05:10:11.123 CET": in this machine's time zone.
std::string local_time_text(std::chrono::milliseconds since_epoch);

}  // namespace cxxrun::agent
