// SPDX-License-Identifier: Apache-2.0
#include "cli/plan.hpp"

#include "base/limits.hpp"
#include "base/text.hpp"
#include "cli/exit_code.hpp"
#include "cli/numbers.hpp"
#include "cli/rdzv_conf.hpp"
#include "cli/surroundings.hpp"
#include "net/address.hpp"

namespace cxxrun::cli {
namespace {

using rendezvous::BackendKind;

constexpr int kDefaultPort = 29'400;  ///< of c10d, as torchrun's
constexpr double kShutdownSecondsMax = 7.0 * 24 * 3600;
constexpr std::string_view kDefaultSignals = "SIGTERM,SIGINT,SIGHUP,SIGQUIT";

constexpr const char* kPlainText = "must be UTF-8 text without control characters";

/// Fills a LaunchPlan step by step; the first error ends it.
class Planner {
 public:
  Planner(const RawOptions& options, const Facts& facts) : options_(options), facts_(facts) {}

  std::variant<LaunchPlan, PlanError> make() {
    using Rule = std::optional<PlanError> (Planner::*)();
    for (const Rule rule : {&Planner::program, &Planner::sizes, &Planner::limits_of_life, &Planner::conf,
                            &Planner::ports, &Planner::meeting, &Planner::identity}) {
      if (auto error = (this->*rule)()) return std::move(*error);
    }
    return std::move(plan_);
  }

 private:
  agent::Config& config() { return plan_.config; }
  rendezvous::Config& rdzv() { return plan_.config.rendezvous; }
  static PlanError wrong(std::string message) { return {kUsage, std::move(message)}; }
  PlanError wrong(Opt option, const std::string& what) const { return wrong(as_given(option) + ": " + what); }
  /// "--nnodes 0", "PET_NNODES=0", "/etc/cxxrun.conf:3: nnodes = 0".
  std::string as_given(Opt option) const {
    const Given* entry = options_.find(option);
    return said(entry != nullptr ? *entry : Given{Source::Default, options_.text(option), long_name(option)});
  }
  /// The same without the value.
  std::string place(Opt option) const {
    const Given* entry = options_.find(option);
    return entry != nullptr ? entry->where : long_name(option);
  }
  static std::string long_name(Opt option) { return "--" + std::string(row(option).name); }

  /// An empty place to meet, as an unset variable in a manifest leaves it, says nothing: each node would meet
  /// itself.
  bool given(Opt option) const {
    const Given* entry = options_.find(option);
    if (entry == nullptr) return false;
    const bool names_place =
        option == Opt::RdzvEndpoint || option == Opt::MasterAddr || option == Opt::LocalAddr;
    return !names_place || entry->value.find_first_not_of(" \t\r\n") != std::string::npos;
  }
  std::string text_of(Opt option) const {
    return given(option) ? options_.text(option) : std::string(row(option).fallback);
  }
  std::string environment(const char* name) const { return facts_.environment(name).value_or(""); }

  std::optional<PlanError> program() {
    plan_.words = options_.program;
    plan_.module = options_.flag(Opt::Module);
    plan_.no_python = options_.flag(Opt::NoPython);
    if (plan_.module && plan_.no_python)
      return wrong(place(Opt::Module) + " and " + place(Opt::NoPython) + " exclude each other");
    if (plan_.words.empty() || plan_.words[0].empty()) {
      return wrong(
          "which program shall run?\n  cxxrun --nproc-per-node 2 ./train    (cxxrun --help lists the "
          "options)");
    }
    const std::string how = options_.text(Opt::Stderr);
    if (how != "pipe" && how != "inherit") return wrong(Opt::Stderr, "must be pipe or inherit");
    config().stderr_inherit = how == "inherit";
    config().terminal = facts_.terminal;
    return std::nullopt;
  }

  std::optional<PlanError> sizes() {
    const std::string nodes = options_.text(Opt::Nnodes);
    const auto colon = nodes.find(':');
    const auto least = whole_number(std::string_view(nodes).substr(0, colon));
    const auto most =
        colon == std::string::npos ? least : whole_number(std::string_view(nodes).substr(colon + 1));
    if (!least || !most) return wrong(Opt::Nnodes, "must be a number of nodes, or MIN:MAX");
    if (*least < 1) return wrong(Opt::Nnodes, "at least 1 node");
    if (*least > *most) return wrong(Opt::Nnodes, "MIN is larger than MAX");
    if (*most > limits::kNodesMax)
      return wrong(Opt::Nnodes, "at most " + std::to_string(limits::kNodesMax) + " nodes");
    rdzv().nnodes_min = static_cast<int>(*least);
    rdzv().nnodes_max = static_cast<int>(*most);
    return workers();
  }

