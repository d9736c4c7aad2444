// SPDX-License-Identifier: Apache-2.0
// cxxrun: plans (every error of usage is found here), then splits into guardian and agent.
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "agent/agent.hpp"
#include "agent/ending.hpp"
#include "agent/machine.hpp"
#include "agent/result_file.hpp"
#include "agent/voice.hpp"
#include "base/text.hpp"
#include "cli/completion.hpp"
#include "cli/dry_run.hpp"
#include "cli/exit_code.hpp"
#include "cli/help.hpp"
#include "cli/host.hpp"
#include "cli/options.hpp"
#include "cli/plan.hpp"
#include "cli/rules.hpp"
#include "launcher/guardian.hpp"
#include "launcher/program.hpp"
#include "launcher/resources.hpp"
#include "launcher/signals.hpp"

extern char** environ;  // NOLINT: POSIX names it

namespace {

using namespace cxxrun;

/// One write, so that lines of several agents on one terminal do not mix.
bool print(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}
/// What comes from outside is quoted where a sentence is made; whatever slipped through drives no terminal.
void say(const std::string& text) {
  std::string out = "cxxrun: ";
  for (std::string_view rest = text; !rest.empty();) {
    const auto end = rest.find('\n');
    out += cleaned(rest.substr(0, end)) + "\n";
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  print(STDERR_FILENO, out);
}

/// --help or --version, whole or not at all: a script must not take half an answer for one.
int answer(std::string_view text) {
  if (print(STDOUT_FILENO, text)) return 0;
  say("cannot write to stdout: " + std::generic_category().message(errno));
  return cli::kOutputFailed;
}

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): there is one thread yet
  if (value == nullptr) return std::nullopt;
  return value;
}

std::string host_name() {
  char name[256] = "localhost";
  ::gethostname(name, sizeof name - 1);
  return name;
}

/// A random UUID (version 4).
std::string random_id() {
  unsigned char bytes[16] = {};
  [[maybe_unused]] const auto n = ::getrandom(bytes, sizeof bytes, 0);
  bytes[6] = static_cast<unsigned char>((bytes[6] & 0x0f) | 0x40);
  bytes[8] = static_cast<unsigned char>((bytes[8] & 0x3f) | 0x80);
  std::string out;
  for (int i = 0; i < 16; ++i) {
    char hex[4];
    std::snprintf(hex, sizeof hex, "%02x", bytes[i]);
    if (i == 4 || i == 6 || i == 8 || i == 10) out += '-';
    out += hex;
  }
  return out;
}

std::vector<cli::ConfigFile> config_files() {
  std::vector<cli::ConfigFile> files;
  std::vector<std::string> paths{"/etc/cxxrun.conf"};
  if (const auto config = variable("XDG_CONFIG_HOME"); config && config->starts_with('/')) {
    paths.push_back(*config + "/cxxrun.conf");
  } else if (const auto home = variable("HOME"); home && !home->empty()) {
    paths.push_back(*home + "/.config/cxxrun.conf");
  }
  for (const auto& path : paths) {
    if (auto file = cli::read_config_file(path)) files.push_back(std::move(*file));
  }
  return files;
}

cli::Facts facts() {
  cli::Facts facts;
  facts.environment = [](const char* name) { return variable(name); };
  facts.usable_cpus = [] { return cli::usable_cpus(); };
  facts.mask_cpus = [] { return cli::mask_cpus(); };
  facts.usable_gpus = [] { return cli::usable_gpus([](const char* name) { return variable(name); }); };
  facts.gpus = [] { return worker_env::read_gpus(); };
  facts.allowed_cpus = [] { return worker_env::allowed_cpus(); };
  facts.topology = [](const worker_env::CpuSet& cpus, worker_env::Binding binding) {
    return worker_env::read_topology(cpus, binding);
  };
  facts.host_name = host_name;
  facts.random_id = random_id;
  facts.read_file = [](const std::string& path) { return cli::read_small_file(path); };
  facts.terminal = ::isatty(STDERR_FILENO) == 1;
  return facts;
}

/// Nothing was started, or our own code failed: whoever asked for it is told, as an agent does at its end.
/// The code to exit with.
int ended_early(const agent::Config& config, std::string_view outcome, int code, const std::string& why) {
  if (code == cli::kUsage)
    code = agent::chosen_code(config.failures, agent::FailureOptions::Class::Usage).value_or(code);
  if (const auto written = agent::write_early_end(config, outcome, code, why); !written)
    say("cannot write --result-file: " + written.error().message);
  return code;
}

