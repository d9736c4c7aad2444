// SPDX-License-Identifier: Apache-2.0
// A configuration file, from its lines to the options or the usage error.
#include <array>
#include <cstdlib>
#include <optional>
#include <variant>

#include "cli/options.hpp"
#include "tests/fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace cxxrun::cli;
  const std::array<std::string, 1> arguments{"program"};
  const std::array<ConfigFile, 1> files{
      ConfigFile{.path = "/c", .content = std::string(reinterpret_cast<const char*>(data), size)}};
  const auto result = parse_options(
      arguments, [](const char*) { return std::optional<std::string>(); }, files);
  const auto* error = std::get_if<UsageError>(&result);
  if (error != nullptr && error->message.empty()) std::abort();
  return 0;
}

std::vector<std::string> cxxrun::fuzz::seeds() {
  return {"nnodes = 2:4\n# a comment\nnproc-per-node=auto\n",
          "rdzv_endpoint: host:29400\n",
          "standalone = true\n",
          "  max-restarts=3\r\nrdzv-conf = \"join_timeout=60,last_call_timeout=1\"\n",
          "nnods = 2\n",
          "no-python\n"};
}
