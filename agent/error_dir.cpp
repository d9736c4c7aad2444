// SPDX-License-Identifier: Apache-2.0
#include "agent/error_dir.hpp"

#include <dirent.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>

namespace cxxrun::agent {

std::string ErrorDir::path(const std::string& temporary, std::int64_t round, int local_rank) {
  if (!tried_) {
    tried_ = true;
    std::string made = (temporary.empty() ? "/tmp" : temporary) + "/cxxrun_XXXXXX";
    if (::mkdtemp(made.data()) != nullptr) directory_ = std::move(made);
  }
  if (directory_.empty()) return {};
  return directory_ + "/error_" + std::to_string(round) + "_" + std::to_string(local_rank) + ".json";
}

ErrorDir::~ErrorDir() {
  if (directory_.empty() || ::rmdir(directory_.c_str()) == 0) return;   // empty in the common case
  struct Close { void operator()(DIR* dir) const { ::closedir(dir); } };
  if (const std::unique_ptr<DIR, Close> dir{::opendir(directory_.c_str())}) {
    while (const dirent* entry = ::readdir(dir.get())) {   // NOLINT(concurrency-mt-unsafe): this stream is ours
      ::unlinkat(::dirfd(dir.get()), entry->d_name, 0);    // fails on . and .., as it should
    }
  }
  ::rmdir(directory_.c_str());
}

}  // namespace cxxrun::agent
