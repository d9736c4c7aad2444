// SPDX-License-Identifier: Apache-2.0
#include "launcher/terminal.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstdio>
#include <optional>
#include <string>

#include "base/unique_fd.hpp"
#include "launcher/process_tree.hpp"

namespace cxxrun::launcher {
namespace {

struct JobControl {
  int group = 0;
  int terminal = 0;    ///< device number of the controlling terminal, as stat(5) packs it; 0: none
  int foreground = 0;  ///< process group in front of it
};

std::optional<JobControl> job_control_of(pid_t pid) {
  const UniqueFd fd(::open(("/proc/" + std::to_string(pid) + "/stat").c_str(), O_RDONLY | O_CLOEXEC));
  char bytes[1024];
  const ssize_t n = fd ? ::read(fd.get(), bytes, sizeof bytes - 1) : -1;
  if (n <= 0) return std::nullopt;
  const std::string text(bytes, static_cast<std::size_t>(n));
  const auto after_name = text.rfind(')');
  JobControl out;
  if (after_name == std::string::npos || std::sscanf(text.c_str() + after_name + 1, " %*c %*d %d %*d %d %d",
                                                     &out.group, &out.terminal, &out.foreground) != 3) {
    return std::nullopt;
  }
  return out;
}

}  // namespace

bool terminal_belongs_to_others() {
  struct stat in {};
  if (::isatty(STDIN_FILENO) == 0 || ::fstat(STDIN_FILENO, &in) != 0) return false;
  const auto inner = read_process(::getppid());
  if (!inner) return false;
  const auto outer = job_control_of(inner->parent);
  if (!outer || outer->terminal == 0) return false;
  const auto device = static_cast<unsigned>(outer->terminal);
  const bool same = ((device >> 8) & 0xfffu) == major(in.st_rdev) &&
                    ((device & 0xffu) | ((device >> 12) & 0xfff00u)) == minor(in.st_rdev);
  return same && outer->foreground > 0 && outer->foreground != outer->group;
}

}  // namespace cxxrun::launcher
