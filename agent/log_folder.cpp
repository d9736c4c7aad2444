// SPDX-License-Identifier: Apache-2.0
#include "agent/log_folder.hpp"

#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <system_error>

namespace cxxrun::agent {
namespace {

constexpr std::size_t kRandomLetters = 8;
constexpr int kTries = 8;  ///< a name that is taken already: another
constexpr mode_t kPrivate = 0700;

std::string letters() {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz012345";
  unsigned char dice[kRandomLetters] = {};
  [[maybe_unused]] const auto n = ::getrandom(dice, sizeof dice, 0);
  std::string out;
  for (const unsigned char die : dice) out += kLetters[die % kLetters.size()];
  return out;
}

/// As for people: what could not be done with which path, and why.
Error cannot(const std::string& what, const std::string& path, int error) {
  const std::error_code code(error, std::generic_category());
  return {code, what + " " + path + ": " + code.message()};
}

bool is_folder(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

Result<> make_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0777) == 0 || (errno == EEXIST && is_folder(path))) return kOk;
  const int error = errno == EEXIST ? ENOTDIR : errno;
  return cannot("cannot make the log folder", path, error);
}

Result<> make_with_parents(const std::string& path) {
  for (std::size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1)) {
    const std::string parent = path.substr(0, at);
    if (!is_folder(parent)) {
      if (auto made = make_folder(parent); !made) return made;
    }
  }
  return make_folder(path);
}

/// `prefix` and random letters; only we may look into it.
Result<std::string> make_private(const std::string& prefix) {
  int error = 0;
  for (int i = 0; i < kTries; ++i) {
    std::string path = prefix + letters();
    if (::mkdir(path.c_str(), kPrivate) == 0) return path;
    error = errno;
    if (error != EEXIST) break;
  }
  return cannot("cannot make the log folder", prefix + "...", error);
}

/// A folder can be made where no file can.
Result<> check_space(const std::string& path) {
  struct statvfs info {};
  if (::statvfs(path.c_str(), &info) == 0 && info.f_blocks > 0 && info.f_bavail == 0)
    return cannot("no log file can be written in", path, ENOSPC);
  return kOk;
}

bool is_null_device(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISCHR(info.st_mode) && info.st_rdev == ::makedev(1, 3);
}

bool any_stream(const StreamMap& map, int workers) {
  if (map.by_rank.empty()) return map.all != 0;
  for (const auto& [local_rank, bits] : map.by_rank) {
    if (local_rank < workers && bits != 0) return true;
  }
  return false;
}

bool wanted(const Config& config) {
  const int workers = config.rendezvous.local_world_size;
  const LogOptions& logs = config.logs;
  return !logs.log_dir.empty() || any_stream(logs.redirects, workers) || any_stream(logs.tee, workers);
}

}  // namespace

std::string temporary_folder(const Config& config) {
  for (const auto& entry : config.environment) {
    if (entry.starts_with("TMPDIR=")) return entry.substr(7);
  }
  return {};
}

std::string planned_attempt(const Config& config, const std::string& temporary) {
  if (!wanted(config) || is_null_device(config.logs.log_dir)) return {};
  std::string base = config.logs.log_dir;
  if (base.empty()) base = (temporary.empty() ? "/tmp" : temporary) + "/torchelastic_<random>";
  while (base.size() > 1 && base.ends_with('/')) base.pop_back();
  return base + "/" + as_file_name(config.rendezvous.run_id) + "_<random>/attempt_0";
}

std::string as_file_name(const std::string& run_id) {
  constexpr std::size_t kBytesMax = 200;
  std::string out = run_id.substr(0, kBytesMax);
  if (run_id.size() > kBytesMax) {
    while (!out.empty() && (static_cast<unsigned char>(run_id[out.size()]) & 0xc0) == 0x80) out.pop_back();
  }
  for (char& c : out) {
    if (c == '/' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '_';
  }
  return out;
}

Result<> LogFolder::prepare(const Config& config, const std::string& temporary) {
  const LogOptions& logs = config.logs;
  if (!logs.log_dir.empty() && is_null_device(logs.log_dir)) {
    mode_ = Mode::Null;
    return kOk;
  }
  if (!wanted(config)) return kOk;
  std::string base = logs.log_dir;
  if (base.empty()) {
    auto made = make_private((temporary.empty() ? "/tmp" : temporary) + "/torchelastic_");
    if (!made) return std::move(made).error();
    base = *made;
  } else if (auto made = make_with_parents(base); !made) {
    return made;
  }
  while (base.size() > 1 && base.ends_with('/')) base.pop_back();
  auto run_folder = make_private(base + "/" + as_file_name(config.rendezvous.run_id) + "_");
  if (!run_folder) return std::move(run_folder).error();
  run_folder_ = std::move(*run_folder);
  mode_ = Mode::Tree;
  return check_space(run_folder_);
}

Result<> LogFolder::start_round(std::int64_t round, int workers) {
  attempt_.clear();
  if (mode_ != Mode::Tree) return kOk;
  const std::string folder = run_folder_ + "/attempt_" + std::to_string(round);
  if (auto made = make_folder(folder); !made) return made;
  for (int i = 0; i < workers; ++i) {
    if (auto made = make_folder(folder + "/" + std::to_string(i)); !made) return made;
  }
  attempt_ = folder;
  return kOk;
}

}  // namespace cxxrun::agent
