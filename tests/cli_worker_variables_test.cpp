// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <filesystem>

#include "cli/host.hpp"
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