/// Finds what runs. 0, or the exit code after having said why not.
int find_program(const cli::LaunchPlan& plan, agent::Program& program) {
  launcher::ProgramRequest request;
  request.name = plan.words[0];
  request.args.assign(plan.words.begin() + 1, plan.words.end());
  request.module = plan.module;
  request.no_python = plan.no_python;
  const auto found = launcher::resolve_program(
      request, [](std::string_view name) { return variable(std::string(name).c_str()); },
      launcher::real_files());
  if (const auto* error = std::get_if<launcher::ProgramError>(&found)) {
    const int workers = plan.config.rendezvous.local_world_size;
    say(error->message + "\n  no worker was started: local rank" +
        (workers == 1 ? " 0" : "s 0-" + std::to_string(workers - 1)) + " of node " +
        plan.config.rendezvous.host_name);
    return ended_early(plan.config, "not-started", error->exit_code, error->message);
  }
  const auto& resolved = std::get<launcher::ResolvedProgram>(found);
  program = {resolved.path, resolved.argv, resolved.python, request.name};
  return 0;
}

/// Beside its workers' grace, and as long again for a slow reader of our output.
constexpr auto kAgentEndsWithin = std::chrono::seconds(60);
constexpr auto kStopLimitMax = std::chrono::hours(24 * 365);

/// The agent's whole life.
[[noreturn]] void be_agent(const agent::Config& config) {
  agent::End end{cli::kInternal, 0};
  try {
    end = agent::run(config);
  } catch (const std::system_error& error) {
    say(std::string("cannot go on: ") + error.what() + launcher::limit_hint(error.code()));
  } catch (const std::exception& error) {
    const std::string what = std::string("internal error: ") + error.what();
    say(what);
    end.exit_code = ended_early(config, "internal", end.exit_code, what);
  }
  if (end.signo != 0) launcher::die_by_signal(end.signo);
  ::_exit(end.exit_code);
}

void say_note(const agent::Config& config, const std::string& note) {
  if (config.logs.format == agent::LogOptions::Format::Text) return say(note);
  print(STDERR_FILENO, agent::spoken(config, note, -1));
}

int print_completion(const cli::Given& shell) {
  const auto text = cli::make_completion(shell.value);
  if (!text) return say(cli::said(shell) + ": must be bash, zsh or fish"), cli::kUsage;
  return print(STDOUT_FILENO, *text), 0;
}

/// `launch`: under the name of torch.distributed.launch.
int run(const std::vector<std::string>& arguments, bool launch) {
  auto parsed = cli::parse_options(
      arguments, [](const char* name) { return variable(name); }, config_files());
  if (const auto* error = std::get_if<cli::UsageError>(&parsed)) {
    say(error->message);
    return cli::kUsage;
  }
  const auto& options = std::get<cli::RawOptions>(parsed);
  if (options.flag(cli::Opt::Help)) return answer(cli::kHelp);
  if (options.flag(cli::Opt::Version)) return answer(cli::kVersion);
  for (const auto option : {cli::Opt::Completion, cli::Opt::PrintCompletion}) {
    if (const cli::Given* shell = options.find(option)) return print_completion(*shell);
  }
  auto machine = facts();
  machine.launch = launch;
  auto planned = cli::make_plan(options, machine);
  if (const auto* error = std::get_if<cli::PlanError>(&planned)) {
    say(error->message);
    agent::Config config;
    config.failures = cli::failure_options(options, facts());
    return ended_early(config, "usage", error->exit_code, error->message);
  }
  auto& plan = std::get<cli::LaunchPlan>(planned);
  if (const int code = find_program(plan, plan.config.program); code != 0) return code;
  for (char** entry = environ; *entry != nullptr; ++entry) plan.config.environment.emplace_back(*entry);
  if (plan.dry_run != cli::DryRun::No) {
    return print(STDOUT_FILENO, cli::describe_plan(options, plan, plan.dry_run == cli::DryRun::Json)), 0;
  }
  for (const auto& note : plan.notes) say_note(plan.config, note);
  launcher::GuardOptions guarded;
  guarded.stop_limit =
      std::min<Duration>(2 * plan.config.signals.shutdown_timeout + kAgentEndsWithin, kStopLimitMax);
  guarded.more_stop_signals = agent::signal_set(plan.config.signals.handled);
  const Error error = launcher::guard(guarded, [&] { be_agent(plan.config); });
  say("cannot start: " + error.message + launcher::limit_hint(error.code));
  return cli::kInternal;
}

}  // namespace

int main(int argc, char** argv) {
  launcher::OriginalSignals::capture();
  if (argc == 2) {
    const std::string_view only = argv[1];
    if (only == "--help" || only == "-h") return answer(cli::kHelp);
    if (only == "--version") return answer(cli::kVersion);
  }
  try {
    const std::string_view name = argc > 0 ? argv[0] : "";
    return run(std::vector<std::string>(argv + 1, argv + argc),
               name.substr(name.rfind('/') + 1) == "cxxrun-launch");
  } catch (const std::exception& error) {
    say(std::string("internal error: ") + error.what());
    return cli::kInternal;
  }
}