  std::optional<PlanError> workers() {
    const std::string text = options_.text(Opt::NprocPerNode);
    long count = 0;
    if (const auto number = whole_number(text)) {
      count = *number;
      if (count < 1) return wrong(Opt::NprocPerNode, "at least 1 worker");
    } else if (text == "cpu") {
      count = facts_.usable_cpus();
      note("--nproc-per-node cpu: " + std::to_string(count) + " usable CPUs");
    } else if (text == "gpu") {
      count = facts_.usable_gpus();
      if (count < 1)
        return wrong(Opt::NprocPerNode, "no GPU is visible here (CUDA_VISIBLE_DEVICES, /proc/driver/nvidia)");
      note("--nproc-per-node gpu: " + std::to_string(count) + " visible GPUs");
    } else if (text == "auto") {
      count = facts_.usable_gpus();
      note("--nproc-per-node auto: " +
           (count > 0 ? std::to_string(count) + " visible GPUs"
                      : std::to_string(count = facts_.usable_cpus()) + " usable CPUs, no GPU"));
    } else {
      return wrong(Opt::NprocPerNode, "must be a number, auto, cpu or gpu");
    }
    if (count > limits::kWorkersPerNodeMax) {
      return wrong(Opt::NprocPerNode,
                   "at most " + std::to_string(limits::kWorkersPerNodeMax) + " workers on one node");
    }
    rdzv().local_world_size = static_cast<int>(count);
    if (count > 1 && !facts_.environment("OMP_NUM_THREADS")) config().usable_cpus = cpus_to_share(count);
    return std::nullopt;
  }

  /// Where the mask leaves less than two for each worker, each gets one thread whatever the cgroup's quota
  /// is: its files stay unread, a tenth of a millisecond.
  int cpus_to_share(long workers) {
    const int mask = facts_.mask_cpus ? facts_.mask_cpus() : 0;
    return mask > 0 && mask < 2 * workers ? mask : facts_.usable_cpus();
  }

  std::optional<PlanError> limits_of_life() {
    const auto restarts = whole_number(options_.text(Opt::MaxRestarts));
    if (!restarts || *restarts > 1'000'000)
      return wrong(Opt::MaxRestarts, "must be a whole number, 0 or more");
    rdzv().max_restarts = static_cast<int>(*restarts);
    if (auto error = grace()) return error;
    const auto interval = seconds_number(options_.text(Opt::MonitorInterval));
    if (!interval || *interval <= 0) return wrong(Opt::MonitorInterval, "must be seconds, more than 0");
    const std::string method = options_.text(Opt::StartMethod);
    if (method == "fork" || method == "forkserver")
      return wrong(Opt::StartMethod, "not yet supported; write spawn");
    if (method != "spawn") return wrong(Opt::StartMethod, "must be spawn");
    if (options_.text(Opt::SignalsToHandle) != kDefaultSignals) {
      return wrong(Opt::SignalsToHandle,
                   "another list than " + std::string(kDefaultSignals) + " is not yet supported");
    }
    rdzv().role = options_.text(Opt::Role);
    if (!printable(rdzv().role)) return wrong(Opt::Role, kPlainText);
    return std::nullopt;
  }

  /// torchrun has a second variable for it, weaker than the option and its PET_ one.
  std::optional<PlanError> grace() {
    std::string text = options_.text(Opt::ShutdownTimeout);
    const std::string torch = environment("TORCH_ELASTIC_SHUTDOWN_TIMEOUT");
    const bool by_torch = !given(Opt::ShutdownTimeout) && !torch.empty();
    if (by_torch) text = torch;
    const auto seconds = seconds_number(text);
    if (!seconds || *seconds > kShutdownSecondsMax) {
      const std::string what = "must be seconds, 0 to 604800";
      return by_torch ? wrong("TORCH_ELASTIC_SHUTDOWN_TIMEOUT=" + quoted(torch) + ": " + what)
                      : wrong(Opt::ShutdownTimeout, what);
    }
    config().signals.shutdown_timeout = std::chrono::milliseconds(static_cast<std::int64_t>(*seconds * 1000.0));
    return std::nullopt;
  }

