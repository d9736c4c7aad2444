// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "launcher/console.hpp"
#include "launcher/log_file.hpp"
#include "launcher/log_pump.hpp"
#include "launcher/spawn_spec.hpp"
#include "launcher/spawner.hpp"

namespace cxxrun::launcher {

/// Both ends of one worker's streams, made before it starts.
struct StreamEnds {
  UniqueFd out_ours, out_its;  ///< none: inherited
  UniqueFd err_ours, err_its;
  bool err_is_terminal = false;
  std::unique_ptr<LogFile> out_file, err_file;  ///< that we write
  std::unique_ptr<LogFile> out_copies, err_copies;
};

/// Errors: out of descriptors; a log file that cannot be made, by its path. `on_file_error`: LogFile.
Result<StreamEnds> open_streams(const SpawnSpec& spec, const LogFile::OnError& on_file_error);

/// The running streams of one worker.
class WorkerStreams {
 public:
  /// `alone`: the only worker, so that bytes without prefix may pass as they come. `on_drained`: each time a
  /// stream ends.
  WorkerStreams(EventLoop& loop, Consoles& consoles, const SpawnSpec& spec, StreamEnds& ends, bool alone,
                const std::function<void()>& on_drained);

  void read_available();
  void close();
  [[nodiscard]] bool drained() const;
  [[nodiscard]] std::vector<std::string> last_words() const;
  [[nodiscard]] std::string last_words_note() const;
  void window_changed();  ///< passes the size of our terminal on to the worker's

 private:
  std::unique_ptr<LogPump> out_;
  std::unique_ptr<LogPump> err_;
  bool keeps_last_words_ = false;
  std::string err_file_;  ///< written by the worker; empty: it writes none
  bool err_is_terminal_ = false;
};

}  // namespace cxxrun::launcher
