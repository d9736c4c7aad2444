// SPDX-License-Identifier: Apache-2.0
#include "cli/plan.hpp"

#include "base/limits.hpp"
#include "cli/choices.hpp"
#include "cli/lists.hpp"
#include "cli/not_yet.hpp"
#include "cli/numbers.hpp"
#include "cli/rdzv_conf.hpp"
#include "cli/rules.hpp"

namespace cxxrun::cli {
namespace {

using rendezvous::BackendKind;

constexpr double kShutdownSecondsMax = 7.0 * 24 * 3600;
/// Fills a LaunchPlan step by step; the first error ends it.
class Planner : Choices {
 public:
  Planner(const RawOptions& options, const Facts& facts) : Choices(options, facts, own_) {}

  std::variant<LaunchPlan, PlanError> make() {
    using Rule = Problem (Planner::*)();
    plan_.notes = options_.notes;
    for (const Rule rule : {&Planner::supported, &Planner::dry_run, &Planner::program, &Planner::sizes,
                            &Planner::limits_of_life, &Planner::conf, &Planner::ports, &Planner::meeting,
                            &Planner::identity, &Planner::extras}) {
      if (auto error = (this->*rule)()) return std::move(*error);
    }
    return std::move(own_);
  }

 private:
  agent::Config& config() { return plan_.config; }
  rendezvous::Config& rdzv() { return plan_.config.rendezvous; }
  /// What cannot be had, or not yet, is said before anything else.
  Problem supported() {
    for (const OptionRow& option : option_table()) {
      const Given* entry = options_.find(option.id);
      if (entry == nullptr) continue;
      const bool needs_python = option.id == Opt::RunPath || option.id == Opt::LogsSpecs;
      if (needs_python && entry->value != "0")
        return wrong(place(option.id) + ' ' + std::string(option.help));
      const bool is_default = entry->value == (option.kind == Kind::Flag ? "0" : option.fallback);
      if (is_default || !only_default_yet(option.id)) continue;
      return wrong(option.id, not_yet(option.id) ? "not yet supported"
                                                 : "another list than " + std::string(option.fallback) +
                                                       " is not yet supported");
    }
    return std::nullopt;
  }

  Problem program() {
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
    if (auto error = local_rank_argument()) return error;
    const std::string how = options_.text(Opt::Stderr);
    if (how != "pipe" && how != "inherit") return wrong(Opt::Stderr, "must be pipe or inherit");
    config().stderr_inherit = how == "inherit";
    config().terminal = facts_.terminal;
    return std::nullopt;
  }

  /// torch.distributed.launch tells a program its local rank by an argument, unless --use-env.
  Problem local_rank_argument() {
    if (!facts_.launch) {
      if (options_.flag(Opt::UseEnv))
        return wrong("--use-env is for cxxrun-launch: cxxrun always tells the ranks by variables");
      return std::nullopt;
    }
    note(
        "cxxrun-launch is deprecated, as torch.distributed.launch is: use cxxrun, and LOCAL_RANK of the "
        "environment");
    if (options_.flag(Opt::UseEnv)) return std::nullopt;
    if (plan_.no_python)
      return wrong(place(Opt::NoPython) + " needs --use-env: a program gets no --local-rank argument");
    plan_.words.insert(plan_.words.begin() + 1, "--local-rank=${local_rank}");
    return std::nullopt;
  }

  Problem dry_run() {
    const Given* wanted = options_.find(Opt::DryRun);
    if (wanted == nullptr) return std::nullopt;
    if (wanted->value == "1" || wanted->value == "text") plan_.dry_run = DryRun::Text;
    if (wanted->value == "json") plan_.dry_run = DryRun::Json;
    if (plan_.dry_run == DryRun::No) return wrong(Opt::DryRun, "must be text or json: --dry-run=json");
    return std::nullopt;
  }

