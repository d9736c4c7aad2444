// SPDX-License-Identifier: Apache-2.0
#include "cli/dry_run.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/log_folder.hpp"
#include "agent/worker_specs.hpp"
#include "base/text.hpp"
#include "cli/not_yet.hpp"
#include "net/address.hpp"

namespace cxxrun::cli {
namespace {

using rendezvous::BackendKind;

/// A text, a number or nothing that is known yet; lists and objects of those. Just enough for one page of
/// JSON.
struct Value {
  enum class Kind { Unknown, Text, Number, Bool, List, Object } kind = Kind::Unknown;
  std::string text{};
  std::vector<std::pair<std::string, Value>> members{};  ///< of a list: without names

  static Value of(std::string text) { return {Kind::Text, std::move(text)}; }
  static Value number(long n) { return {Kind::Number, std::to_string(n)}; }
  static Value list(const std::vector<std::string>& words) {
    Value out{Kind::List};
    for (const auto& word : words) out.members.emplace_back("", of(word));
    return out;
  }
  static Value object() { return {Kind::Object}; }
  Value& set(std::string name, Value value) {
    members.emplace_back(std::move(name), std::move(value));
    return *this;
  }
};

std::string escaped_number(unsigned char byte) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  return {'\\', 'u', '0', '0', kDigits[byte >> 4], kDigits[byte & 15]};
}

/// Control characters escaped, bytes that are no UTF-8 as the replacement character.
std::string json_text(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    std::size_t length = 1;
    while (length < text.size() && (static_cast<unsigned char>(text[length]) & 0xc0) == 0x80) ++length;
    const auto byte = static_cast<unsigned char>(text[0]);
    if (byte < 0x80) length = 1;
    const std::string_view character = text.substr(0, length);
    if (byte < 0x20 || byte == 0x7f) {
      out += escaped_number(byte);
    } else if (byte == '"' || byte == '\\') {
      out += std::string("\\") + text[0];
    } else if (printable(character)) {
      out += character;
    } else if (byte == 0xc2 && length == 2) {
      out += escaped_number(static_cast<unsigned char>(text[1]));
    } else {
      out += "\xef\xbf\xbd";
    }
    text.remove_prefix(length);
  }
  return out + "\"";
}

std::string json_of(const Value& value, const std::string& indent = "") {
  using Kind = Value::Kind;
  switch (value.kind) {
    case Kind::Unknown: return "null";
    case Kind::Text: return json_text(value.text);
    case Kind::Number:
    case Kind::Bool: return value.text;
    case Kind::List:
    case Kind::Object: break;
  }
  const bool object = value.kind == Kind::Object;
  if (value.members.empty()) return object ? "{}" : "[]";
  std::string out;
  for (const auto& [name, member] : value.members) {
    out += (out.empty() ? "" : ",") + std::string("\n") + indent + "  " +
           (object ? json_text(name) + ": " : "") + json_of(member, indent + "  ");
  }
  return (object ? "{" : "[") + out + "\n" + indent + (object ? "}" : "]");
}

std::string text_of(const Value& value) {
  if (value.kind == Value::Kind::Unknown) return "?";
  if (value.kind != Value::Kind::List) return quoted(value.text);
  std::string out;
  for (const auto& [name, member] : value.members) out += (out.empty() ? "" : " ") + quoted(member.text);
  return out;
}

/// "flag", "variable PET_NNODES", "/etc/cxxrun.conf:3", "default".
std::string origin_of(const Given* given) {
  if (given == nullptr) return "default";
  switch (given->source) {
    case Source::Flag: return "flag";
    case Source::Variable: return "variable " + given->where;
    case Source::File: return "file " + given->where.substr(0, given->where.rfind(": "));
    case Source::Default: break;
  }
  return "default";
}

