// SPDX-License-Identifier: Apache-2.0
#include "cli/lists.hpp"

#include <algorithm>
#include <csignal>

#include "base/exit_status.hpp"
#include "base/limits.hpp"
#include "base/text.hpp"
#include "cli/numbers.hpp"

namespace cxxrun::cli {
namespace {

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::optional<unsigned> stream_bits(std::string_view text) {
  if (text.size() != 1 || text[0] < '0' || text[0] > '3') return std::nullopt;
  return static_cast<unsigned>(text[0] - '0');
}

/// 1 to 255: a code, or a signal's name.
std::optional<int> exit_code(std::string_view text) {
  if (text.starts_with("SIG")) {
    const int signo = signal_number(text);
    return signo > 0 ? std::optional(128 + signo) : std::nullopt;
  }
  const auto number = whole_number(text);
  if (!number || *number < 1 || *number > 255) return std::nullopt;
  return static_cast<int>(*number);
}

/// Not those that no process can catch, those that a program raises by its own fault, and those that tell us
/// something else: a child's end, the way back from Ctrl-Z.
bool can_be_handled(int signo) {
  for (const int not_for_us :
       {SIGKILL, SIGSTOP, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS, SIGCHLD, SIGCONT}) {
    if (signo == not_for_us) return false;
  }
  return true;
}

bool gpu_name(std::string_view text) {
  return whole_number(text).has_value() ||
         ((text.starts_with("GPU-") || text.starts_with("MIG-")) && text.size() > 4 && printable(text) &&
          text.find(' ') == std::string_view::npos);
}

using Class = agent::FailureOptions::Class;
constexpr std::pair<std::string_view, Class> kClasses[] = {{"usage", Class::Usage},
                                                           {"rendezvous", Class::Rendezvous},
                                                           {"lost-node", Class::LostNode},
                                                           {"stopped", Class::Stopped},
                                                           {"peer-failed", Class::PeerFailed}};

/// What a new try may cure, where 128 to 255 means that: Kubeflow's restart policy ExitCode.
constexpr int kRetryRendezvous = 128 + 69;
constexpr int kRetryLostNode = 128 + 75;

}  // namespace

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> out;
  for (;;) {
    const auto end = text.find(separator);
    out.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return out;
    text.remove_prefix(end + 1);
  }
}

Result<agent::StreamMap> parse_streams(std::string_view text) {
  agent::StreamMap out;
  if (const auto all = stream_bits(text)) {
    out.all = *all;
    return out;
  }
  for (const auto& item : split(text, ',')) {
    const auto colon = item.find(':');
    const auto rank = whole_number(std::string_view(item).substr(0, colon));
    const auto bits =
        colon == std::string::npos ? std::nullopt : stream_bits(std::string_view(item).substr(colon + 1));
    if (!rank || *rank >= limits::kWorkersPerNodeMax || !bits) {
      return plain_error("must be 0, 1 (stdout), 2 (stderr) or 3 (both), or by local rank: 0:3,1:2");
    }
    out.by_rank[static_cast<int>(*rank)] = *bits;
  }
  return out;
}

Result<std::optional<std::vector<int>>> parse_ranks(std::string_view text) {
  if (trimmed(text).empty()) return std::optional<std::vector<int>>();
  std::vector<int> out;
  for (const auto& item : split(text, ',')) {
    const auto rank = whole_number(trimmed(item));
    constexpr long kRanksMax = static_cast<long>(limits::kNodesMax) * limits::kWorkersPerNodeMax;
    if (!rank || *rank >= kRanksMax) return plain_error("must be ranks, as 0,2,3");
    out.push_back(static_cast<int>(*rank));
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return std::optional(std::move(out));
}

std::vector<std::string> parse_filters(std::string_view text) {
  std::vector<std::string> out(1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != ',') {
      out.back() += text[i];
    } else if (i + 1 < text.size() && text[i + 1] == ',') {
      out.back() += ',';
      ++i;
    } else {
      out.emplace_back();
    }
  }
  std::erase(out, std::string());
  return out;
}

Result<std::bitset<256>> parse_exit_codes(std::string_view text) {
  std::bitset<256> out;
  for (const auto& item : split(text, ',')) {
    const std::string_view range = trimmed(item);
    const auto dash = range.find('-');
    const auto first = exit_code(range.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : exit_code(range.substr(dash + 1));
    if (!first || !last || *first > *last) {
      return plain_error("must be exit codes 1 to 255, ranges and signals, as 1,64-78,SIGKILL");
    }
    for (int code = *first; code <= *last; ++code) out.set(static_cast<std::size_t>(code));
  }
  return out;
}

Result<std::vector<int>> parse_signals(std::string_view text, std::vector<std::string>& unknown) {
  std::vector<int> out;
  for (const auto& item : split(text, ',')) {
    const std::string_view name = trimmed(item);
    const int signo = name.starts_with("SIG") ? signal_number(name) : -1;
    if (signo < 1) {
      unknown.emplace_back(name);
    } else if (!can_be_handled(signo)) {
      return plain_error(std::string(name) + " cannot be handled");
    } else if (std::find(out.begin(), out.end(), signo) == out.end()) {
      out.push_back(signo);
    }
  }
  return out;
}

Result<std::vector<std::string>> parse_gpus(std::string_view text) {
  std::vector<std::string> out;
  for (const auto& item : split(text, ',')) {
    std::string name(trimmed(item));
    if (!gpu_name(name)) return plain_error("must be GPUs by number or name, as 2,4,7 or GPU-1b2c...");
    if (std::find(out.begin(), out.end(), name) != out.end()) return plain_error("names " + name + " twice");
    out.push_back(std::move(name));
  }
  return out;
}

Result<agent::LineSink> parse_sink(std::string_view text) {
  using Kind = agent::LineSink::Kind;
  if (text == "null" || text == "dynamic_rendezvous") return agent::LineSink{};
  if (text == "console") return agent::LineSink{Kind::Console, {}};
  if (text.find('/') != std::string_view::npos && text.find('\0') == std::string_view::npos) {
    return agent::LineSink{Kind::File, std::string(text)};
  }
  return plain_error(
      "must be null, console or a file's path with a slash; handlers of Python packages cannot be loaded");
}

Result<std::array<std::optional<int>, 5>> parse_exit_code_map(std::string_view text) {
  std::array<std::optional<int>, 5> out;
  for (const auto& item : split(text, ',')) {
    const std::string_view entry = trimmed(item);
    if (entry == "kubeflow") {
      out[static_cast<std::size_t>(Class::Rendezvous)] = kRetryRendezvous;
      out[static_cast<std::size_t>(Class::LostNode)] = kRetryLostNode;
      continue;
    }
    const auto equals = entry.find('=');
    const auto code =
        equals == std::string_view::npos ? std::nullopt : whole_number(entry.substr(equals + 1));
    const auto* known = std::find_if(std::begin(kClasses), std::end(kClasses),
                                     [&](const auto& one) { return one.first == entry.substr(0, equals); });
    if (!code || *code > 255 || known == std::end(kClasses)) {
      return plain_error(
          "must be kubeflow, or CLASS=0..255 with usage, rendezvous, lost-node, stopped or peer-failed");
    }
    out[static_cast<std::size_t>(known->second)] = static_cast<int>(*code);
  }
  return out;
}

}  // namespace cxxrun::cli
