// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace cxxrun::agent {

/// The directory where workers leave their error files: one per agent, made at the first round, removed with what is in
/// it at the end. One directory for all ranks and rounds, as each one more costs a start 10 us.
class ErrorDir {
 public:
  ErrorDir() = default;
  ErrorDir(const ErrorDir&) = delete;
  ErrorDir& operator=(const ErrorDir&) = delete;
  ~ErrorDir();

  /// Where local rank `local_rank` writes in `round`; empty where no directory can be made (a read-only file system):
  /// then there are no error files. `temporary`: TMPDIR of the workers, empty: /tmp.
  std::string path(const std::string& temporary, std::int64_t round, int local_rank);

 private:
  std::string directory_;
  bool tried_ = false;
};

}  // namespace cxxrun::agent
