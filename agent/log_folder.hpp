// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "agent/config.hpp"
#include "base/result.hpp"

namespace cxxrun::agent {

/// torchrun's tree of log files, made only where one was asked for:
///
///     <base>/<run id>_<8 random>/attempt_<round>/<local rank>/{stdout.log,stderr.log,error.json}
///
/// Rounds only rise, so nothing is ever overwritten or deleted.
class LogFolder {
 public:
  enum class Mode {
    None,  ///< no log files
    Null,  ///< --log-dir is the null device: no log and error files at all
    Tree,
  };

  /// Makes base and run folder where they are asked for: --log-dir, --redirects or --tee. `temporary`: where
  /// the tree goes without --log-dir; empty: /tmp. Errors: a sentence with the path; then nothing was made
  /// but folders.
  Result<> prepare(const Config& config, const std::string& temporary);
  /// Makes the folders of a round. Errors: as prepare(); then the round has no tree.
  Result<> start_round(std::int64_t round, int workers);

  [[nodiscard]] Mode mode() const { return mode_; }
  [[nodiscard]] const std::string& run_folder() const { return run_folder_; }
  /// Of the running round; empty: it has no log files.
  [[nodiscard]] const std::string& attempt() const { return attempt_; }

 private:
  Mode mode_ = Mode::None;
  std::string run_folder_;
  std::string attempt_;
};

/// TMPDIR of the workers; empty: unset, so /tmp.
[[nodiscard]] std::string temporary_folder(const Config& config);

/// The folder that the first round would have, with "<random>" for the letters that keep runs apart; empty:
/// no log files. Makes nothing.
[[nodiscard]] std::string planned_attempt(const Config& config, const std::string& temporary);

/// The run id as a part of a path: no '/', no control characters, at most 200 bytes.
[[nodiscard]] std::string as_file_name(const std::string& run_id);

}  // namespace cxxrun::agent
