// SPDX-License-Identifier: Apache-2.0
#include "launcher/leftovers.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <string>

namespace cxxrun::launcher {
namespace {

constexpr int kPassesMax =
    64;  // a tree that grows faster than that is looked at again when a part of it ends

bool ended(const Process& process) { return process.state == 'Z' || process.state == 'X'; }

}  // namespace

int owner_of(const Process& process, const std::vector<WorkerIdentity>& workers) {
  const auto index = [&](auto found) {
    return found == workers.end() ? -1 : static_cast<int>(std::distance(workers.begin(), found));
  };
  const int by_session =
      index(std::find_if(workers.begin(), workers.end(),
                         [&](const WorkerIdentity& worker) { return worker.pid == process.session; }));
  if (by_session >= 0) return by_session;
  const auto rank = environment_value(process.pid, "RANK");
  if (!rank) return -1;
  return index(std::find_if(workers.begin(), workers.end(), [&](const WorkerIdentity& worker) {
    return std::to_string(worker.rank) == *rank;
  }));
}

void Leftovers::terminate(const std::vector<WorkerIdentity>& workers) {
  if (!any()) return;
  std::vector<pid_t> skip = foreign_;
  for (const WorkerIdentity& worker : workers) {
    if (worker.alive) skip.push_back(worker.pid);  // and its helpers below it: they live while it saves
  }
  const bool any_alive = skip.size() > foreign_.size();
  for (int pass = 0; pass < kPassesMax; ++pass) {
    bool fresh = false;
    const std::vector<Process> all = descendants_of(::getpid(), skip);
    const std::set<pid_t> told = told_of(all);
    for (const Process& process : all) {
      if (ended(process) || terminated_.contains({process.pid, process.start_ticks})) continue;
      if (told.contains(process.parent)) continue;
      const int owner = owner_of(process, workers);
      if (owner < 0 ? any_alive : workers[static_cast<std::size_t>(owner)].alive) continue;
      terminated_.insert({process.pid, process.start_ticks});
      signal_process(process, SIGTERM);
      fresh = true;
    }
    if (!fresh) return;
  }
}

std::set<pid_t> Leftovers::told_of(const std::vector<Process>& all) const {
  std::set<pid_t> out;
  for (const Process& process : all) {
    if (terminated_.contains({process.pid, process.start_ticks})) out.insert(process.pid);
  }
  return out;
}

void Leftovers::kill() {
  for (int pass = 0; pass < kPassesMax; ++pass) {
    bool fresh = false;
    // Parents come first, and a process with SIGKILL pending cannot fork any more.
    for (const Process& process : descendants_of(::getpid(), foreign_)) {
      if (ended(process) || !killed_.insert({process.pid, process.start_ticks}).second) continue;
      signal_process(process, SIGKILL);
      fresh = true;
    }
    if (!fresh) return;
  }
}

void Leftovers::signal_sessions(const std::vector<WorkerIdentity>& workers, int signo) const {
  std::set<Name> done;
  for (int pass = 0; pass < kPassesMax; ++pass) {
    bool fresh = false;
    for (const Process& process : descendants_of(::getpid(), foreign_)) {
      const bool in_session = std::any_of(workers.begin(), workers.end(), [&](const WorkerIdentity& worker) {
        return worker.pid == process.session;
      });
      if (!in_session || ended(process) || !done.insert({process.pid, process.start_ticks}).second) continue;
      signal_process(process, signo);
      fresh = true;
    }
    if (!fresh) return;
  }
}

void Leftovers::reap_adopted(const std::vector<WorkerIdentity>& workers) const {
  const auto is_worker = [&](pid_t pid) {
    return std::any_of(workers.begin(), workers.end(),
                       [pid](const WorkerIdentity& worker) { return worker.pid == pid && worker.alive; });
  };
  const auto is_foreign = [&](pid_t pid) {
    return std::find(foreign_.begin(), foreign_.end(), pid) != foreign_.end();
  };
  for (;;) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) != 0 || info.si_pid == 0) return;
    if (is_worker(info.si_pid) || is_foreign(info.si_pid)) break;  // that one hides those behind it
    ::waitid(P_PID, static_cast<id_t>(info.si_pid), &info, WEXITED | WNOHANG | __WALL);
  }
  if (foreign_.empty()) return;  // a worker's end has an event of its own, and is followed by another look
  for (const pid_t child : children_of(::getpid())) {
    siginfo_t info{};
    if (is_worker(child) || is_foreign(child)) continue;
    ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | __WALL);
  }
}

bool Leftovers::any() const {
  if (!has_children()) return false;
  if (foreign_.empty()) return true;
  const auto children = children_of(::getpid());
  return std::any_of(children.begin(), children.end(), [&](pid_t child) {
    return std::find(foreign_.begin(), foreign_.end(), child) == foreign_.end();
  });
}

std::vector<Process> Leftovers::list() const { return descendants_of(::getpid(), foreign_); }

}  // namespace cxxrun::launcher
