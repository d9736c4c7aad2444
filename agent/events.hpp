// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "agent/config.hpp"
#include "base/exit_status.hpp"
#include "base/unique_fd.hpp"
#include "base/world.hpp"

namespace cxxrun::agent {

/// Events and metrics: lines of JSON about the workers and the agent, in torchrun's words
/// (--event-log-handler, --metrics). A sink that is off costs nothing.
class Telling {
 public:
  /// `console`: takes a whole line, newline included. `note`: says once that a file cannot be written.
  Telling(const Config& config, std::function<void(std::string_view)> console,
          std::function<void(const std::string&)> note);

  [[nodiscard]] bool events() const { return events_.kind() != LineSink::Kind::None; }
  [[nodiscard]] bool metrics() const { return metrics_.kind() != LineSink::Kind::None; }

  /// One event. `state`: RENDEZVOUS, START, SUCCEEDED, FAILED, TERMINATED, ...
  struct Event {
    bool of_agent = true;
    std::string_view state;
    const World* world = nullptr;  ///< unset: no round was started yet
    int local_rank = -1;           ///< of a worker's event
    long pid = 0;                  ///< of the worker; 0: unknown
    std::string error{};
    std::optional<ExitStatus> status{};
    std::optional<std::chrono::milliseconds> duration{};
  };
  void tell(const Event& event);
  /// "workers.<role>.<name>"
  void measure(std::string_view name, double value);
  /// All that is known at the end of the run.
  void measure_end(bool failed, int restarts);

 private:
  class Sink {
   public:
    explicit Sink(const LineSink& options) : options_(options) {}
    [[nodiscard]] LineSink::Kind kind() const { return options_.kind; }
    void write(const std::string& line, Telling& telling);

   private:
    LineSink options_;
    UniqueFd file_;
    bool broken_ = false;
  };
  [[nodiscard]] std::string metric_line(std::string_view name, double value) const;

  const Config& config_;
  std::function<void(std::string_view)> console_;
  std::function<void(const std::string&)> note_;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  Sink events_;
  Sink metrics_;
};

}  // namespace cxxrun::agent
