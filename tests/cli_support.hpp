// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "base/text.hpp"
#include "cli/options.hpp"
#include "cli/plan.hpp"

/// What the tests of cli/ share: an environment and a machine of their own, nothing of the real ones.
namespace cxxrun::cli::test {

using Variables = std::map<std::string, std::string>;
using Words = std::vector<std::string>;

inline EnvironmentLookup lookup(Variables variables) {
  return [all = std::move(variables)](const char* name) -> std::optional<std::string> {
    const auto found = all.find(name);
    return found == all.end() ? std::nullopt : std::optional(found->second);
  };
}

inline std::variant<RawOptions, UsageError> parse(const Words& words, const Variables& variables = {},
                                                  const std::vector<ConfigFile>& files = {}) {
  return parse_options(words, lookup(variables), files);
}
inline RawOptions options(const Words& words, const Variables& variables = {},
                          const std::vector<ConfigFile>& files = {}) {
  auto parsed = parse(words, variables, files);
  if (const auto* error = std::get_if<UsageError>(&parsed)) FAIL(error->message);
  return std::get<RawOptions>(std::move(parsed));
}
/// The sentence; empty where there is none.
inline std::string usage_error(const Words& words, const Variables& variables = {},
                               const std::vector<ConfigFile>& files = {}) {
  const auto parsed = parse(words, variables, files);
  const auto* error = std::get_if<UsageError>(&parsed);
  return error != nullptr ? error->message : std::string();
}

/// A machine with 8 CPUs in one NUMA node and no GPU, called "here".
inline Facts machine(const Variables& variables) {
  Facts facts;
  facts.environment = lookup(variables);
  facts.usable_cpus = [] { return 8; };
  facts.usable_gpus = [] { return 0; };
  facts.gpus = [] { return std::vector<worker_env::Gpu>{}; };
  facts.allowed_cpus = [] { return worker_env::CpuSet{0, 1, 2, 3, 4, 5, 6, 7}; };
  facts.topology = [](const worker_env::CpuSet& cpus, worker_env::Binding) {
    return worker_env::Topology{{{0, cpus}}, {}};
  };
  facts.host_name = [] { return std::string("here"); };
  facts.random_id = [] { return std::string("random"); };
  facts.read_file = [](const std::string&) -> Result<std::string> { return plain_error("cannot be read"); };
  return facts;
}

/// A whole command line, program included.
inline std::variant<LaunchPlan, PlanError> plan_with(const Words& words, const Facts& facts) {
  auto parsed = parse_options(words, facts.environment, {});
  if (const auto* error = std::get_if<UsageError>(&parsed)) return PlanError{2, error->message};
  return make_plan(std::get<RawOptions>(parsed), facts);
}
inline LaunchPlan good_plan(const std::variant<LaunchPlan, PlanError>& made) {
  if (const auto* error = std::get_if<PlanError>(&made)) FAIL(error->message);
  return std::get<LaunchPlan>(made);
}
/// `words` before a program ./train.
inline LaunchPlan plan(Words words, const Variables& variables = {}) {
  words.emplace_back("./train");
  return good_plan(plan_with(words, machine(variables)));
}
inline std::string plan_error(Words words, const Variables& variables = {}) {
  words.emplace_back("./train");
  const auto made = plan_with(words, machine(variables));
  const auto* error = std::get_if<PlanError>(&made);
  if (error == nullptr) return {};
  CHECK(error->exit_code == 2);
  return error->message;
}

inline const rendezvous::Config& rdzv(const LaunchPlan& plan) { return plan.config.rendezvous; }
inline std::string all_notes(const LaunchPlan& plan) {
  std::string out;
  for (const auto& note : plan.notes) out += note + "\n";
  return out;
}

/// A file of this repository.
inline std::string repository_file(const std::string& path) {
  const auto root = std::filesystem::path(__FILE__).parent_path().parent_path();
  std::ifstream in(root / path);
  INFO(path);
  REQUIRE(in.good());
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

/// A folder that goes with its owner.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "cxxrun-cli-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] std::string path() const { return path_.string(); }
  void write(const std::string& name, const std::string& content) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << content;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace cxxrun::cli::test
