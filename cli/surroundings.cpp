// SPDX-License-Identifier: Apache-2.0
#include "cli/surroundings.hpp"

#include "base/limits.hpp"
#include "base/text.hpp"
#include "cli/numbers.hpp"
#include "net/address.hpp"

namespace cxxrun::cli {
namespace {

/// A fixed port would let two jobs of one machine meet. Below the ports that systems give out by themselves.
constexpr int kSlurmPortFirst = 20'000;
constexpr int kSlurmPorts = 10'000;

std::string variable_or_empty(const EnvironmentLookup& environment, const char* name) {
  return environment(name).value_or("");
}

/// "01-03" or "7" into its numbers, digits kept.
Result<std::vector<std::string>> expand_range(std::string_view range) {
  const auto dash = range.find('-');
  const std::string_view first = range.substr(0, dash);
  const std::string_view last = dash == std::string_view::npos ? first : range.substr(dash + 1);
  const auto from = whole_number(first);
  const auto to = whole_number(last);
  if (!from || !to || *from > *to || *to - *from >= limits::kNodesMax)
    return plain_error("bad range " + quoted(range));
  std::vector<std::string> out;
  for (long n = *from; n <= *to; ++n) {
    std::string digits = std::to_string(n);
    if (digits.size() < first.size()) digits.insert(0, first.size() - digits.size(), '0');
    out.push_back(std::move(digits));
  }
  return out;
}

/// One name with any number of brackets into all its names.
Result<std::vector<std::string>> expand_name(std::string_view name) {
  std::vector<std::string> out{""};
  while (!name.empty()) {
    const auto open = name.find('[');
    for (auto& made : out) made += name.substr(0, open);
    if (open == std::string_view::npos) break;
    const auto close = name.find(']', open);
    if (close == std::string_view::npos) return plain_error("a [ without ]");
    std::vector<std::string> numbers;
    for (std::string_view rest = name.substr(open + 1, close - open - 1);;) {
      const auto comma = rest.find(',');
      auto range = expand_range(rest.substr(0, comma));
      if (!range) return std::move(range).error();
      numbers.insert(numbers.end(), range->begin(), range->end());
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
    if (out.size() * numbers.size() > static_cast<std::size_t>(limits::kNodesMax))
      return plain_error("too many hosts");
    std::vector<std::string> longer;
    for (const auto& made : out) {
      for (const auto& number : numbers) longer.push_back(made + number);
    }
    out = std::move(longer);
    name.remove_prefix(close + 1);
  }
  return out;
}

/// Without a host where there is no list, or one that is too short to count.
Result<Surroundings> from_slurm(const EnvironmentLookup& environment, int nodes) {
  std::string list = variable_or_empty(environment, "SLURM_STEP_NODELIST");
  if (list.empty()) list = variable_or_empty(environment, "SLURM_JOB_NODELIST");
  if (list.empty()) return Surroundings{};
  auto hosts = expand_host_list(list);
  if (!hosts) return std::move(hosts).error().context("Slurm's node list " + quoted(list));
  Surroundings out;
  if (hosts->size() < static_cast<std::size_t>(nodes)) {
    out.short_list = "Slurm's list " + quoted(list) + " is shorter";
    return out;
  }
  out.scheduler = "Slurm";
  out.host = hosts->front();
  out.other_hosts = hosts->size() > 1;
  const std::string job = variable_or_empty(environment, "SLURM_JOB_ID");
  const auto number = whole_number(job);
  if (!job.empty() && !number) return plain_error("SLURM_JOB_ID=" + quoted(job) + " is no number");
  out.port = kSlurmPortFirst + static_cast<int>(number.value_or(0) % kSlurmPorts);
  if (!job.empty()) out.run_id = "slurm-" + job;
  return out;
}

}  // namespace

Result<std::vector<std::string>> expand_host_list(std::string_view text) {
  std::vector<std::string> out;
  int depth = 0;
  std::size_t start = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    if (c == '[') ++depth;
    if (c == ']') --depth;
    if (depth < 0 || depth > 1) return plain_error("brackets do not match");
    if (c != ',' || depth != 0) continue;
    auto names = expand_name(text.substr(start, i - start));
    if (!names) return std::move(names).error();
    for (auto& name : *names) {
      if (!name.empty()) out.push_back(std::move(name));
    }
    if (out.size() > static_cast<std::size_t>(limits::kNodesMax)) return plain_error("too many hosts");
    start = i + 1;
  }
  if (depth != 0) return plain_error("a [ without ]");
  return out;
}

Result<Surroundings> look_around(const EnvironmentLookup& environment, int nodes) {
  Surroundings out;
  const std::string master = variable_or_empty(environment, "MASTER_ADDR");
  if (!master.empty()) {
    out.scheduler = "MASTER_ADDR";
    out.host = master;
    out.other_hosts = !net::loopback_host(master);
    const std::string port = variable_or_empty(environment, "MASTER_PORT");
    if (port.empty()) return out;
    const auto number = whole_number(port);
    if (!number || *number < 1 || *number > 65'535)
      return plain_error("MASTER_PORT=" + quoted(port) + " is no port (1 to 65535)");
    out.port = static_cast<int>(*number);
    return out;
  }
  const std::string leader = variable_or_empty(environment, "LWS_LEADER_ADDRESS");
  if (!leader.empty()) {
    out.scheduler = "LeaderWorkerSet";
    out.host = leader;
    out.other_hosts = true;
    return out;
  }
  return from_slurm(environment, nodes);
}

std::optional<int> node_rank_hint(const EnvironmentLookup& environment) {
  const auto number_of = [&](const char* name) -> std::optional<int> {
    const auto number = whole_number(variable_or_empty(environment, name));
    if (!number || *number >= limits::kNodesMax) return std::nullopt;
    return static_cast<int>(*number);
  };
  // Several tasks of a step on one node start several agents with one SLURM_NODEID: no hint then.
  if (const auto node = number_of("SLURM_NODEID")) {
    const auto tasks = number_of("SLURM_STEP_NUM_TASKS");
    const auto nodes = number_of("SLURM_STEP_NUM_NODES");
    if (tasks == nodes) return node;
    return std::nullopt;
  }
  if (const auto index = number_of("LWS_WORKER_INDEX")) return index;
  if (environment("MASTER_ADDR")) return number_of("RANK");
  return std::nullopt;
}

}  // namespace cxxrun::cli
