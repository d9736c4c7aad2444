// SPDX-License-Identifier: Apache-2.0
#include "agent/hung_process.hpp"

#include <dirent.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <memory>
#include <vector>

#include "agent/files.hpp"
#include "base/text.hpp"

namespace cxxrun::agent {
namespace {

constexpr std::size_t kThreadsNamed = 4;
constexpr std::size_t kThreadsCounted = 4096;

std::vector<long> thread_ids(const std::string& folder) {
  std::vector<long> out;
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(folder.c_str()), ::closedir);
  if (!dir) return out;
  while (const dirent* entry = ::readdir(dir.get())) {
    const std::string_view name = entry->d_name;
    long id = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), id).ec == std::errc{} && id > 0)
      out.push_back(id);
    if (out.size() >= kThreadsCounted) break;
  }
  std::sort(out.begin(), out.end());  // the first is the main thread
  return out;
}

/// "NAME STATE WHERE" of one thread.
std::string thread_text(const std::string& folder) {
  const std::string stat = read_small_file(folder + "/stat").value_or("");
  const auto open = stat.find('(');
  const auto close = stat.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close + 2 >= stat.size()) return {};
  std::string out = cleaned(stat.substr(open + 1, close - open - 1)) + " " + stat[close + 2];
  const std::string where = read_small_file(folder + "/wchan").value_or("");
  if (!where.empty() && where != "0") out += " " + cleaned(where);
  return out;
}

bool caught(std::string_view status, int signo) {
  constexpr std::string_view kKey = "SigCgt:\t";
  const auto at = status.find(kKey);
  if (at == std::string_view::npos) return false;
  const std::string_view digits = status.substr(at + kKey.size());
  std::uint64_t mask = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), mask, 16);
  return (mask >> (signo - 1) & 1) != 0;
}

}  // namespace

std::string threads_text(pid_t pid, const std::string& root) {
  const std::string folder = root + "/proc/" + std::to_string(pid) + "/task";
  const auto ids = thread_ids(folder);
  std::string out;
  std::size_t named = 0;
  for (const long id : ids) {
    if (named >= kThreadsNamed) break;
    const std::string text = thread_text(folder + "/" + std::to_string(id));
    if (text.empty()) continue;
    out += (named++ == 0 ? "threads: " : ", ") + text;
  }
  if (named > 0 && ids.size() > named) out += " and " + std::to_string(ids.size() - named) + " more";
  return out;
}

int dump_signal_of(std::string_view status) {
  return !caught(status, SIGQUIT) && caught(status, SIGABRT) ? SIGABRT : SIGQUIT;
}

int dump_signal(pid_t pid, const std::string& root) {
  return dump_signal_of(read_small_file(root + "/proc/" + std::to_string(pid) + "/status").value_or(""));
}

}  // namespace cxxrun::agent
