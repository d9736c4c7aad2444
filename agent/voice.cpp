// SPDX-License-Identifier: Apache-2.0
#include "agent/voice.hpp"

#include <unistd.h>

#include <algorithm>

#include "base/text.hpp"
#include "launcher/console.hpp"
#include "launcher/json_line.hpp"

namespace cxxrun::agent {

std::string spoken(const Config& config, std::string_view lines, std::int64_t round) {
  if (config.logs.format == LogOptions::Format::Text) return std::string(lines);
  const std::string round_text = round < 0 ? "null" : std::to_string(round);
  launcher::JsonLine json("\"host\":" + launcher::json_string(config.rendezvous.host_name) +
                          ",\"rank\":null,\"local_rank\":null,\"round\":" + round_text +
                          ",\"stream\":\"agent\",");
  constexpr std::string_view kName = "cxxrun: ";
  std::string out;
  while (!lines.empty()) {
    const std::size_t end = std::min(lines.find('\n'), lines.size());
    std::string_view line = lines.substr(0, end);
    if (line.starts_with(kName)) line.remove_prefix(kName.size());
    json.append(line, true, std::chrono::system_clock::now(), out);
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
  return out;
}

void Voice::line(const std::string& text) { lines("cxxrun: " + cleaned(text) + "\n"); }

void Voice::lines(std::string_view text) {
  auto& console = consoles_.get(STDERR_FILENO);
  console.buffer() += spoken(config_, text, round_);
  console.flush();
}

}  // namespace cxxrun::agent