Value options_of(const RawOptions& options, const LaunchPlan& plan) {
  Value out = Value::object();
  for (const OptionRow& option : option_table()) {
    if (not_yet(option.id) || variable(option).empty()) continue;
    std::string value =
        option.kind == Kind::Flag ? (options.flag(option.id) ? "on" : "off") : options.text(option.id);
    std::string origin = origin_of(options.find(option.id));
    for (const auto& taken : plan.taken) {
      if (taken.option != option.id) continue;
      value = taken.value;
      origin = taken.from;
    }
    out.set("--" + std::string(option.name),
            Value::object().set("value", Value::of(value)).set("from", Value::of(origin)));
  }
  return out;
}

/// What each worker gets a value for that only the rendezvous knows.
bool is_known(std::string_view name, const rendezvous::Config& config) {
  constexpr std::array<std::string_view, 6> kByOthers{"RANK",       "GROUP_RANK",       "ROLE_RANK",
                                                      "WORLD_SIZE", "GROUP_WORLD_SIZE", "ROLE_WORLD_SIZE"};
  constexpr std::array<std::string_view, 5> kAtStart{"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_ERROR_FILE",
                                                     "TORCHELASTIC_TIMER_FILE", "CXXRUN_HEARTBEAT_FD"};
  if (std::find(kAtStart.begin(), kAtStart.end(), name) != kAtStart.end()) {
    return config.backend == BackendKind::Static && name.starts_with("MASTER_");
  }
  const bool alone = config.nnodes_max == 1;
  return alone || std::find(kByOthers.begin(), kByOthers.end(), name) == kByOthers.end();
}

World first_round(const rendezvous::Config& config) {
  World world;
  world.local_world_size = world.world_size = world.role_world_size = config.local_world_size;
  world.agent_store = config.agent_store;
  if (config.backend == BackendKind::Static) {
    world.master_addr = config.endpoint.host;
    world.master_port = config.endpoint.port;
  }
  return world;
}

/// What the worker has and we have not, and the names that we have and the worker has not.
Value environment_of(const std::vector<std::string>& ours, const std::vector<std::string>& workers,
                     const rendezvous::Config& config) {
  Value set = Value::object();
  std::vector<std::string> names;
  for (const auto& entry : workers) {
    const auto equals = entry.find('=');
    names.push_back(entry.substr(0, equals));
    if (std::find(ours.begin(), ours.end(), entry) != ours.end()) continue;
    set.set(names.back(), is_known(names.back(), config) ? Value::of(entry.substr(equals + 1)) : Value());
  }
  std::vector<std::string> removed;
  for (const auto& entry : ours) {
    std::string name = entry.substr(0, entry.find('='));
    if (std::find(names.begin(), names.end(), name) == names.end()) removed.push_back(std::move(name));
  }
  return Value::object().set("set", std::move(set)).set("removed", Value::list(removed));
}

std::string console_of(const launcher::StreamPlan& stream, bool prefix_known) {
  std::string out = stream.json_fields.empty() ? "console" : "console as JSON";
  if (!stream.prefix.empty())
    out += prefix_known ? ", each line behind " + stream.prefix : ", each line behind the rank";
  if (!stream.file.empty()) out += "; file " + stream.file;
  if (!stream.copies_file.empty()) out += "; lines that match to " + stream.copies_file;
  return out;
}

std::string stream_of(const launcher::StreamPlan& stream, bool prefix_known) {
  switch (stream.sink) {
    case launcher::Sink::Inherit: return "inherited";
    case launcher::Sink::Console: return console_of(stream, prefix_known);
    case launcher::Sink::Terminal: return "terminal";
    case launcher::Sink::File: return "file " + stream.file;
    case launcher::Sink::Discard: return "nowhere";
  }
  return {};
}

/// "0-3,8", of numbers in any order.
std::string cpus_of(std::vector<int> cpus) {
  if (cpus.empty()) return "inherited";
  std::sort(cpus.begin(), cpus.end());
  std::string out;
  for (std::size_t i = 0; i < cpus.size(); ++i) {
    const int first = cpus[i];
    while (i + 1 < cpus.size() && cpus[i + 1] == cpus[i] + 1) ++i;
    out += (out.empty() ? "" : ",") + std::to_string(first);
    if (cpus[i] != first) out += "-" + std::to_string(cpus[i]);
  }
  return out;
}

