// SPDX-License-Identifier: Apache-2.0
#include "launcher/process_tree.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/unique_fd.hpp"

namespace cxxrun::launcher {
namespace {

constexpr std::size_t kEnvironmentBytesMax = 4u << 20;
constexpr int kPassesMax = 64;  // looks without a pause; after that the sweep waits for an end or a moment

struct CloseDir {
  void operator()(DIR* dir) const { ::closedir(dir); }
};
using Dir = std::unique_ptr<DIR, CloseDir>;

/// The whole of a small /proc file; empty if it cannot be read.
std::string read_file(const char* path, std::size_t bytes_max) {
  std::string text;
  const UniqueFd fd(::open(path, O_RDONLY | O_CLOEXEC));
  if (!fd) return text;
  char chunk[4096];
  while (text.size() < bytes_max) {
    const ssize_t n = ::read(fd.get(), chunk, sizeof chunk);
    if (n <= 0) break;
    text.append(chunk, static_cast<std::size_t>(n));
  }
  return text;
}

void append_pids(const std::string& text, std::vector<pid_t>& out) {
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    pid_t pid = 0;
    const auto [next, error] = std::from_chars(at, end, pid);
    if (error == std::errc{} && pid > 0) out.push_back(pid);
    at = next + 1;  // one blank after each number
  }
}

/// Calls `use` with each number that names an entry of a /proc directory.
template <class Use>
void for_each_number(const char* path, Use use) {
  const Dir dir(::opendir(path));
  if (!dir) return;
  while (const dirent* entry = ::readdir(dir.get())) {
    const pid_t number = static_cast<pid_t>(std::atoi(entry->d_name));
    if (number > 0) use(number);
  }
}

bool kernel_lists_children() {
  static const bool yes = ::access("/proc/thread-self/children", R_OK) == 0;
  return yes;
}

std::vector<pid_t> children_by_parent(pid_t pid) {
  std::vector<pid_t> found;
  for_each_number("/proc", [&](pid_t candidate) {
    const auto process = read_process(candidate);
    if (process && process->parent == pid) found.push_back(candidate);
  });
  return found;
}

bool contains(const std::vector<pid_t>& pids, pid_t pid) {
  return std::find(pids.begin(), pids.end(), pid) != pids.end();
}

/// Reaps those children that have ended, but for `keep`.
void reap_children(const std::vector<pid_t>& keep) {
  for (const pid_t child : children_of(::getpid())) {
    siginfo_t info{};
    if (!contains(keep, child)) ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | __WALL);
  }
}

/// What is below us and not to be kept.
std::vector<Process> targets(const SweepOptions& options) {
  std::vector<Process> found = descendants_of(::getpid(), options.keep);
  std::erase_if(found, [&](const Process& process) { return process.session == options.keep_session; });
  return found;
}

/// Kills every target that is new; parents come first, and a process with SIGKILL pending cannot fork.
/// Returns how many were new and alive.
int kill_new(const std::vector<Process>& found, std::vector<Process>& known) {
  int fresh = 0;
  for (const Process& process : found) {
    const bool seen = std::any_of(known.begin(), known.end(), [&](const Process& other) {
      return other.pid == process.pid && other.start_ticks == process.start_ticks;
    });
    if (seen || process.state == 'Z' || process.state == 'X') continue;
    known.push_back(process);
    if (signal_process(process, SIGKILL)) ++fresh;
  }
  return fresh;
}

}  // namespace

std::optional<Process> read_process(pid_t pid) {
  char path[48];
  std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
  const std::string text = read_file(path, 4096);
  // The name may hold blanks and parentheses: the fields start after the last one.
  const auto name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  Process process;
  process.pid = pid;
  long long start = 0;
  int group = 0;
  const int fields =
      std::sscanf(text.c_str() + name_end + 1,
                  " %c %d %d %d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %lld",
                  &process.state, &process.parent, &group, &process.session, &start);
  if (fields != 5) return std::nullopt;
  process.start_ticks = static_cast<std::uint64_t>(start);
  return process;
}

