// SPDX-License-Identifier: Apache-2.0
#include "agent/signal_words.hpp"

#include <algorithm>
#include <csignal>

#include "base/exit_status.hpp"
#include "launcher/guardian.hpp"
#include "launcher/process_tree.hpp"

namespace cxxrun::agent {
namespace {

std::string sender(const launcher::Received& signal) {
  if (signal.code == SI_KERNEL) return " from the terminal";
  if (signal.pid == 0) return " from outside of this container";
  const std::string command = launcher::command_of(signal.pid);
  return " from pid " + std::to_string(signal.pid) + (command == "[]" ? "" : " (" + command + ")");
}

bool is_person(int signo) { return signo == SIGINT || signo == SIGQUIT; }

}  // namespace

std::vector<int> signals_to_watch(const std::vector<int>& handled) {
  std::vector<int> out{SIGTERM, SIGINT,  SIGHUP,  SIGQUIT,  SIGUSR1,
                       SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH, launcher::guardian_gone_signal()};
  for (const int signo : handled) {
    if (std::find(out.begin(), out.end(), signo) == out.end()) out.push_back(signo);
  }
  return out;
}

std::string stop_sentence(const State& before, const launcher::Received& signal, const std::string& grace) {
  const Step next = step(before, SignalCame{signal.signo});
  const auto does = [&](const Action& action) {
    return std::find(next.actions.begin(), next.actions.end(), action) != next.actions.end();
  };
  const std::string what = signal_name(signal.signo) + sender(signal);
  if (does(Die{signal.signo})) {
    return what + ": not in --signals-to-handle, so it ends this agent and all its workers at once";
  }
  if (does(EndGrace{})) return what + ": the grace is over, SIGKILL to all that is left";
  if (before.stop_signal != 0 || next.state.stop_signal == 0) return {};
  if (is_person(signal.signo)) return what + ": stopping the job" + grace + "; once more to stop at once";
  return what + ": this node leaves the job" + grace;
}

}  // namespace cxxrun::agent
