// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/time.hpp"

namespace cxxrun::launcher {

/// One process as /proc/PID/stat shows it.
struct Process {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t session = 0;
  char state = '?';               ///< R, S, D, T, Z, ...
  std::uint64_t start_ticks = 0;  ///< with pid: names a process for good, also after the pid was used again
};

/// Nothing: no such process (any more).
[[nodiscard]] std::optional<Process> read_process(pid_t pid);

/// Direct children of a process, zombies included. Works without /proc/PID/task/*/children too, slowly.
[[nodiscard]] std::vector<pid_t> children_of(pid_t pid);

/// Everything below `root`, parents before their children, zombies included; `skip` and what is below those
/// left out.
[[nodiscard]] std::vector<Process> descendants_of(pid_t root, const std::vector<pid_t>& skip = {});

/// The value of a variable in the environment that the process was started with.
[[nodiscard]] std::optional<std::string> environment_value(pid_t pid, const std::string& name);

/// What the process runs, for people: its command line without control characters, else its name in brackets;
/// at most `bytes_max` of it.
[[nodiscard]] std::string command_of(pid_t pid, std::size_t bytes_max = 60);

/// Signals exactly that process: false if it has ended, or its pid has been used again.
bool signal_process(const Process& process, int signo);

/// True while the calling process has any child (zombies included), without reaping one.
[[nodiscard]] bool has_children();

struct SweepOptions {
  std::vector<pid_t> keep;                    ///< children that are not ours to end
  pid_t keep_session = -1;                    ///< members of this session are not ours to end
  Duration limit = std::chrono::seconds(10);  ///< for all to be gone
};
struct Swept {
  int killed = 0;            ///< processes that were alive and got SIGKILL
  std::vector<pid_t> stuck;  ///< those still there at the limit (state D)
};

/// SIGKILLs every descendant of the calling process, again and again until a look finds no new one, and reaps
/// all that fall to us. Needs the caller to be a child subreaper (or PID 1) to be complete. Blocks for
/// `limit` at most. For the last moments of a process: the guardian's when the agent has ended, the agent's
/// when the guardian has.
Swept sweep_descendants(const SweepOptions& options = {});

}  // namespace cxxrun::launcher
