// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "agent/config.hpp"

namespace cxxrun::launcher {
class Consoles;
}

namespace cxxrun::agent {

/// Lines of our own (each with its newline) as they go to stderr: `cxxrun: ...` as they are, or with
/// --log-format json an object each. `round`: -1: none yet.
[[nodiscard]] std::string spoken(const Config& config, std::string_view lines, std::int64_t round);

/// What the agent says on stderr.
class Voice {
 public:
  Voice(const Config& config, launcher::Consoles& consoles) : config_(config), consoles_(consoles) {}
  void line(const std::string& text);  ///< whatever it holds drives no terminal
  void lines(std::string_view text);   ///< whole lines
  void set_round(std::int64_t round) { round_ = round; }

 private:
  const Config& config_;
  launcher::Consoles& consoles_;
  std::int64_t round_ = -1;
};

}  // namespace cxxrun::agent
