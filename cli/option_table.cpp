// SPDX-License-Identifier: Apache-2.0
#include <cassert>

#include "cli/not_yet.hpp"
#include "cli/options.hpp"

namespace cxxrun::cli {
namespace {

constexpr std::string_view kSizes = "Sizes";
constexpr std::string_view kMeeting = "Where the nodes meet";
constexpr std::string_view kLife = "Restarts and stopping";
constexpr std::string_view kLogs = "Output of the workers";
constexpr std::string_view kWhat = "What runs";
constexpr std::string_view kPlace = "CPUs and devices";
constexpr std::string_view kTell = "Reports";
constexpr std::string_view kOther = "Other";
constexpr std::string_view kLaunch = "Only as cxxrun-launch (deprecated)";
constexpr std::string_view kHidden;

constexpr auto T = Kind::Text;
constexpr auto F = Kind::Flag;
constexpr auto O = Kind::Optional;
constexpr auto Torch = Origin::Torchrun;
constexpr auto Own = Origin::Ours;

// clang-format off
constexpr std::array<OptionRow, static_cast<std::size_t>(Opt::kCount)> kTable{{
    {Opt::Nnodes, "nnodes", 0, T, Torch, kSizes, "N|MIN:MAX", "1", "number of nodes; MIN:MAX: elastic"},
    {Opt::NprocPerNode, "nproc-per-node", 0, T, Torch, kSizes, "N|auto|cpu|gpu", "1", "workers on this node; auto: GPUs, else usable CPUs"},
    {Opt::Standalone, "standalone", 0, F, Torch, kSizes, "", "", "one node, nothing of the surroundings is looked at"},
    {Opt::RdzvEndpoint, "rdzv-endpoint", 0, T, Torch, kMeeting, "HOST[:PORT]", "", "the same on every node; HOST is one of them (port 29400)"},
    {Opt::RdzvBackend, "rdzv-backend", 0, T, Torch, kMeeting, "c10d|static", "", "c10d: whoever owns HOST serves; static: node rank 0 does"},
    {Opt::RdzvId, "rdzv-id", 0, T, Torch, kMeeting, "ID", "none", "name of the job, the same on every node"},
    {Opt::RdzvConf, "rdzv-conf", 0, T, Torch, kMeeting, "K=V,K=V", "", "time limits and more, see docs/reference.md"},
    {Opt::NodeRank, "node-rank", 0, T, Torch, kMeeting, "N", "", "static: rank of this node; c10d: a hint, honoured if unique"},
    {Opt::MasterAddr, "master-addr", 0, T, Torch, kMeeting, "HOST", "127.0.0.1", "static: where node rank 0 serves"},
    {Opt::MasterPort, "master-port", 0, T, Torch, kMeeting, "PORT", "29500", "static: its port"},
    {Opt::LocalAddr, "local-addr", 0, T, Torch, kMeeting, "ADDR", "", "what this node advertises: address, name, interface, prefix"},
    {Opt::PortRange, "port-range", 0, T, Own, kMeeting, "A-B", "", "every port that cxxrun opens lies in it"},
    {Opt::WorkerStore, "worker-store", 0, T, Own, kMeeting, "agent|none", "agent", "who serves MASTER_PORT: the agent, or the worker itself"},
    {Opt::MaxRestarts, "max-restarts", 0, T, Torch, kLife, "N", "0", "restarts of the whole job after failures"},
    {Opt::RestartExitCodes, "restart-exit-codes", 0, T, Own, kLife, "CODES", "", "only these restart: 1,64-78,SIGKILL"},
    {Opt::NoRestartExitCodes, "no-restart-exit-codes", 0, T, Own, kLife, "CODES", "", "these do not"},
    {Opt::HeartbeatTimeout, "heartbeat-timeout", 0, T, Own, kLife, "SECONDS", "0", "a worker that has beaten and stops so long failed; 0: off"},
    {Opt::ShutdownTimeout, "shutdown-timeout", 0, T, Torch, kLife, "SECONDS", "30", "from the stop signal to SIGKILL, full for each worker"},
    {Opt::SignalsToHandle, "signals-to-handle", 0, T, Torch, kLife, "NAMES", "SIGTERM,SIGINT,SIGHUP,SIGQUIT", "signals that stop the job"},
    {Opt::LogDir, "log-dir", 0, T, Torch, kLogs, "FOLDER", "", "base of the log files"},
    {Opt::Redirects, "redirects", 'r', T, Torch, kLogs, "0-3|RANK:0-3,...", "0", "to files: 1 stdout, 2 stderr, 3 both; by local rank"},
    {Opt::Tee, "tee", 't', T, Torch, kLogs, "0-3|RANK:0-3,...", "0", "the same, to files and to the console"},
    {Opt::LogLinePrefixTemplate, "log-line-prefix-template", 0, T, Torch, kLogs, "TEXT", "", "with ${rank}, ${local_rank}, ${role_name}, ${hostname}"},
    {Opt::LocalRanksFilter, "local-ranks-filter", 0, T, Torch, kLogs, "RANKS", "", "local ranks that may write to the console"},
    {Opt::RanksFilter, "ranks-filter", 0, T, Own, kLogs, "RANKS", "", "the same by global rank"},
    {Opt::DuplicateStdoutFilters, "duplicate-stdout-filters", 0, T, Torch, kLogs, "TEXTS", "", "lines with one of these also go to one file"},
    {Opt::DuplicateStderrFilters, "duplicate-stderr-filters", 0, T, Torch, kLogs, "TEXTS", "", "the same for stderr"},
    {Opt::LogFormat, "log-format", 0, T, Own, kLogs, "text|json", "text", "json: each line of agent and workers is an object"},
    {Opt::Stderr, "stderr", 0, T, Own, kLogs, "pipe|inherit", "pipe", "inherit: untouched, but no last words in the report"},
    {Opt::Module, "module", 'm', F, Torch, kWhat, "", "", "the program is a Python module"},
    {Opt::NoPython, "no-python", 0, F, Torch, kWhat, "", "", "execute it as it is, never with Python"},
    {Opt::Role, "role", 0, T, Torch, kWhat, "NAME", "default", "ROLE_NAME of this node's workers"},
    {Opt::StartMethod, "start-method", 0, T, Torch, kWhat, "spawn", "spawn", "a fresh program for each worker"},
    {Opt::StdinRank, "stdin-rank", 0, T, Own, kWhat, "RANK", "", "local rank of the worker that owns the terminal"},
    {Opt::NumaBinding, "numa-binding", 0, T, Torch, kPlace, "MODE", "", "node, socket, exclusive or core-complex"},
    {Opt::Gpus, "gpus", 0, T, Own, kPlace, "LIST", "", "the devices of this node's workers: 2,4,7"},
    {Opt::VirtualLocalRank, "virtual-local-rank", 0, F, Torch, kPlace, "", "", "LOCAL_RANK=0 and one device for each worker"},
    {Opt::ResultFile, "result-file", 0, T, Own, kTell, "FILE", "", "how it ended, as JSON"},
    {Opt::ExitCode, "exit-code", 0, T, Own, kTell, "CLASS=N,...|kubeflow", "", "usage, rendezvous, lost-node, stopped, peer-failed"},
    {Opt::EventLogHandler, "event-log-handler", 0, T, Torch, kTell, "null|console|/PATH", "null", "events of workers and agent, as JSON lines"},
    {Opt::Metrics, "metrics", 0, T, Own, kTell, "null|console|/PATH", "null", "counts and durations, as JSON lines"},
    {Opt::HealthCheckPort, "health-check-port", 0, T, Own, kTell, "PORT", "0", "answers whether the job goes on; 0: none"},
    {Opt::MonitorInterval, "monitor-interval", 0, T, Torch, kTell, "SECONDS", "0.1", "accepted, without effect: nothing here polls"},
    {Opt::DryRun, "dry-run", 0, O, Own, kOther, "text|json", "", "print the plan and where it comes from; start nothing"},
    {Opt::Completion, "completion", 0, T, Own, kOther, "bash|zsh|fish", "", "print the shell's completion"},
    {Opt::Help, "help", 'h', F, Torch, kOther, "", "", "this text"},
    {Opt::Version, "version", 0, F, Own, kOther, "", "", "the version"},
    {Opt::UseEnv, "use-env", 0, F, Own, kLaunch, "", "", "no --local-rank=N for the program"},
    {Opt::PrintCompletion, "print-completion", 0, T, Torch, kHidden, "bash|zsh|fish", "", "the same as --completion"},
    {Opt::RunPath, "run-path", 0, F, Torch, kHidden, "", "", "needs a Python interpreter inside the launcher: leave it out, a *.py file runs as a script"},
    {Opt::LogsSpecs, "logs-specs", 0, T, Torch, kHidden, "NAME", "", "needs a Python package inside the launcher: use --log-dir, --redirects and --tee"},
}};
// clang-format on

constexpr bool in_order() {
  for (std::size_t i = 0; i < kTable.size(); ++i) {
    if (kTable[i].id != static_cast<Opt>(i)) return false;
  }
  return true;
}
static_assert(in_order(), "a row stands where its number says");

/// Neither by variable nor by file.
constexpr std::array kCommandLineOnly{
    Opt::Help, Opt::Version, Opt::DryRun, Opt::Completion, Opt::PrintCompletion, Opt::UseEnv, Opt::LogsSpecs};

/// "  --nnodes N|MIN:MAX"
std::string usage_of(const OptionRow& option) {
  std::string out = option.letter != 0 ? std::string("  -") + option.letter + ", --" : "  --";
  out += option.name;
  if (option.kind == Kind::Optional) return out + "[=" + std::string(option.value) + "]";
  if (!option.value.empty()) out += " " + std::string(option.value);
  return out;
}

/// "[1, PET_NNODES]"
std::string origin_of(const OptionRow& option) {
  const std::string var = variable(option);
  if (option.fallback.empty()) return var.empty() ? "" : "[" + var + "]";
  return "[" + std::string(option.fallback) + (var.empty() ? "]" : ", " + var + "]");
}

constexpr std::string_view kHelpHead =
    "usage: cxxrun [options] program [arguments of the program ...]\n"
    "\n"
    "Starts the workers of this node; the same line on every node makes one job.\n"
    "  cxxrun --nproc-per-node 4 ./train\n"
    "  cxxrun --nnodes 3 --nproc_per_node 1 --rdzv-endpoint node1:29400 ./train\n"
    "\n"
    "Options stand before the program; - and _ in their names mean the same.\n"
    "In brackets: the default, and the variable that sets it. A flag wins over its\n"
    "variable, that over ~/.config/cxxrun.conf, that over /etc/cxxrun.conf.\n";

}  // namespace

std::span<const OptionRow> option_table() { return kTable; }
const OptionRow& row(Opt id) { return kTable[static_cast<std::size_t>(id)]; }

std::string variable(const OptionRow& option) {
  for (const Opt one : kCommandLineOnly) {
    if (one == option.id) return {};
  }
  std::string out = "PET_";
  for (const char c : option.name)
    out += c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return out;
}

std::string make_help() {
  std::string out(kHelpHead);
  std::string_view group;
  for (const OptionRow& option : kTable) {
    if (not_yet(option.id) || option.group.empty()) continue;
    if (option.group != group) out += "\n" + std::string(group = option.group) + ":\n";
    out += usage_of(option) + "\n      " + std::string(option.help) + "\n";
    if (const std::string origin = origin_of(option); !origin.empty()) out += "      " + origin + "\n";
  }
  out +=
      "\nExit codes: 0, the first failed worker's own code, 128 + its signal; 2 usage,\n69 rendezvous, 75 "
      "nodes missing, 126, 127 program. See docs/exit-codes.md.\n";
  return out;
}

}  // namespace cxxrun::cli
