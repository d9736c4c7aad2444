// SPDX-License-Identifier: Apache-2.0
#include "worker/error_record.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/limits.hpp"
#include "base/unique_fd.hpp"

namespace cxxrun::worker {
namespace {

// A byte may become six in JSON, and the whole must stay below kErrorFileBytesMax.
constexpr std::size_t kMessageBytesMax = 64u << 10;
constexpr std::size_t kDetailsBytesMax = 64u << 10;
static_assert(6 * (kMessageBytesMax + kDetailsBytesMax) + 1024 < limits::kErrorFileBytesMax);

Result<> write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_error(errno, "write");
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return kOk;
}

}  // namespace

std::string error_record_json(std::string_view kind, std::string_view message, std::string_view details,
                              long long seconds) {
  std::string sentence(kind);
  sentence += ": ";
  sentence += message;
  sentence.resize(std::min(sentence.size(), kMessageBytesMax));
  const nlohmann::json record = {{"message",
                                  {{"message", sentence},
                                   {"extraInfo",
                                    {{"py_callstack", std::string(details.substr(0, kDetailsBytesMax))},
                                     {"timestamp", std::to_string(seconds)}}}}}};
  return record.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Result<> write_error_record(std::string_view kind, std::string_view message, std::string_view details) {
  const char* path = std::getenv("TORCHELASTIC_ERROR_FILE");
  if (path == nullptr || *path == '\0') return kOk;
  const std::string doing = std::string("error record ") + path;
  const std::string draft = std::string(path) + ".new";
  const UniqueFd fd(::open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd) return errno_error(errno, doing);
  auto written = write_all(fd.get(), error_record_json(kind, message, details, std::time(nullptr)));
  if (!written) return std::move(written).error().context(doing);
  if (::rename(draft.c_str(), path) != 0) return errno_error(errno, doing);
  return kOk;
}

}  // namespace cxxrun::worker
