// SPDX-License-Identifier: Apache-2.0
#include <cassert>

#include "cli/options.hpp"

namespace cxxrun::cli {
namespace {

constexpr std::string_view kSizes = "Sizes";
constexpr std::string_view kMeeting = "Where the nodes meet";
constexpr std::string_view kLife = "Restarts and stopping";
constexpr std::string_view kWhat = "What runs";
constexpr std::string_view kOther = "Other";

constexpr auto T = Kind::Text;
constexpr auto F = Kind::Flag;
constexpr auto Yes = Support::Built;
constexpr auto NotYet = Support::NotYet;

constexpr std::array<OptionRow, static_cast<std::size_t>(Opt::kCount)> kTable{{
    {Opt::Nnodes, "nnodes", 0, T, Yes, kSizes, "N|MIN:MAX", "1", "number of nodes; MIN:MAX: elastic"},
    {Opt::NprocPerNode, "nproc-per-node", 0, T, Yes, kSizes, "N|auto|cpu|gpu", "1",
     "workers on this node; auto: GPUs, else usable CPUs"},
    {Opt::Standalone, "standalone", 0, F, Yes, kSizes, "", "",
     "one node, nothing of the surroundings is looked at"},
    {Opt::RdzvEndpoint, "rdzv-endpoint", 0, T, Yes, kMeeting, "HOST[:PORT]", "",
     "the same on every node; HOST is one of them (port 29400)"},
    {Opt::RdzvBackend, "rdzv-backend", 0, T, Yes, kMeeting, "c10d|static", "",
     "c10d: whoever owns HOST serves; static: node rank 0 does"},
    {Opt::RdzvId, "rdzv-id", 0, T, Yes, kMeeting, "ID", "none", "name of the job, the same on every node"},
    {Opt::RdzvConf, "rdzv-conf", 0, T, Yes, kMeeting, "K=V,K=V", "",
     "time limits and more, see docs/reference.md"},
    {Opt::NodeRank, "node-rank", 0, T, Yes, kMeeting, "N", "",
     "static: rank of this node; c10d: a hint, honoured if unique"},
    {Opt::MasterAddr, "master-addr", 0, T, Yes, kMeeting, "HOST", "127.0.0.1",
     "static: where node rank 0 serves"},
    {Opt::MasterPort, "master-port", 0, T, Yes, kMeeting, "PORT", "29500", "static: its port"},
    {Opt::LocalAddr, "local-addr", 0, T, Yes, kMeeting, "ADDR", "",
     "what this node advertises: address, name, interface, prefix"},
    {Opt::PortRange, "port-range", 0, T, Yes, kMeeting, "A-B", "", "every port that cxxrun opens lies in it"},
    {Opt::WorkerStore, "worker-store", 0, T, Yes, kMeeting, "agent|none", "agent",
     "who serves MASTER_PORT: the agent, or the worker itself"},
    {Opt::MaxRestarts, "max-restarts", 0, T, Yes, kLife, "N", "0",
     "restarts of the whole job after failures"},
    {Opt::ShutdownTimeout, "shutdown-timeout", 0, T, Yes, kLife, "SECONDS", "30",
     "from the stop signal to SIGKILL, full for each worker"},
    {Opt::SignalsToHandle, "signals-to-handle", 0, T, Yes, kLife, "NAMES", "SIGTERM,SIGINT,SIGHUP,SIGQUIT",
     "signals that stop; only the default yet"},
    {Opt::MonitorInterval, "monitor-interval", 0, T, Yes, kLife, "SECONDS", "0.1",
     "accepted, without effect: nothing here polls"},
    {Opt::StartMethod, "start-method", 0, T, Yes, kLife, "spawn", "spawn", "a fresh program for each worker"},
    {Opt::Role, "role", 0, T, Yes, kLife, "NAME", "default", "ROLE_NAME of this node's workers"},
    {Opt::Module, "module", 'm', F, Yes, kWhat, "", "", "the program is a Python module"},
    {Opt::NoPython, "no-python", 0, F, Yes, kWhat, "", "", "execute it as it is, never with Python"},
    {Opt::Stderr, "stderr", 0, T, Yes, kWhat, "pipe|inherit", "pipe",
     "inherit: untouched, but no last words in the report"},
    {Opt::Help, "help", 'h', F, Yes, kOther, "", "", "this text"},
    {Opt::Version, "version", 0, F, Yes, kOther, "", "", "the version"},
    {Opt::RunPath, "run-path", 0, F, NotYet, "", "", "", ""},
    {Opt::LogDir, "log-dir", 0, T, NotYet, "", "", "", ""},
    {Opt::Redirects, "redirects", 'r', T, NotYet, "", "", "", ""},
    {Opt::Tee, "tee", 't', T, NotYet, "", "", "", ""},
    {Opt::LogLinePrefixTemplate, "log-line-prefix-template", 0, T, NotYet, "", "", "", ""},
    {Opt::LocalRanksFilter, "local-ranks-filter", 0, T, NotYet, "", "", "", ""},
    {Opt::DuplicateStdoutFilters, "duplicate-stdout-filters", 0, T, NotYet, "", "", "", ""},
    {Opt::DuplicateStderrFilters, "duplicate-stderr-filters", 0, T, NotYet, "", "", "", ""},
    {Opt::LogsSpecs, "logs-specs", 0, T, NotYet, "", "", "", ""},
    {Opt::NumaBinding, "numa-binding", 0, T, NotYet, "", "", "", ""},
    {Opt::VirtualLocalRank, "virtual-local-rank", 0, F, NotYet, "", "", "", ""},
    {Opt::EventLogHandler, "event-log-handler", 0, T, NotYet, "", "", "", ""},
    {Opt::PrintCompletion, "print-completion", 0, T, NotYet, "", "", "", ""},
}};

constexpr bool in_order() {
  for (std::size_t i = 0; i < kTable.size(); ++i) {
    if (kTable[i].id != static_cast<Opt>(i)) return false;
  }
  return true;
}
static_assert(in_order(), "a row stands where its number says");

/// "  --nnodes N|MIN:MAX"
std::string usage_of(const OptionRow& option) {
  std::string out = option.letter != 0 ? std::string("  -") + option.letter + ", --" : "  --";
  out += option.name;
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
  if (option.id == Opt::Help || option.id == Opt::Version) return {};
  std::string out = "PET_";
  for (const char c : option.name)
    out += c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return out;
}

std::string make_help() {
  std::string out(kHelpHead);
  std::string_view group;
  for (const OptionRow& option : kTable) {
    if (option.support != Support::Built) continue;
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