  std::optional<PlanError> conf() {
    const std::string text = options_.text(Opt::RdzvConf);
    std::string token_file;
    if (auto good = apply_rdzv_conf(text, config(), token_file, plan_.notes); !good) {
      return wrong(place(Opt::RdzvConf) + ": " + good.error().message);
    }
    rdzv().token = environment("CXXRUN_TOKEN");
    if (token_file.empty()) return std::nullopt;
    const std::string which = place(Opt::RdzvConf) + ": token_file=" + quoted(token_file) + ": ";
    const auto token = facts_.read_file(token_file);
    if (!token) return wrong(which + token.error().message);
    rdzv().token = token->substr(0, token->find_last_not_of(" \t\r\n") + 1);
    if (rdzv().token.empty()) return wrong(which + "is empty");
    return std::nullopt;
  }

  std::optional<PlanError> ports() {
    const std::string store = options_.text(Opt::WorkerStore);
    if (store != "agent" && store != "none") return wrong(Opt::WorkerStore, "must be agent or none");
    rdzv().agent_store = store == "agent" && environment("TORCH_DISABLE_SHARE_RDZV_TCP_STORE") != "1";
    if (!given(Opt::PortRange)) return std::nullopt;
    const std::string range = options_.text(Opt::PortRange);
    const auto dash = range.find('-');
    const auto first = whole_number(std::string_view(range).substr(0, dash));
    const auto last =
        dash == std::string::npos ? first : whole_number(std::string_view(range).substr(dash + 1));
    if (!first || !last || *first < 1 || *last > 65'535 || *first > *last) {
      return wrong(Opt::PortRange, "must be FIRST-LAST, within 1 to 65535");
    }
    rdzv().ports = {static_cast<std::uint16_t>(*first), static_cast<std::uint16_t>(*last)};
    return std::nullopt;
  }

  // --- where the nodes meet ---

  std::optional<PlanError> meeting() {
    if (auto error = node_rank()) return error;
    if (given(Opt::RdzvEndpoint)) {  // also where one node needs none: a typo is found now, not when the job
                                     // grows
      auto endpoint = net::parse_endpoint(options_.text(Opt::RdzvEndpoint));
      if (!endpoint) return wrong(Opt::RdzvEndpoint, endpoint.error().message);
      endpoint_ = std::move(*endpoint);
    }
    const std::string backend = options_.text(Opt::RdzvBackend);
    if (backend == "etcd") return wrong(Opt::RdzvBackend, "not yet supported; write c10d");
    if (backend == "etcd-v2") return wrong(Opt::RdzvBackend, "the v2 API is gone from etcd; write c10d");
    if (given(Opt::RdzvBackend) && backend != "c10d" && backend != "static") {
      return wrong(Opt::RdzvBackend, "must be c10d or static");
    }
    rdzv().local_addr = text_of(Opt::LocalAddr);
    if (!printable(rdzv().local_addr) || rdzv().local_addr.find(' ') != std::string::npos) {
      return wrong(Opt::LocalAddr,
                   "must be an address, a name, an interface or a prefix such as 10.0.0.0/16");
    }
    if (options_.flag(Opt::Standalone)) {
      if (rdzv().nnodes_max > 1) {
        return wrong("--standalone is for one node; with " + as_given(Opt::Nnodes) +
                     " give --rdzv-endpoint instead");
      }
      for (const Opt unused : {Opt::RdzvEndpoint, Opt::MasterAddr, Opt::MasterPort})
        note_unused(unused, "--standalone meets nobody");
      return alone();
    }
    const bool names_master = given(Opt::NodeRank) || given(Opt::MasterAddr) || given(Opt::MasterPort);
    const bool is_static =
        backend == "static" || (backend.empty() && names_master && !given(Opt::RdzvEndpoint));
    if (is_static && (rdzv().nnodes_max > 1 || given(Opt::MasterPort) || given(Opt::RdzvEndpoint)))
      return meet_static();
    if (rdzv().nnodes_max == 1) return alone();
    return meet_c10d();
  }

  /// One node: it meets nobody, and a left-over MASTER_ADDR of the surroundings does not matter.
  std::optional<PlanError> alone() {
    rdzv().backend = BackendKind::Local;
    return std::nullopt;
  }

