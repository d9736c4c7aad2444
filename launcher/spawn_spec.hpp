// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace cxxrun::launcher {

/// Where one output stream of a worker goes.
enum class Sink {
  Inherit,   ///< the agent's own descriptor, unchanged
  Console,   ///< a pipe; the agent writes whole lines with `prefix` to its own stdout or stderr
  Terminal,  ///< a pseudo-terminal that the agent copies byte by byte: isatty() stays true (one worker,
             ///< stderr)
  File,      ///< `file`, which the worker itself writes
  Discard,   ///< nowhere, but for the last words
};

struct StreamPlan {
  Sink sink = Sink::Inherit;
  std::string prefix{};          ///< Console: put before every line; may be empty
  bool keep_last_words = false;  ///< keep the last lines for the report (not for Inherit)
  std::string json_fields{};     ///< Console: lines become JSON objects with these (JsonLine); empty: no
  std::string file{};            ///< File: its path. Console: every byte goes there too; empty: no file
  std::string copies_file{};  ///< Console: lines that contain one of copied_texts go there too; empty: none
  std::vector<std::string> copied_texts{};
};

/// A descriptor that the worker gets under another number. `from`: ours, 3 or higher, close-on-exec.
struct FdMap {
  int from = -1;
  int to = -1;
};

/// One worker to start. Everything that is not named here is as a plain exec from the same shell would have
/// it.
struct SpawnSpec {
  int local_rank = 0;
  int rank = 0;         ///< global, for messages
  std::string program;  ///< path for exec, no search
  std::vector<std::string> argv;
  std::vector<std::string> env;  ///< complete, "NAME=value"
  std::vector<int> cpus;         ///< CPU numbers, 0 to kCpusMax - 1; empty: inherited
  std::vector<FdMap> fds;        ///< extra descriptors
  bool null_stdin = false;       ///< stdin from the null device instead of ours
  StreamPlan out;
  StreamPlan err;
};

}  // namespace cxxrun::launcher