std::vector<pid_t> children_of(pid_t pid) {
  if (!kernel_lists_children()) return children_by_parent(pid);
  std::vector<pid_t> found;
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/task", pid);
  for_each_number(path, [&](pid_t thread) {
    std::snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, thread);
    append_pids(read_file(path, std::size_t{16} << 20), found);
  });
  return found;
}

std::vector<Process> descendants_of(pid_t root, const std::vector<pid_t>& skip) {
  std::vector<Process> found;
  const auto add_children = [&](pid_t parent) {
    for (const pid_t child : children_of(parent)) {
      if (contains(skip, child)) continue;
      if (const auto process = read_process(child)) found.push_back(*process);
    }
  };
  add_children(root);
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i].state != 'Z') add_children(found[i].pid);  // a zombie's children have another parent by now
  }
  return found;
}

std::optional<std::string> environment_value(pid_t pid, const std::string& name) {
  char path[48];
  std::snprintf(path, sizeof path, "/proc/%d/environ", pid);
  const std::string block = read_file(path, kEnvironmentBytesMax);
  const std::string wanted = name + "=";
  for (std::size_t at = 0; at < block.size();) {
    const std::size_t end = std::min(block.find('\0', at), block.size());
    if (block.compare(at, wanted.size(), wanted) == 0) {
      return block.substr(at + wanted.size(), end - at - wanted.size());
    }
    at = end + 1;
  }
  return std::nullopt;
}

std::string command_of(pid_t pid, std::size_t bytes_max) {
  char path[48];
  std::snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
  std::string text = read_file(path, 4096);
  if (text.empty()) {
    std::snprintf(path, sizeof path, "/proc/%d/comm", pid);
    text = read_file(path, 64);
    while (text.ends_with('\n')) text.pop_back();
    text = "[" + text + "]";
  }
  while (text.ends_with('\0')) text.pop_back();
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\0') {
      c = ' ';
    } else if (byte < 0x20 || byte == 0x7f) {
      c = '?';
    }
  }
  if (text.size() > bytes_max) text.replace(bytes_max - 3, std::string::npos, "...");
  return text;
}

bool signal_process(const Process& process, int signo) {
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
  if (!pidfd) {
    // No pidfd (out of descriptors): the check below still stands, with a gap of microseconds.
    const auto current = errno == ESRCH ? std::nullopt : read_process(process.pid);
    return current && current->start_ticks == process.start_ticks && ::kill(process.pid, signo) == 0;
  }
  const auto current = read_process(process.pid);
  if (!current || current->start_ticks != process.start_ticks) return false;
  return ::syscall(SYS_pidfd_send_signal, pidfd.get(), signo, nullptr, 0) == 0;
}

bool has_children() {
  siginfo_t info{};
  return ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0;
}

Swept sweep_descendants(const SweepOptions& options) {
  Swept swept;
  if (!has_children()) return swept;
  sigset_t child_ended;
  sigset_t before;
  ::sigemptyset(&child_ended);
  ::sigaddset(&child_ended, SIGCHLD);
  ::pthread_sigmask(SIG_BLOCK, &child_ended, &before);
  const Time deadline = std::chrono::steady_clock::now() + options.limit;
  std::vector<Process> known;
  for (int pass = 0;; ++pass) {
    const auto found = targets(options);
    const int fresh = kill_new(found, known);
    swept.killed += fresh;
    if (fresh > 0 && pass < kPassesMax) continue;
    reap_children(options.keep);
    const auto left = targets(options);
    if (left.empty()) break;
    const Duration remaining = deadline - std::chrono::steady_clock::now();
    if (remaining <= Duration::zero()) {
      for (const Process& process : left) swept.stuck.push_back(process.pid);
      break;
    }
    // The end of each child is told; the limit is for a last one that was told before this wait began.
    const Duration wait = std::min<Duration>(remaining, std::chrono::milliseconds(50));
    const timespec limit{0, static_cast<long>(wait.count())};
    ::sigtimedwait(&child_ended, nullptr, &limit);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return swept;
}

}  // namespace cxxrun::launcher