Value worker_of(const launcher::SpawnSpec& spec, const agent::Config& config) {
  const bool alone = config.rendezvous.nnodes_max == 1;
  return Value::object()
      .set("local_rank", Value::number(spec.local_rank))
      .set("rank", alone ? Value::number(spec.rank) : Value())
      .set("program", Value::of(spec.program))
      .set("command", Value::list(spec.argv))
      .set("stdin", Value::of(spec.null_stdin ? "/dev/null" : "inherited"))
      .set("stdout", Value::of(stream_of(spec.out, alone)))
      .set("stderr", Value::of(stream_of(spec.err, alone)))
      .set("cpus", Value::of(cpus_of(spec.cpus)))
      .set("environment", environment_of(config.environment, spec.env, config.rendezvous));
}

Value meeting_of(const rendezvous::Config& config) {
  Value out = Value::object();
  const char* kind = config.backend == BackendKind::Local  ? "none: one node"
                     : config.backend == BackendKind::C10d ? "c10d"
                                                           : "static";
  out.set("backend", Value::of(kind));
  if (config.backend != BackendKind::Local) {
    out.set("endpoint", Value::of(net::endpoint_text(config.endpoint.host, config.endpoint.port)));
  }
  out.set("run_id", Value::of(config.run_id));
  if (config.node_rank) out.set("node_rank", Value::number(*config.node_rank));
  return out;
}

std::string padded(std::string text, std::size_t width) {
  if (text.size() < width) text.resize(width, ' ');
  return text + " ";
}

/// The page for people: the same facts, the workers' common part once.
std::string page(const Value& options, const Value& meeting, const Value& workers, const std::string& host) {
  std::string out = "plan of node " + host + "; nothing is started\n\noptions:\n";
  for (const auto& [name, option] : options.members) {
    const std::string& value = option.members[0].second.text;
    if (value.empty()) continue;
    out += "  " + padded(name, 24) + padded(quoted(value), 30) + option.members[1].second.text + "\n";
  }
  out += "\nrendezvous:\n";
  for (const auto& [name, value] : meeting.members) out += "  " + padded(name, 12) + text_of(value) + "\n";
  for (const auto& [unused, worker] : workers.members) {
    out += "\nworker " + text_of(worker.members[0].second) + ":\n";
    for (const auto& [name, value] : worker.members) {
      if (name == "local_rank") continue;
      if (name != "environment") {
        out += "  " + padded(name, 12) + text_of(value) + "\n";
        continue;
      }
      for (const auto& [variable, content] : value.members[0].second.members) {
        out += "  " + padded("set", 12) + variable + "=" + text_of(content) + "\n";
      }
      if (!value.members[1].second.members.empty()) {
        out += "  " + padded("removed", 12) + text_of(value.members[1].second) + "\n";
      }
    }
  }
  return out;
}

}  // namespace

std::string describe_plan(const RawOptions& options, const LaunchPlan& plan, bool json) {
  const agent::Config& config = plan.config;
  const Value given = options_of(options, plan);
  const Value meeting = meeting_of(config.rendezvous);
  Value workers{Value::Kind::List};
  agent::RoundFiles files;
  files.attempt = agent::planned_attempt(config, agent::temporary_folder(config));
  if (config.watch.file_timer) files.watch.timer_file = "?";
  if (config.watch.heartbeat_timeout.count() > 0)
    files.watch.heartbeat_from.assign(static_cast<std::size_t>(config.rendezvous.local_world_size), -1);
  const auto specs = agent::worker_specs(config, first_round(config.rendezvous), files);
  for (const auto& spec : specs) workers.members.emplace_back("", worker_of(spec, config));
  if (!json) return page(given, meeting, workers, config.rendezvous.host_name);
  const Value all = Value::object()
                        .set("node", Value::of(config.rendezvous.host_name))
                        .set("notes", Value::list(plan.notes))
                        .set("options", given)
                        .set("rendezvous", meeting)
                        .set("workers", workers);
  return json_of(all) + "\n";
}

}  // namespace cxxrun::cli
