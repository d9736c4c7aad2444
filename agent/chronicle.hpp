// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/agent.hpp"
#include "agent/config.hpp"
#include "agent/ending.hpp"
#include "agent/error_file.hpp"
#include "agent/events.hpp"
#include "agent/failure_report.hpp"
#include "agent/machine.hpp"
#include "agent/memory_cgroup.hpp"
#include "agent/result_file.hpp"
#include "base/failure.hpp"
#include "base/time.hpp"
#include "launcher/worker_set.hpp"
#include "rendezvous/member.hpp"

namespace cxxrun::agent {

/// What one agent saw, from its start to its end, and whom it tells: the records of failures, the report, the
/// result file, the termination log, events and metrics. Decides nothing but the code that the user chose.
class Chronicle {
 public:
  /// `console`: takes whole lines as they are; `say`: takes a sentence.
  Chronicle(const Config& config, std::function<void(std::string_view)> console,
            std::function<void(const std::string&)> say);

  void joining();
  void round_started(const World& world);
  /// A moment after the workers were started, off their way: what the kernel has counted up to now.
  void look_at_memory();
  void workers_started(const launcher::WorkerSet& workers);
  /// For a keep-alive: one small read, two more near the limit; none before look_at_memory().
  rendezvous::MemoryUse memory_use();
  [[nodiscard]] std::int64_t round() const { return world_ ? world_->round : -1; }  ///< the last; -1: none
  void stopping();  ///< our stop signal goes out now
  /// Reads the worker's error file, and removes it unless `kept`. The record that every node will print,
  /// where the worker failed by itself.
  std::optional<Failure> worker_ended(const launcher::Ended& ended, const std::string& error_path,
                                      bool kept = false);
  /// All or none: those before `local_rank` were killed again, those after it never ran.
  Failure start_failed(int local_rank, int exit_code, const std::string& why);
  /// A worker of the last round got SIGPIPE from our own stdout, as after `| head`: no news for its node.
  [[nodiscard]] bool pipeline_ended() const { return pipeline_ended_; }
  void closed(const rendezvous::Closed& closed);

  /// The end: says and writes everything. `reason`: where the rendezvous gave none. How the process shall
  /// end.
  End finish(const Finish& order, const std::string& reason = "");

 private:
  [[nodiscard]] Failure nobody_yet() const;
  [[nodiscard]] bool failed_by_itself(const launcher::Ended& ended,
                                      const std::optional<ErrorFile>& file) const;
  Failure describe(const launcher::Ended& ended, std::optional<ErrorFile> file);
  void add_memory_evidence(Failure& failure);
  void keep(const Failure& failure);
  void tell_worker_end(const launcher::Ended& ended, const std::optional<Failure>& failure);
  void tell_end(const Ending& ending, const std::string& reason);
  void report(const Ending& ending);
  void copy_error_file() const;
  void write_result(const Ending& ending, const std::string& reason);

  const Config& config_;
  std::function<void(std::string_view)> console_;
  std::function<void(const std::string&)> say_;
  Telling telling_;
  std::chrono::milliseconds started_wall_;
  std::chrono::milliseconds stopping_wall_{0};  ///< our stop signal to the last round; 0: none yet
  Time joining_since_{};
  Duration joining_{0};
  int rounds_ = 0;
  std::optional<World> world_;              ///< of the last round
  std::vector<WorkerEnd> ends_;             ///< by local rank, of the last round
  std::deque<Failure> failures_;            ///< the latest, of all rounds
  std::map<int, std::string> error_files_;  ///< by local rank: what they wrote, for a copy; of the last round
  std::string copy_to_;                     ///< our own TORCHELASTIC_ERROR_FILE; empty: none
  std::optional<MemoryCgroup> memory_;
  std::optional<MemoryCounts> memory_before_;
  Time memory_seen_{};
  std::optional<std::uint64_t> memory_limit_;  ///< bytes; 0: none; unset: nobody asked yet
  bool memory_looked_ = false;
  std::optional<rendezvous::Closed> closed_;
  bool pipeline_ended_ = false;
};

}  // namespace cxxrun::agent
