// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bitset>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/spawn_spec.hpp"
#include "rendezvous/config.hpp"
#include "worker_env/environ.hpp"
#include "worker_env/topology.hpp"

namespace cxxrun::agent {

using namespace std::chrono_literals;

/// What a worker executes; the same for all local ranks but for the macro ${local_rank} in `argv`.
struct Program {
  std::string path;               ///< for exec, looked up already
  std::vector<std::string> argv;  ///< argv[0] included
  bool python = false;            ///< run by a Python interpreter
  std::string name;               ///< for people: the script, module or program as it was typed
};

/// How the store admits clients: members of the round, everybody, or prefixes.
struct StoreAdmission {
  enum class Mode { Members, Any, Prefixes } mode = Mode::Members;
  std::vector<std::string> prefixes;
};

/// What -r and -t choose for each local rank: bits, 1 stdout, 2 stderr.
struct StreamMap {
  unsigned all = 0;                   ///< 0 to 3, for every local rank, where by_rank is empty
  std::map<int, unsigned> by_rank{};  ///< not empty: a local rank that it does not name has 0
  [[nodiscard]] unsigned of(int local_rank) const {
    if (by_rank.empty()) return all;
    const auto found = by_rank.find(local_rank);
    return found == by_rank.end() ? 0 : found->second;
  }
  bool operator==(const StreamMap&) const = default;
};

/// Where the workers' output goes, and how it looks.
struct LogOptions {
  enum class Format { Text, Json };
  std::string log_dir;                                 ///< --log-dir; empty: not given
  StreamMap redirects;                                 ///< to files
  StreamMap tee;                                       ///< to files and to the console
  std::optional<std::vector<int>> local_ranks_filter;  ///< local ranks that may reach the console; unset: all
  std::optional<std::vector<int>> ranks_filter;        ///< the same by global rank
  std::string prefix_template;  ///< ${role_name}, ${local_rank}, ${rank}, ...; empty: the default
  std::vector<std::string> duplicate_stdout_filters;  ///< plain substrings, none empty; no entry: no filter
  std::vector<std::string> duplicate_stderr_filters;
  Format format = Format::Text;
};

/// What a failure means, and who is told.
struct FailureOptions {
  /// Ends of a job whose exit code the user may choose.
  enum class Class { Usage, Rendezvous, LostNode, Stopped, PeerFailed };
  std::optional<std::bitset<256>> restart_exit_codes;  ///< only these (128 + n: signal n) restart; unset: all
  std::bitset<256> no_restart_exit_codes;              ///< these do not
  std::array<std::optional<int>, 5> exit_codes;  ///< by Class, 0 to 255; unset: as docs/exit-codes.md has it
  std::string result_file;                       ///< JSON about the end; empty: none
  /// Written only where it exists already; empty: none.
  std::string termination_log = "/dev/termination-log";
};

/// What stops the job, and who owns the terminal.
struct SignalOptions {
  std::string to_handle = "SIGTERM,SIGINT,SIGHUP,SIGQUIT";  ///< as given, for TORCHELASTIC_SIGNALS_TO_HANDLE
  std::vector<int> handled{SIGTERM, SIGINT, SIGHUP,
                           SIGQUIT};  ///< the same as numbers, each once, none that cannot be caught
  std::chrono::milliseconds shutdown_timeout{30s};  ///< from the stop signal to SIGKILL
  std::optional<int> stdin_rank;                    ///< local rank that reads our stdin; unset: as ever
};

/// CPUs and devices of the workers.
struct PlacementOptions {
  using Numa = worker_env::Binding;
  std::optional<Numa> numa_binding;  ///< unset: nothing is bound
  bool virtual_local_rank = false;   ///< LOCAL_RANK=0 and one device for each worker
  std::vector<std::string> gpus;  ///< --gpus: indices, GPU-... or MIG-... names, as given; empty: not given
  // What follows, by local rank:
  std::vector<worker_env::CpuSet> cpus;      ///< empty: nothing is bound
  std::vector<int> threads;                  ///< OMP_NUM_THREADS where CPUs are bound; empty: by usable_cpus
  std::vector<worker_env::Variables> masks;  ///< device masks that differ from ours; empty: none does
};

/// Where lines about the job go.
struct LineSink {
  enum class Kind { None, Console, File } kind = Kind::None;
  std::string path;  ///< of File
  bool operator==(const LineSink&) const = default;
};

/// Watching the workers, and telling others.
struct WatchOptions {
  std::chrono::milliseconds heartbeat_timeout{0};  ///< silence of a worker that has beaten; 0: not watched
  std::uint16_t health_check_port = 0;             ///< 0: none
  LineSink events;                                 ///< --event-log-handler
  LineSink metrics;                                ///< --metrics
  bool file_timer = false;                         ///< TORCHELASTIC_ENABLE_FILE_TIMER=1
  std::string timer_file;                          ///< TORCHELASTIC_TIMER_FILE; empty: one of our own
};

/// Everything one agent needs. Plain data, validated by cli/plan.
struct Config {
  rendezvous::Config rendezvous;
  Program program;
  std::vector<std::string> environment;  ///< our own, for the workers
  LogOptions logs;
  FailureOptions failures;
  SignalOptions signals;
  PlacementOptions placement;
  WatchOptions watch;
  int usable_cpus = 1;
  bool terminal = false;        ///< stderr is a terminal
  bool stderr_inherit = false;  ///< --stderr=inherit
  StoreAdmission store_admission;
  std::size_t store_value_bytes_max = 0;  ///< 0: the default
};

}  // namespace cxxrun::agent
