// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace cxxrun::agent {

/// Where workers leave their error files: names that nobody else can guess, straight in the temporary
/// directory, so that a job whose workers write none touches no file system at all (docs/adr/0005).
class ErrorPaths {
 public:
  /// `temporary`: TMPDIR of the workers; empty: /tmp.
  explicit ErrorPaths(std::string temporary);

  [[nodiscard]] std::string path(std::int64_t round, int local_rank) const;

 private:
  std::string prefix_;
};

}  // namespace cxxrun::agent
