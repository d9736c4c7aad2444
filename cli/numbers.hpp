// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

namespace cxxrun::cli {

/// A whole decimal number, 0 or more, digits only. Nothing for anything else, also where it is too large.
[[nodiscard]] inline std::optional<long> whole_number(std::string_view text) {
  long number = 0;
  if (text.empty() || text[0] < '0' || text[0] > '9') return std::nullopt;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (ec != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// Seconds, with a fraction if wanted, 0 or more.
[[nodiscard]] inline std::optional<double> seconds_number(std::string_view text) {
  double number = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || ec != std::errc() || end != text.data() + text.size() || !std::isfinite(number) || number < 0) {
    return std::nullopt;
  }
  return number;
}

}  // namespace cxxrun::cli
