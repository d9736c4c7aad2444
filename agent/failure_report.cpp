// SPDX-License-Identifier: Apache-2.0
#include "agent/failure_report.hpp"

#include <algorithm>
#include <map>
#include <string_view>

namespace cxxrun::agent {
namespace {

constexpr std::size_t kTracebackLinesMax = 40;

/// Control characters of a worker's or a peer's text must not drive the reader's terminal.
std::string printable(std::string_view line) {
  std::string out;
  out.reserve(line.size());
  for (const char c : line) {
    const auto byte = static_cast<unsigned char>(c);
    out += (byte < 0x20 && c != '\t') || byte == 0x7f ? '?' : c;
  }
  return out;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const auto end = text.find('\n');
    lines.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return lines;
}

void add_block(std::string& out, std::string_view title, const std::vector<std::string_view>& lines) {
  out += "  " + std::string(title) + ":\n";
  for (const auto line : lines) out += "    " + printable(line) + "\n";
}

void add_words(std::string& out, const Failure& failure) {
  if (!failure.message.empty()) out += "  reason: " + printable(failure.message) + "\n";
  if (!failure.traceback.empty()) {
    auto lines = lines_of(failure.traceback);
    if (lines.size() > kTracebackLinesMax) lines.erase(lines.begin(), lines.end() - kTracebackLinesMax);
    add_block(out, "traceback", lines);
  } else if (!failure.last_words.empty()) {
    add_block(out, "last lines of its stderr", {failure.last_words.begin(), failure.last_words.end()});
  } else if (!failure.last_words_note.empty()) {
    out += "  " + printable(failure.last_words_note) + "\n";
  } else if (failure.rank >= 0) {
    out += "  it wrote nothing to stderr\n";
  }
}

std::string fate(const WorkerEnd& worker) {
  if (worker.start == WorkerEnd::Start::Never) return "not started";
  if (worker.start == WorkerEnd::Start::Undone) return "killed again at once: all start, or none";
  if (!worker.ended) return "still running when this node gave up";
  if (worker.our_signal != 0) {
    return "stopped by cxxrun (" + signal_name(worker.our_signal) + "), " + text(worker.status);
  }
  return succeeded(worker.status) ? "finished" : text(worker.status);
}

/// Ranks 0,1,2,5 as "0-2,5": a node with 64 workers that all ended alike is one line.
std::string folded(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  std::string out;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (!out.empty()) out += ",";
    out += std::to_string(ranks[i]);
    if (last > i) out += "-" + std::to_string(ranks[last]);
    i = last + 1;
  }
  return out;
}

void add_others(std::string& out, const std::vector<WorkerEnd>& here, int culprit) {
  std::map<std::string, std::vector<int>> by_fate;
  for (const auto& worker : here) {
    if (worker.rank != culprit) by_fate[fate(worker)].push_back(worker.rank);
  }
  for (const auto& [what, ranks] : by_fate) {
    out += (ranks.size() == 1 ? "  rank " : "  ranks ") + folded(ranks) + " here: " + what + "\n";
  }
}

}  // namespace

std::string headline(const Failure& failure) {
  if (failure.rank < 0) return "node " + printable(failure.host) + ": " + printable(failure.message);
  if (failure.pid == 0) {
    return "rank " + std::to_string(failure.rank) + " (local rank " + std::to_string(failure.local_rank) +
           " on node " + printable(failure.host) + ") could not be started: " + printable(failure.message);
  }
  return "rank " + std::to_string(failure.rank) + " (local rank " + std::to_string(failure.local_rank) +
         " on node " + printable(failure.host) + ", pid " + std::to_string(failure.pid) + ") ended with " +
         text(failure.status);
}

std::string failure_report(const rendezvous::Closed& closed, const std::vector<WorkerEnd>& here) {
  std::string out;
  if (!closed.root_cause) {
    out += "cxxrun: the job ended: " + printable(closed.reason) + "\n";
    add_others(out, here, -1);
  } else {
    const Failure& cause = *closed.root_cause;
    const std::string round = " in round " + std::to_string(cause.round);
    const bool ran = cause.rank < 0 || cause.pid != 0;
    out += "cxxrun: the job failed" +
           (ran ? ": " + headline(cause) + round : round + ": " + headline(cause)) + "\n";
    if (cause.rank >= 0 && cause.pid != 0) add_words(out, cause);
    add_others(out, here, cause.rank);
  }
  out += "  exit code: " + std::to_string(closed.exit_code) + "\n";
  return out;
}

}  // namespace cxxrun::agent
