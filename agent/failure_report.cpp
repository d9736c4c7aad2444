// SPDX-License-Identifier: Apache-2.0
#include "agent/failure_report.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

namespace cxxrun::agent {
namespace {

constexpr std::size_t kLineBytesMax = 400;
constexpr std::size_t kFatesMax = 8;  // kinds of ends; the rest is counted

/// Control characters of a worker's or a peer's text must not drive the reader's terminal.
std::string printable(std::string_view line) {
  std::string out;
  const bool cut = line.size() > kLineBytesMax;
  out.reserve(std::min(line.size(), kLineBytesMax) + 3);
  for (const char c : line.substr(0, kLineBytesMax)) {
    const auto byte = static_cast<unsigned char>(c);
    out += (byte < 0x20 && c != '\t') || byte == 0x7f ? '?' : c;
  }
  return cut ? out + "..." : out;
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

/// The last lines: of a traceback as of a log, the reason stands at the end.
void add_block(std::string& out, const std::string& title, std::vector<std::string_view> lines,
               std::size_t lines_max) {
  out += "  " + title;
  if (lines.size() > lines_max) {
    out += " (the last " + std::to_string(lines_max) + " of " + std::to_string(lines.size()) + " lines)";
    lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(lines_max));
  }
  out += ":\n";
  for (const auto line : lines) out += "    " + printable(line) + "\n";
}

void add_words(std::string& out, const Failure& failure, std::size_t lines_max) {
  if (!failure.message.empty()) {
    const auto lines = lines_of(failure.message);
    out += "  reason: " + printable(lines.empty() ? "" : lines[0]) + "\n";
    for (std::size_t i = 1; i < std::min(lines.size(), lines_max); ++i)
      out += "    " + printable(lines[i]) + "\n";
  }
  if (!failure.evidence.empty()) out += "  " + printable(failure.evidence) + "\n";
  if (!failure.traceback.empty()) {
    add_block(out, "traceback", lines_of(failure.traceback), lines_max);
  } else if (!failure.last_words.empty()) {
    add_block(out, "last lines of its stderr", {failure.last_words.begin(), failure.last_words.end()},
              lines_max);
  } else if (!failure.last_words_note.empty()) {
    out += "  " + printable(failure.last_words_note) + "\n";
  } else if (failure.rank >= 0) {
    out += "  it wrote nothing to stderr\n";
  }
  if (!failure.error_file.empty()) out += "  its error file: " + printable(failure.error_file) + "\n";
}

/// In the order of the report: what failed by itself, what we stopped, what runs or finished.
std::pair<int, std::string> fate(const WorkerEnd& worker) {
  if (worker.start == WorkerEnd::Start::Never) return {4, "not started"};
  if (worker.start == WorkerEnd::Start::Undone) return {1, "killed again at once: all start, or none"};
  if (!worker.ended) return {2, "still running when this node gave up"};
  if (worker.our_signal == 0) {
    if (succeeded(worker.status)) return {3, "finished"};
    return {0, "failed by itself: " + text(worker.status)};
  }
  const std::string signal = signal_name(worker.our_signal);
  std::string out = "stopped by cxxrun with " + signal;
  const auto* signaled = std::get_if<Signaled>(&worker.status);
  if (signaled == nullptr || signaled->signo != worker.our_signal) {
    out += ", then " + text(worker.status);
  } else if (worker.our_signal == 9) {
    out += ": it had not ended in time";
  }
  return {1, out};
}

void add_others(std::string& out, const std::vector<WorkerEnd>& here, int culprit) {
  std::map<std::pair<int, std::string>, std::vector<int>> by_fate;
  for (const auto& worker : here) {
    if (worker.rank != culprit) by_fate[fate(worker)].push_back(worker.rank);
  }
  std::size_t shown = 0;
  std::size_t more = 0;
  for (const auto& [what, ranks] : by_fate) {
    if (shown++ >= kFatesMax) {
      more += ranks.size();
      continue;
    }
    out += (ranks.size() == 1 ? "  rank " : "  ranks ") + folded(ranks) + " here: " + what.second + "\n";
  }
  if (more > 0) out += "  " + std::to_string(more) + " more here ended in other ways\n";
}

}  // namespace

std::string folded(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  std::string out;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (!out.empty()) out += ", ";
    out += std::to_string(ranks[i]);
    if (last > i) out += "-" + std::to_string(ranks[last]);
    i = last + 1;
  }
  return out;
}

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

std::string failure_report(const rendezvous::Closed& closed, const std::vector<WorkerEnd>& here,
                           int exit_code, const std::string& code_note, const std::string& when,
                           std::size_t lines_max) {
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
    if (ran && !when.empty()) out += "  when: " + printable(when) + "\n";
    if (cause.rank >= 0 && cause.pid != 0) add_words(out, cause, lines_max);
    if (!closed.no_restart.empty()) out += "  no restart: " + printable(closed.no_restart) + "\n";
    add_others(out, here, cause.rank);
  }
  out +=
      "  exit code: " + std::to_string(exit_code) + (code_note.empty() ? "" : " (" + code_note + ")") + "\n";
  return out;
}

std::string failure_report_within(std::size_t bytes_max, const rendezvous::Closed& closed,
                                  const std::vector<WorkerEnd>& here, int exit_code,
                                  const std::string& code_note, const std::string& when) {
  std::string out;
  for (const std::size_t lines :
       {kReportLinesMax, kReportLinesMax / 2, kReportLinesMax / 4, std::size_t{1}}) {
    out = failure_report(closed, here, exit_code, code_note, when, lines);
    if (out.size() <= bytes_max) return out;
  }
  std::size_t end = bytes_max;
  while (end > 0 && (static_cast<unsigned char>(out[end]) & 0xc0) == 0x80) --end;  // no half character
  out.resize(end);
  return out;
}

}  // namespace cxxrun::agent
