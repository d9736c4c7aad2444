// SPDX-License-Identifier: Apache-2.0
#include "agent/stream_plans.hpp"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "launcher/json_line.hpp"

namespace cxxrun::agent {
namespace {

using launcher::Sink;
using launcher::SpawnSpec;
using launcher::StreamPlan;

struct Stream {
  unsigned bit;
  const char* name;
  const std::vector<std::string>& copied_texts;
};

bool passes(const std::optional<std::vector<int>>& ranks, int rank) {
  return !ranks || std::find(ranks->begin(), ranks->end(), rank) != ranks->end();
}

/// One worker's streams: what is the same for both, and then each.
class Planner {
 public:
  Planner(const Config& config, const World& world, const std::string& attempt, const SpawnSpec& spec)
      : config_(config),
        logs_(config.logs),
        attempt_(attempt),
        local_rank_(spec.local_rank),
        alone_(world.local_world_size == 1),
        json_(logs_.format == LogOptions::Format::Json),
        shown_(passes(logs_.local_ranks_filter, spec.local_rank) && passes(logs_.ranks_filter, spec.rank)) {
    const std::string& host = config.rendezvous.host_name;
    const auto number = [](std::int64_t n) { return std::to_string(n); };
    facts_ = {config.rendezvous.role,         number(spec.local_rank),  number(spec.rank),
              host.substr(0, host.find('.')), number(world.group_rank), number(world.round),
              number(world.world_size),       config.rendezvous.run_id};
    host_ = host;
  }

  StreamPlan plan(const Stream& stream) const {
    const bool has_file = !attempt_.empty();
    const bool tee = has_file && (logs_.tee.of(local_rank_) & stream.bit) != 0;
    const bool redirect = has_file && (logs_.redirects.of(local_rank_) & stream.bit) != 0;
    StreamPlan plan;
    if (tee || redirect)
      plan.file = attempt_ + "/" + std::to_string(local_rank_) + "/" + stream.name + ".log";
    if (tee && shown_) {
      plan.sink = Sink::Console;
      if (!stream.copied_texts.empty()) {
        plan.copies_file = attempt_ + "/filtered_" + stream.name + ".log";
        plan.copied_texts = stream.copied_texts;
      }
    } else if (tee || redirect) {
      plan.sink = Sink::File;
    } else {
      plan.sink = shown_ ? Sink::Console : Sink::Discard;
    }
    if (plan.sink != Sink::Console) return plan;
    plan.prefix = prefix(tee);
    if (json_) plan.json_fields = json_fields(stream.name);
    return plan;
  }

  /// Nothing is to be done with the text of a stream: it need not pass through us.
  [[nodiscard]] static bool untouched(const StreamPlan& plan) {
    return plan.sink == Sink::Console && plan.prefix.empty() && plan.file.empty() && plan.json_fields.empty();
  }

 private:
  [[nodiscard]] std::string prefix(bool tee) const {
    if (!logs_.prefix_template.empty()) return expanded_prefix(logs_.prefix_template, facts_);
    if (tee) return "[" + facts_.role_name + facts_.local_rank + "]:";
    return alone_ ? "" : "[rank" + facts_.rank + "]: ";
  }

  [[nodiscard]] std::string json_fields(const char* stream) const {
    return "\"host\":" + launcher::json_string(host_) + ",\"rank\":" + facts_.rank +
           ",\"local_rank\":" + facts_.local_rank + ",\"round\":" + facts_.round + ",\"stream\":\"" + stream +
           "\",";
  }

  const Config& config_;
  const LogOptions& logs_;
  const std::string& attempt_;
  int local_rank_;
  bool alone_;
  bool json_;
  bool shown_;
  PrefixFacts facts_;
  std::string host_;
};

const std::string* value_of(std::string_view name, const PrefixFacts& facts) {
  const struct {
    std::string_view name;
    const std::string& value;
  } macros[] = {{"role_name", facts.role_name},   {"local_rank", facts.local_rank}, {"rank", facts.rank},
                {"hostname", facts.hostname},     {"node_rank", facts.node_rank},   {"round", facts.round},
                {"world_size", facts.world_size}, {"run_id", facts.run_id}};
  for (const auto& macro : macros) {
    if (macro.name == name) return &macro.value;
  }
  return nullptr;
}

bool in_a_name(char c) {
  return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

}  // namespace

std::string expanded_prefix(const std::string& pattern, const PrefixFacts& facts) {
  std::string_view rest = pattern;
  std::string out;
  while (!rest.empty()) {
    const std::size_t dollar = std::min(rest.find('$'), rest.size());
    out += rest.substr(0, dollar);
    rest.remove_prefix(dollar);
    if (rest.empty()) break;
    const bool braced = rest.size() > 1 && rest[1] == '{';
    const std::size_t begin = braced ? 2 : 1;
    std::size_t end = begin;
    while (end < rest.size() && in_a_name(rest[end])) ++end;
    const bool closed = !braced || (end < rest.size() && rest[end] == '}');
    const std::string* value = closed ? value_of(rest.substr(begin, end - begin), facts) : nullptr;
    std::size_t taken = 1;
    if (rest.starts_with("$$")) {
      taken = 2;
      out += '$';
    } else if (value != nullptr) {
      taken = end + (braced ? 1 : 0);
      out += *value;
    } else {
      out += '$';
    }
    rest.remove_prefix(taken);
  }
  return out;
}

void plan_streams(const Config& config, const World& world, const std::string& attempt, SpawnSpec& spec) {
  const bool alone = world.local_world_size == 1;
  const Planner planner(config, world, attempt, spec);
  spec.out = planner.plan({1, "stdout", config.logs.duplicate_stdout_filters});
  if (Planner::untouched(spec.out)) spec.out = {};
  spec.err = planner.plan({2, "stderr", config.logs.duplicate_stderr_filters});
  const bool untouched = Planner::untouched(spec.err);
  if (config.stderr_inherit && spec.err.sink == Sink::Console && spec.err.file.empty()) {
    spec.err = {};
    return;
  }
  spec.err.keep_last_words = true;
  if (alone && config.terminal && untouched) spec.err.sink = Sink::Terminal;
}

}  // namespace cxxrun::agent
