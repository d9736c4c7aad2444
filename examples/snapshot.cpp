// SPDX-License-Identifier: Apache-2.0
#include "examples/snapshot.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>

#include "base/unique_fd.hpp"

namespace examples {
namespace {

/// First in the file, in this machine's byte order; `state` follows.
struct Header {
  char magic[8] = {'c', 'h', 'a', 'r', 's', 'n', 'a', 'p'};
  std::int32_t version = 1;
  std::int32_t epochs_done = 0;
  std::uint64_t state_bytes = 0;
  std::uint64_t state_hash = 0;
};
static_assert(sizeof(Header) == 32);

std::uint64_t hash(std::string_view bytes) {
  std::uint64_t value = 0xcbf29ce484222325u;
  for (const char byte : bytes) value = (value ^ static_cast<unsigned char>(byte)) * 0x100000001b3u;
  return value;
}

cxxrun::Result<> write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return cxxrun::errno_error(errno, "write");
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return cxxrun::kOk;
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

}  // namespace

cxxrun::Result<> Snapshot::save(const std::string& path) const {
  Header header;
  header.epochs_done = epochs_done;
  header.state_bytes = state.size();
  header.state_hash = hash(state);
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes += state;

  const std::string draft = path + ".new";
  cxxrun::UniqueFd fd(::open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd) return cxxrun::errno_error(errno, "snapshot " + draft);
  auto written = write_all(fd.get(), bytes);
  if (!written) return std::move(written).error().context("snapshot " + draft);
  if (::fsync(fd.get()) != 0) return cxxrun::errno_error(errno, "snapshot " + draft + ": fsync");
  fd.reset();
  if (::rename(draft.c_str(), path.c_str()) != 0) return cxxrun::errno_error(errno, "snapshot " + path);
  const cxxrun::UniqueFd folder(::open(folder_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder)
    ::fsync(folder.get());  // some file systems cannot: then the old one may come back after a power cut
  return cxxrun::kOk;
}

cxxrun::Result<Snapshot> Snapshot::load(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file && errno == ENOENT) return Snapshot{};
  if (!file) return cxxrun::errno_error(errno, "snapshot " + path);
  const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  Header header;
  const auto damaged = [&] {
    return cxxrun::plain_error("snapshot " + path + " is damaged, or is no snapshot");
  };
  if (bytes.size() < sizeof header || std::memcmp(bytes.data(), header.magic, sizeof header.magic) != 0)
    return damaged();
  std::memcpy(&header, bytes.data(), sizeof header);
  Snapshot snapshot{.epochs_done = header.epochs_done, .state = bytes.substr(sizeof header)};
  if (header.version != 1 || header.epochs_done < 0 || header.state_bytes != snapshot.state.size() ||
      header.state_hash != hash(snapshot.state))
    return damaged();
  return snapshot;
}

}  // namespace examples
