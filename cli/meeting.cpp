// SPDX-License-Identifier: Apache-2.0
#include "base/limits.hpp"
#include "cli/choices.hpp"
#include "cli/numbers.hpp"
#include "cli/rules.hpp"
#include "cli/surroundings.hpp"
#include "net/address.hpp"

namespace cxxrun::cli {
namespace {

using rendezvous::BackendKind;

constexpr int kDefaultPort = 29'400;  ///< of c10d, as torchrun's

class Meeting : Choices {
 public:
  Meeting(const RawOptions& options, const Facts& facts, LaunchPlan& plan) : Choices(options, facts, plan) {}

  Problem make() {
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
      return wrong(Opt::RdzvBackend, "must be c10d or static; handlers of Python packages cannot be loaded");
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

 private:
  rendezvous::Config& rdzv() { return plan_.config.rendezvous; }

  /// One node: it meets nobody, and a left-over MASTER_ADDR of the surroundings does not matter.
  Problem alone() {
    rdzv().backend = BackendKind::Local;
    return std::nullopt;
  }

  Problem node_rank() {
    if (!given(Opt::NodeRank)) return std::nullopt;
    const auto rank = whole_number(options_.text(Opt::NodeRank));
    if (!rank || *rank >= limits::kNodesMax) return wrong(Opt::NodeRank, "must be a whole number, 0 or more");
    rdzv().node_rank = static_cast<int>(*rank);
    return std::nullopt;
  }

  Problem meet_static() {
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

  Problem endpoint_of_static() {
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
  Problem master_of_static() {
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
        took(Opt::MasterAddr, address, around->scheduler);
        if (!given(Opt::MasterPort)) took(Opt::MasterPort, port, around->scheduler);
      } else if (given(Opt::MasterPort)) {
        note("no --master-addr: 127.0.0.1, so only agents of this machine can join");
      } else {
        return no_endpoint(around->short_list);
      }
    }
    return master_endpoint(address, port);
  }

  Problem master_endpoint(const std::string& address, const std::string& port) {
    const auto host = net::parse_endpoint(address);
    if (!host || host->port) return wrong(Opt::MasterAddr, "must be a host name or address");
    const auto number = whole_number(port);
    if (!number || *number < 1 || *number > 65'535)
      return wrong(Opt::MasterPort, "must be a port, 1 to 65535");
    rdzv().endpoint = {host->host, static_cast<std::uint16_t>(*number)};
    return std::nullopt;
  }

  Problem meet_c10d() {
    rdzv().backend = BackendKind::C10d;
    auto around = look_around(facts_.environment, rdzv().nnodes_max);
    if (!rdzv().node_rank && (rdzv().node_rank = node_rank_hint(facts_.environment))) {
      took(Opt::NodeRank, std::to_string(*rdzv().node_rank), "the scheduler's variables");
    }
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
      took(Opt::RdzvEndpoint, net::endpoint_text(rdzv().endpoint.host, rdzv().endpoint.port),
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
    plan_.scheduler_run_id = around.run_id;
  }

  PlanError no_endpoint(const std::string& short_list) {
    return wrong(as_given(Opt::Nnodes) + ": where shall the nodes meet?" +
                 (short_list.empty() ? "" : " (" + short_list + ")") +
                 " Write, the same on every node, with HOST one of them:\n" +
                 "  --rdzv-endpoint HOST:29400, or PET_RDZV_ENDPOINT=HOST:29400 in the environment,\n" +
                 "  or the line `rdzv-endpoint = HOST:29400` in /etc/cxxrun.conf or ~/.config/cxxrun.conf");
  }

  std::optional<net::HostPort> endpoint_;  ///< --rdzv-endpoint
};

}  // namespace

std::optional<PlanError> plan_meeting(const RawOptions& options, const Facts& facts, LaunchPlan& plan) {
  return Meeting(options, facts, plan).make();
}

}  // namespace cxxrun::cli
