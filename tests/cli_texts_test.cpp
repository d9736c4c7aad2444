// SPDX-License-Identifier: Apache-2.0
// Texts for people that a table in the code rules: help, reference, exit codes.
#include <set>

#include "cli/exit_code.hpp"
#include "cli/help.hpp"
#include "cli/not_yet.hpp"
#include "cli/rdzv_conf.hpp"
#include "cli_support.hpp"

using namespace cxxrun::cli;
using namespace cxxrun::cli::test;
using Catch::Contains;

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

}  // namespace

TEST_CASE("the ready-made help is what the table says, at most 80 columns") {
  CHECK(kHelp == make_help());
  for (const auto& line : lines_of(std::string(kHelp))) {
    INFO(line);
    CHECK(line.size() <= 80);
    CHECK((line.empty() || line.back() != ' '));
  }
  CHECK_THAT(std::string(kVersion), Catch::Matches("cxxrun [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

/// Not a test: writes cli/help.cpp after a change of the table. cli_tests "[write-help]"
TEST_CASE("write the ready-made help", "[.][write-help]") {
  const auto path = std::filesystem::path(__FILE__).parent_path().parent_path() / "cli/help.cpp";
  const std::string old = repository_file("cli/help.cpp");
  const auto begin = old.find("R\"help(") + 7;
  const auto end = old.find(")help\"");
  REQUIRE(begin < end);
  std::ofstream(path) << old.substr(0, begin) << make_help() << old.substr(end);
}

TEST_CASE("help shows each option that is built, and none that is not") {
  const auto help = std::string(kHelp);
  for (const OptionRow& option : option_table()) {
    INFO(option.name);
    const bool shown = help.find("--" + std::string(option.name) + "\n") != std::string::npos ||
                       help.find("--" + std::string(option.name) + " ") != std::string::npos ||
                       help.find("--" + std::string(option.name) + "[") != std::string::npos;
    CHECK(shown == (!not_yet(option.id) && !option.group.empty()));
  }
}

TEST_CASE("docs/reference.md has every option, variable, default and rdzv-conf key") {
  const std::string reference = repository_file("docs/reference.md");
  const auto lines = lines_of(reference);
  const auto row_of = [&](const std::string& first) {
    for (const auto& line : lines) {
      if (line.starts_with("| `" + first + "`")) return line;
    }
    return std::string();
  };
  for (const OptionRow& option : option_table()) {
    INFO(option.name);
    const std::string name = "--" + std::string(option.name);
    if (not_yet(option.id) || option.group.empty()) {
      CHECK_THAT(reference, Contains("`" + name + "`"));
      continue;
    }
    const std::string line = row_of(name);
    REQUIRE_FALSE(line.empty());
    if (!variable(option).empty()) CHECK_THAT(line, Contains("`" + variable(option) + "`"));
    if (!option.fallback.empty()) CHECK_THAT(line, Contains("`" + std::string(option.fallback) + "`"));
    if (option.letter != 0) CHECK_THAT(line, Contains(std::string("`-") + option.letter + "`"));
  }
  for (const auto key : rdzv_conf_keys()) {
    INFO(key);
    CHECK_FALSE(row_of(std::string(key)).empty());
  }
}

TEST_CASE("docs/exit-codes.md is the table of the code") {
  std::set<std::string> rows;
  for (const auto& line : lines_of(repository_file("docs/exit-codes.md"))) {
    if (line.starts_with("| ") && line[2] >= '0' && line[2] <= '9' &&
        line.find("cxxrun") != std::string::npos)
      rows.insert(line);
  }
  for (const auto& row : kExitCodes) {
    CHECK(rows.contains("| " + std::to_string(row.code) + " | cxxrun | " + std::string(row.meaning) + " |"));
  }
  CHECK(rows.size() == kExitCodes.size());
}
