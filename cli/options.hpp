// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

/// Raw options: what stands on the command line, in PET_ variables and in configuration files. No side
/// effects, no meaning yet: cli/plan gives it. One table is the source of parsing, help, variables and "did
/// you mean".
namespace cxxrun::cli {

enum class Kind {
  Text,      ///< takes a value
  Flag,      ///< takes none
  Optional,  ///< takes one behind = only
};
/// Whose option it is: an abbreviation means torchrun's first, so that a new one of ours changes no old
/// command line.
enum class Origin { Torchrun, Ours };

/// Every option, in the order of --help. Names as torchrun's where it has them.
enum class Opt {
  Nnodes,
  NprocPerNode,
  Standalone,
  RdzvEndpoint,
  RdzvBackend,
  RdzvId,
  RdzvConf,
  NodeRank,
  MasterAddr,
  MasterPort,
  LocalAddr,
  PortRange,
  WorkerStore,
  MaxRestarts,
  RestartExitCodes,
  NoRestartExitCodes,
  HeartbeatTimeout,
  ShutdownTimeout,
  SignalsToHandle,
  LogDir,
  Redirects,
  Tee,
  LogLinePrefixTemplate,
  LocalRanksFilter,
  RanksFilter,
  DuplicateStdoutFilters,
  DuplicateStderrFilters,
  LogFormat,
  Stderr,
  Module,
  NoPython,
  Role,
  StartMethod,
  StdinRank,
  NumaBinding,
  Gpus,
  VirtualLocalRank,
  ResultFile,
  ExitCode,
  EventLogHandler,
  Metrics,
  HealthCheckPort,
  MonitorInterval,
  DryRun,
  Completion,
  Help,
  Version,
  UseEnv,
  PrintCompletion,
  RunPath,
  LogsSpecs,
  kCount
};

struct OptionRow {
  Opt id;
  std::string_view name;  ///< with dashes; underscores mean the same
  char letter;            ///< one-letter form, 0: none
  Kind kind;
  Origin origin;
  std::string_view group;     ///< heading in --help; empty: not in it
  std::string_view value;     ///< what the value is, for --help
  std::string_view fallback;  ///< default, as text; empty: none
  std::string_view help;      ///< one line; of an option that is refused: what to use instead
};

[[nodiscard]] std::span<const OptionRow> option_table();
[[nodiscard]] const OptionRow& row(Opt id);
/// "PET_NPROC_PER_NODE"; empty for options that stand on the command line only (--help, --dry-run, ...).
[[nodiscard]] std::string variable(const OptionRow& option);

enum class Source { Default, File, Variable, Flag };

struct Given {
  Source source = Source::Default;
  std::string value;  ///< of a flag: "1" or "0"; of an optional value that is not there: "1"
  std::string where;  ///< for people: "--nnodes", "PET_NNODES", "/etc/cxxrun.conf:3: nnodes"
};

struct RawOptions {
  std::array<std::optional<Given>, static_cast<std::size_t>(Opt::kCount)> given;
  std::vector<std::string> program;  ///< or script or module, and its arguments, untouched; may be empty
  std::vector<std::string> notes;    ///< worth a line: deprecated spellings

  [[nodiscard]] const Given* find(Opt id) const {
    const auto& entry = given[static_cast<std::size_t>(id)];
    return entry ? &*entry : nullptr;
  }
  /// The value, or the default of the table.
  [[nodiscard]] std::string text(Opt id) const;
  [[nodiscard]] bool flag(Opt id) const;
};

/// What is wrong and what to write instead; 1 to 3 lines.
struct UsageError {
  std::string message;
};

struct ConfigFile {
  std::string path;
  std::string content;
  std::string problem = {};  ///< why it cannot be read; empty: it was
};

/// How an option was given, for messages: "--nnodes 0", "PET_NNODES=0", "/etc/cxxrun.conf:3: nnodes = 0".
[[nodiscard]] std::string said(const Given& given);

using EnvironmentLookup = std::function<std::optional<std::string>(const char* name)>;

/// `arguments`: without argv[0]. `files`: the weakest first. A flag wins over a variable, that over a file.
std::variant<RawOptions, UsageError> parse_options(std::span<const std::string> arguments,
                                                   const EnvironmentLookup& environment,
                                                   std::span<const ConfigFile> files);

/// The name of `candidates` that is most like `word`, if one is alike enough to be meant; else empty.
[[nodiscard]] std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates);

/// The text of --help, made from the table; cli/help.cpp holds it ready-made, a test compares the two.
[[nodiscard]] std::string make_help();

}  // namespace cxxrun::cli
