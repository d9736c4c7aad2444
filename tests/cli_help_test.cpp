// SPDX-License-Identifier: Apache-2.0
#include "cli/help.hpp"

#include <catch2/catch.hpp>
#include <filesystem>

#include "cli/exit_code.hpp"
#include "cli/host.hpp"
#include "cli/options.hpp"
#include "cli/rdzv_conf.hpp"
#include "worker_env/environ.hpp"

using namespace cxxrun;
using namespace cxxrun::cli;

namespace {

std::string document(const char* name) {
  const auto root = std::filesystem::path(__FILE__).parent_path().parent_path();
  const auto text = read_text((root / "docs" / name).string());
  REQUIRE(text);
  return *text;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("help: the ready-made text is what the table says", "[cli]") { CHECK(kHelp == make_help()); }

TEST_CASE("help: fits a terminal", "[cli]") {
  std::size_t start = 0;
  while (start < kHelp.size()) {
    const auto end = kHelp.find('\n', start);
    REQUIRE(end != std::string_view::npos);
    INFO(kHelp.substr(start, end - start));
    CHECK(end - start <= 80);
    start = end + 1;
  }
  CHECK(kVersion.starts_with("cxxrun "));
  CHECK(kVersion.ends_with("\n"));
}

TEST_CASE("docs/reference.md: every option, variable and key", "[cli]") {
  const std::string text = document("reference.md");
  for (const OptionRow& option : option_table()) {
    INFO(option.name);
    CHECK(has(text, "`--" + std::string(option.name)));
    if (option.support == Support::NotYet) continue;
    if (const std::string var = variable(option); !var.empty()) CHECK(has(text, "`" + var + "`"));
    if (!option.fallback.empty()) CHECK(has(text, "`" + std::string(option.fallback) + "`"));
  }
  for (const auto key : rdzv_conf_keys()) {
    INFO(key);
    CHECK(has(text, "`" + std::string(key) + "`"));
  }
}

TEST_CASE("docs/reference.md: every variable of a worker", "[cli]") {
  const std::string text = document("reference.md");
  worker_env::Facts facts;
  facts.python = true;
  World world;
  world.local_world_size = 2;
  for (const std::string& entry : worker_env::build(worker_env::inherit({}), facts, world, 0)) {
    INFO(entry);
    CHECK(has(text, "`" + entry.substr(0, entry.find('=')) + "`"));
  }
}

TEST_CASE("docs/exit-codes.md: the same table", "[cli]") {
  const std::string text = document("exit-codes.md");
  for (const ExitCodeRow& row : kExitCodes) {
    INFO(row.code);
    CHECK(has(text, "| " + std::to_string(row.code) + " | " + std::string(row.meaning) + " |"));
  }
}
