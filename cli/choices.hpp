// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "cli/exit_code.hpp"
#include "cli/plan.hpp"

namespace cxxrun::cli {

inline constexpr const char* kPlainText = "must be UTF-8 text without control characters";

/// What every rule of the plan needs: the options as they were given, the surroundings, sentences and notes.
/// Rules derive from it.
class Choices {
 protected:
  using Problem = std::optional<PlanError>;

  Choices(const RawOptions& options, const Facts& facts, LaunchPlan& plan)
      : options_(options), facts_(facts), plan_(plan) {}

  static PlanError wrong(std::string message) { return {kUsage, std::move(message)}; }
  [[nodiscard]] PlanError wrong(Opt option, const std::string& what) const {
    return wrong(as_given(option) + ": " + what);
  }
  /// "--nnodes 0", "PET_NNODES=0", "/etc/cxxrun.conf:3: nnodes = 0".
  [[nodiscard]] std::string as_given(Opt option) const {
    const Given* entry = options_.find(option);
    return said(entry != nullptr ? *entry : Given{Source::Default, options_.text(option), long_name(option)});
  }
  /// The same without the value.
  [[nodiscard]] std::string place(Opt option) const {
    const Given* entry = options_.find(option);
    return entry != nullptr ? entry->where : long_name(option);
  }
  static std::string long_name(Opt option) { return "--" + std::string(row(option).name); }

  /// An empty place to meet, as an unset variable in a manifest leaves it, says nothing: each node would meet
  /// itself.
  [[nodiscard]] bool given(Opt option) const {
    const Given* entry = options_.find(option);
    if (entry == nullptr) return false;
    const bool names_place =
        option == Opt::RdzvEndpoint || option == Opt::MasterAddr || option == Opt::LocalAddr;
    return !names_place || entry->value.find_first_not_of(" \t\r\n") != std::string::npos;
  }
  /// What was given in that sense, else the default.
  [[nodiscard]] std::string text_of(Opt option) const {
    return given(option) ? options_.text(option) : std::string(row(option).fallback);
  }
  [[nodiscard]] std::string environment(const char* name) const {
    return facts_.environment(name).value_or("");
  }

  /// What was typed and has no effect is said. A variable may be there for others.
  void note_unused(Opt option, const std::string& why) {
    const Given* entry = options_.find(option);
    if (entry != nullptr && entry->source == Source::Flag) note(long_name(option) + " is not used: " + why);
  }
  void note(std::string line) { plan_.notes.push_back(std::move(line)); }
  /// A value that comes from elsewhere than options, for --dry-run.
  void took(Opt option, std::string value, std::string from) {
    plan_.taken.push_back({option, std::move(value), std::move(from)});
  }

  const RawOptions& options_;
  const Facts& facts_;
  LaunchPlan& plan_;
};

}  // namespace cxxrun::cli
