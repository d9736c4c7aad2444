// SPDX-License-Identifier: Apache-2.0
#include "launcher/resources.hpp"

#include <dirent.h>

#include <cerrno>

namespace cxxrun::launcher {
namespace {

constexpr rlim_t kOwnDescriptors =
    32;                            ///< loop, signals, store, rendezvous and what one start needs for a moment
constexpr rlim_t kEachWorker = 4;  ///< two pipes, a pidfd, and a connection to the store
constexpr rlim_t kSurelyEnough = 1024;  ///< beside the workers: nobody hands that many to us

std::optional<rlimit>& original() {
  static std::optional<rlimit> limit;
  return limit;
}

rlimit limit_of_descriptors() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return limit;
}

std::string now_text(__rlimit_resource resource) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  return ", " + std::to_string(limit.rlim_cur) + " now";
}

rlim_t open_descriptors() {
  DIR* const dir = ::opendir("/proc/self/fd");
  if (dir == nullptr) return 3;
  rlim_t count = 0;
  while (const dirent* entry = ::readdir(dir)) count += entry->d_name[0] != '.' ? 1 : 0;
  ::closedir(dir);
  return count;
}

}  // namespace

std::string limit_hint(const std::error_code& code) {
  switch (code.value()) {
    case EMFILE: return "; raise the limit of open files (`ulimit -n`" + now_text(RLIMIT_NOFILE) + ")";
    case ENFILE: return "; the machine has no open file left (sysctl fs.file-max)";
    case EAGAIN:
      return "; raise the limit of processes (`ulimit -u`" + now_text(RLIMIT_NPROC) +
             ", or pids.max of the cgroup)";
    case ENOMEM: return "; memory is short (`ulimit -v`, or memory.max of the cgroup)";
    default: return {};
  }
}

void raise_descriptor_limit() {
  const rlimit before = limit_of_descriptors();
  if (before.rlim_cur >= before.rlim_max) return;
  const rlimit raised{before.rlim_max, before.rlim_max};
  if (::setrlimit(RLIMIT_NOFILE, &raised) == 0) original() = before;
}

const std::optional<rlimit>& original_descriptor_limit() { return original(); }

Result<> check_descriptors(int workers) {
  const rlim_t limit = limit_of_descriptors().rlim_cur;
  const rlim_t ours = kOwnDescriptors + kEachWorker * static_cast<rlim_t>(workers);
  if (limit >= ours + kSurelyEnough) return kOk;
  const rlim_t needed = open_descriptors() + ours;
  if (limit >= needed) return kOk;
  const std::error_code code(EMFILE, std::generic_category());
  return Error{code, std::to_string(workers) + (workers == 1 ? " worker needs " : " workers need ") +
                         std::to_string(needed) + " open files here" + limit_hint(code)};
}

}  // namespace cxxrun::launcher
