// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

namespace cxxrun {

/// Monotonic time of this host. Never sent to another machine.
using Time = std::chrono::steady_clock::time_point;
using Duration = std::chrono::nanoseconds;

using namespace std::chrono_literals;

/// A duration for people: "850 ms", "4.2 s", "412 s", "2 h 5 min".
[[nodiscard]] std::string text(Duration duration);

}  // namespace cxxrun
