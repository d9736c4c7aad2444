// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/limits.hpp"

namespace cxxrun::launcher {

/// Turns a stream of bytes into whole lines with a prefix each. Pure. Bytes are not looked at but for '\n'.
///
/// A line without an end waits for it, at most kLineBytesMax bytes; a longer one is cut into pieces of that
/// size, each a line of its own. finish() gives the last line the newline that it lacks.
class LineSplitter {
 public:
  explicit LineSplitter(std::string prefix, std::size_t line_bytes_max = limits::kLineBytesMax)
      : prefix_(std::move(prefix)), line_bytes_max_(line_bytes_max) {}

  /// Appends the lines that are complete now to `out`.
  void feed(std::string_view bytes, std::string& out);
  /// The stream has ended: appends what waited.
  void finish(std::string& out);

 private:
  void hold(std::string_view bytes, std::string& out);

  std::string prefix_;
  std::size_t line_bytes_max_;
  std::string waiting_;  ///< the beginning of a line
};

}  // namespace cxxrun::launcher
