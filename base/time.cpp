// SPDX-License-Identifier: Apache-2.0
#include "base/time.hpp"

#include <cstdio>

namespace cxxrun {

std::string text(Duration duration) {
  const double seconds = std::chrono::duration<double>(duration).count();
  char out[48];
  if (seconds < 1.0) {
    std::snprintf(out, sizeof out, "%.0f ms", seconds * 1000.0);
  } else if (seconds < 10.0) {
    std::snprintf(out, sizeof out, "%.1f s", seconds);
  } else if (seconds < 3600.0) {
    std::snprintf(out, sizeof out, "%.0f s", seconds);
  } else {
    const auto minutes = static_cast<long>(seconds / 60.0);
    std::snprintf(out, sizeof out, "%ld h %ld min", minutes / 60, minutes % 60);
  }
  return out;
}

}  // namespace cxxrun
