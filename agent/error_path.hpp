// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace cxxrun::agent {

/// A path in `temporary` (empty: /tmp) that nobody else can guess. Makes nothing.
[[nodiscard]] std::string private_path(const std::string& temporary);

/// Where workers leave their error files: names that nobody else can guess, straight in the temporary
/// directory, so that a job whose workers write none touches no file system at all (docs/adr/0005).
class ErrorPaths {
 public:
  /// `temporary`: TMPDIR of the workers; empty: /tmp.
  explicit ErrorPaths(const std::string& temporary);

  [[nodiscard]] std::string path(std::int64_t round, int local_rank) const;

 private:
  std::string prefix_;
};

}  // namespace cxxrun::agent