  std::optional<PlanError> node_rank() {
    if (!given(Opt::NodeRank)) return std::nullopt;
    const auto rank = whole_number(options_.text(Opt::NodeRank));
    if (!rank || *rank >= limits::kNodesMax) return wrong(Opt::NodeRank, "must be a whole number, 0 or more");
    rdzv().node_rank = static_cast<int>(*rank);
    return std::nullopt;
  }

  std::optional<PlanError> meet_static() {
    rdzv().backend = BackendKind::Static;
    if (auto error = given(Opt::RdzvEndpoint) ? endpoint_of_static() : master_of_static()) return error;
    if (rdzv().nnodes_min != rdzv().nnodes_max) {
      note("static has fixed ranks: --nnodes " + options_.text(Opt::Nnodes) + " counts as " +
           std::to_string(rdzv().nnodes_max));
      rdzv().nnodes_min = rdzv().nnodes_max;
    }
    if (!rdzv().node_rank && rdzv().nnodes_max == 1) rdzv().node_rank = 0;
    if (!rdzv().node_rank) {
      return wrong("static needs to know which node this is: --node-rank 0 on " + rdzv().endpoint.host +
                   ", 1 on the next, ...\n  " +
                   "or write --rdzv-backend c10d with --rdzv-endpoint, which needs no ranks");
    }
    if (*rdzv().node_rank >= rdzv().nnodes_max) {
      return wrong(Opt::NodeRank, "with --nnodes " + std::to_string(rdzv().nnodes_max) + " it is 0 to " +
                                      std::to_string(rdzv().nnodes_max - 1));
    }
    return std::nullopt;
  }

  std::optional<PlanError> endpoint_of_static() {
    auto endpoint = net::parse_endpoint(options_.text(Opt::RdzvEndpoint));
    if (!endpoint) return wrong(Opt::RdzvEndpoint, endpoint.error().message);
    if (!endpoint->port || *endpoint->port == 0)
      return wrong(Opt::RdzvEndpoint, "static needs the port too: HOST:PORT");
    rdzv().endpoint = {endpoint->host, *endpoint->port};
    for (const Opt unused : {Opt::MasterAddr, Opt::MasterPort})
      note_unused(unused, "--rdzv-endpoint says where");
    return std::nullopt;
  }

  /// --master-addr and --master-port; what is not given there comes from the surroundings, for a job of
  /// several nodes.
  std::optional<PlanError> master_of_static() {
    std::string address = text_of(Opt::MasterAddr);
    std::string port = options_.text(Opt::MasterPort);
    if (!given(Opt::MasterAddr) && rdzv().nnodes_max > 1) {
      const auto around = look_around(facts_.environment, rdzv().nnodes_max);
      if (!around) return wrong(around.error().message);
      if (!around->host.empty()) {
        const auto named = net::parse_endpoint(around->host);
        if (!named)
          return wrong(around->scheduler + " names " + quoted(around->host) + ": " + named.error().message);
        address = named->host;
        if (!given(Opt::MasterPort) && named->port) port = std::to_string(*named->port);
        if (!given(Opt::MasterPort) && around->port) port = std::to_string(*around->port);
        note("master " + address + ", from " + around->scheduler);
      } else if (given(Opt::MasterPort)) {
        note("no --master-addr: 127.0.0.1, so only agents of this machine can join");
      } else {
        return no_endpoint(around->short_list);
      }
    }
    return master_endpoint(address, port);
  }