  Problem sizes() {
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

  Problem workers() {
    const std::string text = options_.text(Opt::NprocPerNode);
    long count = 0;
    if (const auto number = whole_number(text)) {
      count = *number;
      if (count < 1) return wrong(Opt::NprocPerNode, "at least 1 worker");
    } else if (text == "cpu") {
      count = facts_.usable_cpus();
      note("--nproc-per-node cpu: " + std::to_string(count) + " usable CPUs");
    } else if (text == "gpu") {
      count = visible_gpus();
      if (count < 1)
        return wrong(Opt::NprocPerNode, "no GPU is visible here (CUDA_VISIBLE_DEVICES, /proc/driver/nvidia)");
      note("--nproc-per-node gpu: " + std::to_string(count) + " visible GPUs");
    } else if (text == "auto") {
      count = visible_gpus();
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
    if (std::to_string(count) != text)
      took(Opt::NprocPerNode, std::to_string(count), place(Opt::NprocPerNode) + " " + text);
    if (count > 1 && !facts_.environment("OMP_NUM_THREADS")) config().usable_cpus = cpus_to_share(count);
    return std::nullopt;
  }

  /// What --gpus names, else what there is. A bad list is said later.
  int visible_gpus() {
    if (!given(Opt::Gpus)) return facts_.usable_gpus();
    const auto chosen = parse_gpus(options_.text(Opt::Gpus));
    return chosen ? static_cast<int>(chosen->size()) : 1;
  }

  /// Where the mask leaves less than two for each worker, each gets one thread whatever the cgroup's quota
  /// is: its files stay unread, a tenth of a millisecond.
  int cpus_to_share(long workers) {
    const int mask = facts_.mask_cpus ? facts_.mask_cpus() : 0;
    return mask > 0 && mask < 2 * workers ? mask : facts_.usable_cpus();
  }

  Problem limits_of_life() {
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
    rdzv().role = options_.text(Opt::Role);
    if (!printable(rdzv().role)) return wrong(Opt::Role, kPlainText);
    return std::nullopt;
  }

  /// torchrun has a second variable for it, weaker than the option and its PET_ one.
  Problem grace() {
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
    config().signals.shutdown_timeout =
        std::chrono::milliseconds(static_cast<std::int64_t>(*seconds * 1000.0));
    return std::nullopt;
  }

  Problem conf() {
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

  Problem ports() {
    const std::string store = options_.text(Opt::WorkerStore);
    if (store != "agent" && store != "none") return wrong(Opt::WorkerStore, "must be agent or none");
    const bool shared = environment("TORCH_DISABLE_SHARE_RDZV_TCP_STORE") != "1";
    rdzv().agent_store = store == "agent" && shared;
    if (!shared) took(Opt::WorkerStore, "none", "variable TORCH_DISABLE_SHARE_RDZV_TCP_STORE");
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

  Problem meeting() { return plan_meeting(options_, facts_, plan_); }

  Problem extras() {
    if (auto error = plan_extras(options_, facts_, plan_)) return error;
    return plan_placement(options_, facts_, plan_);
  }

  Problem identity() {
    std::string id = options_.text(Opt::RdzvId);
    if (!given(Opt::RdzvId) && !plan_.scheduler_run_id.empty()) id = plan_.scheduler_run_id;
    if (rdzv().backend == BackendKind::Local && !given(Opt::RdzvId)) id = facts_.random_id();
    if (id.empty() && rdzv().backend != BackendKind::Local)
      return wrong(Opt::RdzvId, "give the job a name, the same on every node");
    if (id.empty()) id = facts_.random_id();
    if (!printable(id)) return wrong(Opt::RdzvId, kPlainText);
    if (id.size() > limits::kRunIdBytesMax)
      return wrong(Opt::RdzvId, "at most " + std::to_string(limits::kRunIdBytesMax) + " bytes");
    if (id != options_.text(Opt::RdzvId))
      took(Opt::RdzvId, id, id == plan_.scheduler_run_id ? "the scheduler" : "made at the start");
    rdzv().run_id = std::move(id);
    rdzv().host_name = cleaned(facts_.host_name());
    return std::nullopt;
  }

  LaunchPlan own_;
};

}  // namespace

std::variant<LaunchPlan, PlanError> make_plan(const RawOptions& options, const Facts& facts) {
  return Planner(options, facts).make();
}

}  // namespace cxxrun::cli
