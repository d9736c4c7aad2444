// SPDX-License-Identifier: Apache-2.0
#include "worker/heartbeat.hpp"

#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <string_view>

namespace cxxrun::worker {
namespace {

/// CXXRUN_HEARTBEAT_FD; -1: there is none.
int heartbeat_fd() {
  const char* text = std::getenv("CXXRUN_HEARTBEAT_FD");
  if (text == nullptr) return -1;
  const std::string_view digits = text;
  int fd = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), fd);
  return error == std::errc{} && end == digits.data() + digits.size() && fd > STDERR_FILENO ? fd : -1;
}

/// The pipe is non-blocking: when it is full the launcher has beats enough. A launcher that has gone (EPIPE)
/// takes this process with it anyhow.
void say(char what) noexcept {
  static const int fd = heartbeat_fd();
  if (fd < 0) return;
  const int before = errno;
  [[maybe_unused]] const auto n = ::write(fd, &what, 1);
  errno = before;
}

}  // namespace

void beat() noexcept { say('.'); }
void rest() noexcept { say('-'); }

}  // namespace cxxrun::worker