  std::optional<PlanError> master_endpoint(const std::string& address, const std::string& port) {
    const auto host = net::parse_endpoint(address);
    if (!host || host->port) return wrong(Opt::MasterAddr, "must be a host name or address");
    const auto number = whole_number(port);
    if (!number || *number < 1 || *number > 65'535)
      return wrong(Opt::MasterPort, "must be a port, 1 to 65535");
    rdzv().endpoint = {host->host, static_cast<std::uint16_t>(*number)};
    return std::nullopt;
  }

  std::optional<PlanError> meet_c10d() {
    rdzv().backend = BackendKind::C10d;
    auto around = look_around(facts_.environment, rdzv().nnodes_max);
    if (!rdzv().node_rank) rdzv().node_rank = node_rank_hint(facts_.environment);
    if (endpoint_) {
      rdzv().endpoint = {endpoint_->host, endpoint_->port.value_or(kDefaultPort)};
      if (rdzv().endpoint.port == 0)
        return wrong(Opt::RdzvEndpoint, "port 0 is for one node only: the others cannot know it");
      for (const Opt unused : {Opt::MasterAddr, Opt::MasterPort})
        note_unused(unused, "--rdzv-endpoint says where");
    } else if (given(Opt::MasterAddr)) {  // c10d by name: the master is the place to meet
      if (auto error = master_endpoint(options_.text(Opt::MasterAddr), options_.text(Opt::MasterPort)))
        return error;
      note("endpoint " + net::endpoint_text(rdzv().endpoint.host, rdzv().endpoint.port) + ", from " +
           place(Opt::MasterAddr));
    } else {
      if (!around) return wrong(around.error().message);
      if (around->host.empty()) return no_endpoint(around->short_list);
      auto host = net::parse_endpoint(around->host);
      if (!host)
        return wrong(around->scheduler + " names " + quoted(around->host) + ": " + host.error().message);
      rdzv().endpoint = {
          host->host, static_cast<std::uint16_t>(around->port.value_or(host->port.value_or(kDefaultPort)))};
      if (rdzv().endpoint.port == 0) return wrong(around->scheduler + ": port 0 is for one node only");
      note("endpoint " + net::endpoint_text(rdzv().endpoint.host, rdzv().endpoint.port) + ", from " +
           around->scheduler);
    }
    if (around) apply_surroundings(*around);
    return std::nullopt;
  }

  /// A loopback endpoint is right only on the node that shall serve it: an operator writes it so in the
  /// master's pod.
  void apply_surroundings(const Surroundings& around) {
    const bool loopback = net::loopback_host(rdzv().endpoint.host);
    const int hint = rdzv().node_rank.value_or(0);
    rdzv().other_hosts_known = loopback && (around.other_hosts || hint != 0);
    if (loopback && rdzv().node_rank == 0 && !around.other_hosts && around.scheduler == "MASTER_ADDR" &&
        !rdzv().is_host) {
      rdzv().is_host = true;
      rdzv().other_hosts_known = false;
    }
    scheduler_run_id_ = around.run_id;
  }

  PlanError no_endpoint(const std::string& short_list) {
    return wrong(as_given(Opt::Nnodes) + ": where shall the nodes meet?" +
                 (short_list.empty() ? "" : " (" + short_list + ")") +
                 " Write, the same on every node, with HOST one of them:\n" +
                 "  --rdzv-endpoint HOST:29400, or PET_RDZV_ENDPOINT=HOST:29400 in the environment,\n" +
                 "  or the line `rdzv-endpoint = HOST:29400` in /etc/cxxrun.conf or ~/.config/cxxrun.conf");
  }

  std::optional<PlanError> identity() {
    std::string id = options_.text(Opt::RdzvId);
    if (!given(Opt::RdzvId) && !scheduler_run_id_.empty()) id = scheduler_run_id_;
    if (rdzv().backend == BackendKind::Local && !given(Opt::RdzvId)) id = facts_.random_id();
    if (id.empty() && rdzv().backend != BackendKind::Local)
      return wrong(Opt::RdzvId, "give the job a name, the same on every node");
    if (id.empty()) id = facts_.random_id();
    if (!printable(id)) return wrong(Opt::RdzvId, kPlainText);
    if (id.size() > limits::kRunIdBytesMax)
      return wrong(Opt::RdzvId, "at most " + std::to_string(limits::kRunIdBytesMax) + " bytes");
    rdzv().run_id = std::move(id);
    rdzv().host_name = cleaned(facts_.host_name());
    return std::nullopt;
  }

  /// What was typed and has no effect is said. A variable may be there for others.
  void note_unused(Opt option, const std::string& why) {
    const Given* entry = options_.find(option);
    if (entry != nullptr && entry->source == Source::Flag)
      note("--" + std::string(row(option).name) + " is not used: " + why);
  }
  void note(std::string line) { plan_.notes.push_back(std::move(line)); }

  const RawOptions& options_;
  const Facts& facts_;
  LaunchPlan plan_;
  std::optional<net::HostPort> endpoint_;  ///< --rdzv-endpoint
  std::string scheduler_run_id_;
};

}  // namespace

std::variant<LaunchPlan, PlanError> make_plan(const RawOptions& options, const Facts& facts) {
  return Planner(options, facts).make();
}

}  // namespace cxxrun::cli
