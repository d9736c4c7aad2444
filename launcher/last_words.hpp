// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cxxrun::launcher {

/// The end of a stream: its last lines, at most kLastWordsLinesMax and kLastWordsBytesMax. Pure; cheap to
/// feed.
class LastWords {
 public:
  void feed(std::string_view bytes);
  /// Oldest first, without line ends; a line whose beginning was dropped is left out unless it is the only
  /// one.
  [[nodiscard]] std::vector<std::string> lines() const;

 private:
  std::string tail_;
  bool cut_ = false;  ///< tail_ does not start at the start of the stream
};

}  // namespace cxxrun::launcher
