// SPDX-License-Identifier: Apache-2.0
#include "launcher/log_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace cxxrun::launcher {

Result<UniqueFd> open_log(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0666));
  if (!file) return errno_error(errno, "log file " + path);
  return file;
}

std::string end_of_file(const std::string& path, std::size_t bytes_max) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat info {};
  if (!file || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return {};
  std::string out(std::min(bytes_max, static_cast<std::size_t>(info.st_size)), '\0');
  const ssize_t n =
      ::pread(file.get(), out.data(), out.size(), info.st_size - static_cast<off_t>(out.size()));
  out.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return out;
}

Result<std::unique_ptr<LogFile>> LogFile::open(const std::string& path, OnError on_error) {
  auto file = open_log(path);
  if (!file) return std::move(file).error();
  return std::make_unique<LogFile>(std::move(*file), path, std::move(on_error));
}

void LogFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      if (on_error_) on_error_(path_, n < 0 ? errno : ENOSPC);
      return;
    }
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

void LineCopier::feed(std::string_view bytes) {
  lines_.feed(bytes, scratch_);
  copy_matches();
}

void LineCopier::finish() {
  lines_.finish(scratch_);
  copy_matches();
}

void LineCopier::copy_matches() {
  const std::string_view all = scratch_;
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t end = std::min(all.find('\n', at + prefix_bytes_), all.size() - 1) + 1;
    const std::string_view line = all.substr(at + prefix_bytes_, end - at - prefix_bytes_);
    const bool found = std::any_of(texts_.begin(), texts_.end(), [&](const std::string& text) {
      return line.find(text) != std::string_view::npos;
    });
    if (found) matches_ += all.substr(at, end - at);
    at = end;
  }
  scratch_.clear();
  if (!matches_.empty()) file_->write(matches_);  // in one piece: other ranks write there too
  matches_.clear();
}

}  // namespace cxxrun::launcher
