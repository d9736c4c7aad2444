// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dirent.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/process_tree.hpp"
#include "launcher/worker_set.hpp"

extern char** environ;

namespace cxxrun::launcher::test {

using namespace std::chrono_literals;

inline constexpr auto kPatience = 60s;  ///< for what takes milliseconds, on a loaded machine

/// A directory that is gone with its owner.
class TempDir {
 public:
  TempDir() {
    char path[] = "/tmp/cxxrun-launcher-XXXXXX";
    path_ = ::mkdtemp(path);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() {
    if (DIR* dir = ::opendir(path_.c_str())) {
      while (const dirent* entry = ::readdir(dir)) ::unlink((path_ + "/" + entry->d_name).c_str());
      ::closedir(dir);
    }
    ::rmdir(path_.c_str());
  }
  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline std::string read_text(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}
inline bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

/// The number in a file; 0 while there is none.
inline pid_t read_pid(const std::string& path) { return std::atoi(read_text(path).c_str()); }

inline std::set<std::string> open_descriptors(const std::string& of = "self") {
  std::set<std::string> found;
  if (DIR* dir = ::opendir(("/proc/" + of + "/fd").c_str())) {
    while (const dirent* entry = ::readdir(dir)) found.insert(entry->d_name);
    ::closedir(dir);
  }
  return found;
}

/// A worker that is `sh -c script`, with our environment and its RANK.
inline SpawnSpec shell(const std::string& script, int local_rank = 0) {
  SpawnSpec spec;
  spec.local_rank = local_rank;
  spec.rank = local_rank;
  spec.program = "/bin/sh";
  spec.argv = {"sh", "-c", script};
  for (char** entry = environ; *entry != nullptr; ++entry) spec.env.emplace_back(*entry);
  spec.env.push_back("RANK=" + std::to_string(local_rank));
  return spec;
}

/// A set of workers on a loop of its own, and what it reported.
struct Run {
  EventLoop loop;
  std::vector<Ended> ended;
  std::optional<std::vector<Stuck>> gone;
  std::vector<std::string> notes;
  int failed_local_rank = -1;
  std::unique_ptr<WorkerSet> set;

  Result<> start(std::vector<SpawnSpec> specs, SetOptions options = {}) {
    SetHandlers handlers;
    handlers.on_ended = [this](const Ended& worker) { ended.push_back(worker); };
    handlers.on_gone = [this](std::vector<Stuck> stuck) { gone = std::move(stuck); };
    handlers.on_note = [this](const std::string& text) { notes.push_back(text); };
    auto started =
        WorkerSet::start(loop, std::move(specs), std::move(options), std::move(handlers), &failed_local_rank);
    if (!started) return std::move(started).error();
    set = std::move(*started);
    return kOk;
  }

  /// Turns the loop until `done`; also looks every few milliseconds, for what other processes do.
  template <class Done>
  bool until(Done done, Duration patience = kPatience) {
    const Time deadline = EventLoop::now() + patience;
    while (!done()) {
      if (EventLoop::now() >= deadline) return false;
      loop.run_once(std::min(deadline, EventLoop::now() + 5ms));
    }
    return true;
  }
  bool until_gone() {
    return until([this] { return gone.has_value(); });
  }
};

}  // namespace cxxrun::launcher::test
