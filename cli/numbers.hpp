// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
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

/// Seconds, with a fraction if wanted, 0 or more: "30", "0.5", ".5", "2.". By hand: std::from_chars for
/// double would make every start of the program load libm.
[[nodiscard]] inline std::optional<double> seconds_number(std::string_view text) {
  double number = 0;
  double unit = 1;
  bool fraction = false;
  bool digits = false;
  for (const char c : text) {
    if (c == '.' && !fraction) {
      fraction = true;
    } else if (c < '0' || c > '9') {
      return std::nullopt;
    } else {
      digits = true;
      if (unit >= 1e9) continue;  // nanoseconds are enough
      number = number * 10 + (c - '0');
      if (fraction) unit *= 10;
    }
  }
  if (!digits || number > 1e15) return std::nullopt;  // beyond any time limit, and no longer exact
  return number / unit;
}

}  // namespace cxxrun::cli
