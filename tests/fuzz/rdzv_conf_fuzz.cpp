// SPDX-License-Identifier: Apache-2.0
// The text of --rdzv-conf.
#include <cstdlib>

#include "cli/rdzv_conf.hpp"
#include "tests/fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace cxxrun;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto pairs = cli::split_rdzv_conf(text)) {
    for (const auto& [key, value] : *pairs) {
      if (key.empty() || value.empty()) std::abort();
    }
  }
  agent::Config config;
  std::string token_file;
  std::vector<std::string> notes;
  const auto applied = cli::apply_rdzv_conf(text, config, token_file, notes);
  if (!applied && applied.error().message.empty()) std::abort();
  return 0;
}

std::vector<std::string> cxxrun::fuzz::seeds() {
  std::vector<std::string> out{"join_timeout=600,last_call_timeout=30",
                               " 'a=b , c = d' ",
                               "timeout=1e9,timeout=-1",
                               "keep_alive_interval=5=6",
                               ",",
                               "=,a="};
  for (const std::string_view key : cli::rdzv_conf_keys()) {
    for (const char* value : {"1", "true", "0.5", "99999999999999999999"})
      out.push_back(std::string(key) + "=" + value);
  }
  return out;
}
