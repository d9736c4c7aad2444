// SPDX-License-Identifier: Apache-2.0
#include "agent/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>

#include "base/unique_fd.hpp"

namespace cxxrun::agent {
namespace {

Result<> write_all(int fd, std::string_view text, const std::string& doing) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_error(errno, doing);
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return kOk;
}

}  // namespace

Result<> replace_file(const std::string& path, std::string_view text) {
  struct stat facts {};
  const bool there = ::stat(path.c_str(), &facts) == 0;
  if (there && !S_ISREG(facts.st_mode)) {
    const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
    if (!fd) return errno_error(errno, path);
    return write_all(fd.get(), text, path);
  }
  // Two agents of one machine may have been told the same path: each writes a draft of its own.
  const std::string draft = path + "." + std::to_string(::getpid()) + ".new";
  const UniqueFd fd(::open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!fd) return errno_error(errno, path);
  auto written = write_all(fd.get(), text, path);
  if (written && ::rename(draft.c_str(), path.c_str()) != 0) written = errno_error(errno, path);
  if (!written) ::unlink(draft.c_str());
  return written;
}

bool write_where_it_is(const std::string& path, std::string_view text) {
  if (path.empty()) return false;
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
  if (!fd) return false;
  struct stat facts {};
  if (::fstat(fd.get(), &facts) == 0 && S_ISREG(facts.st_mode) && ::ftruncate(fd.get(), 0) != 0) return false;
  return write_all(fd.get(), text, path).ok();
}

std::optional<std::string> read_small_file(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return std::nullopt;
  std::array<char, 16u << 10> bytes;
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t n = ::read(file.get(), bytes.data() + filled, bytes.size() - filled);
    if (n < 0) return std::nullopt;
    if (n == 0) break;
    filled += static_cast<std::size_t>(n);
  }
  return std::string(bytes.data(), filled);
}

}  // namespace cxxrun::agent
