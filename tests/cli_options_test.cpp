// SPDX-License-Identifier: Apache-2.0
#include "cli/options.hpp"

#include <algorithm>

#include "cli/completion.hpp"
#include "cli/not_yet.hpp"
#include "cli_support.hpp"

using namespace cxxrun::cli;
using namespace cxxrun::cli::test;
using Catch::Contains;
using Catch::EndsWith;
using Catch::StartsWith;

namespace {

std::string underscored(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), '-', '_');
  return out;
}

/// Whether this option, built, was taken from `words` with this value.
void check_taken(const OptionRow& option, const Words& words, const std::string& value) {
  INFO(words[0]);
  const auto raw = options(words);
  const Given* given = raw.find(option.id);
  REQUIRE(given != nullptr);
  CHECK(given->value == value);
  CHECK(given->source == Source::Flag);
  CHECK(given->where == "--" + std::string(option.name));
  CHECK(raw.program == Words{"./train", "x"});
}

}  // namespace

TEST_CASE("torchrun 3: every option of the table is taken in every spelling") {
  for (const OptionRow& option : option_table()) {
    for (const std::string& spelling : {"--" + std::string(option.name), "--" + underscored(option.name)}) {
      switch (option.kind) {
        case Kind::Flag: check_taken(option, {spelling, "./train", "x"}, "1"); break;
        case Kind::Optional:
          check_taken(option, {spelling, "./train", "x"}, "1");
          check_taken(option, {spelling + "=v=1", "./train", "x"}, "v=1");
          break;
        case Kind::Text:
          check_taken(option, {spelling, "v=1", "./train", "x"}, "v=1");
          check_taken(option, {spelling + "=v=1", "./train", "x"}, "v=1");
          check_taken(option, {spelling + "=", "./train", "x"}, "");
          check_taken(option, {spelling, "", "./train", "x"}, "");
          check_taken(option, {spelling + "=-x", "./train", "x"}, "-x");
          check_taken(option, {spelling, "-1", "./train", "x"}, "-1");
          check_taken(option, {spelling, "-", "./train", "x"}, "-");
          break;
      }
    }
  }
  CHECK(options({"--nproc-per_node=2", "./train"}).text(Opt::NprocPerNode) == "2");  // mixed
}

TEST_CASE("an option that is not built yet is refused by flag, variable and file, but for its default") {
  for (const OptionRow& option : option_table()) {
    if (!not_yet(option.id)) continue;
    const std::string name(option.name);
    INFO(name);
    const Words words = option.kind == Kind::Flag ? Words{"--" + name} : Words{"--" + name + "=x"};
    CHECK_THAT(plan_error(words), StartsWith("--" + name) && EndsWith(": not yet supported"));
    if (variable(option).empty()) continue;
    CHECK(plan_error({}, {{variable(option), "1"}}) == variable(option) + "=1: not yet supported");
    const auto by_file = options({"./train"}, {}, {{"/c", "\n" + underscored(name) + " = 1\n"}});
    const auto made = make_plan(by_file, machine({}));
    REQUIRE(std::holds_alternative<PlanError>(made));
    CHECK(std::get<PlanError>(made).message == "/c:2: " + name + " = 1: not yet supported");
    const std::string fallback = option.kind == Kind::Flag ? "0" : std::string(option.fallback);
    CHECK(plan_error({}, {{variable(option), fallback}}).empty());
  }
}

TEST_CASE("torchrun 21: what needs Python in the launcher is refused by name, with what to use instead") {
  CHECK_THAT(plan_error({"--run-path"}),
             StartsWith("--run-path needs a Python interpreter") && Contains("leave it out"));
  CHECK_THAT(plan_error({}, {{"PET_RUN_PATH", "1"}}), StartsWith("PET_RUN_PATH needs a Python interpreter"));
  CHECK(plan_error({}, {{"PET_RUN_PATH", "0"}}).empty());
  CHECK_THAT(plan_error({"--logs_specs=NOPE"}),
             StartsWith("--logs-specs needs a Python package") && Contains("--tee"));
  CHECK_THAT(plan_error({"--rdzv-backend=my_handler"}), Contains("must be c10d or static"));
}

TEST_CASE("options of the table have names and letters of their own") {
  const auto table = option_table();
  for (const auto& a : table) {
    for (const auto& b : table) {
      if (a.id == b.id) continue;
      CHECK(a.name != b.name);
      CHECK((a.letter == 0 || a.letter != b.letter));
    }
  }
  CHECK(variable(row(Opt::NprocPerNode)) == "PET_NPROC_PER_NODE");
  CHECK(variable(row(Opt::Help)).empty());
  CHECK(variable(row(Opt::Version)).empty());
  CHECK(variable(row(Opt::LogsSpecs)).empty());
  CHECK(variable(row(Opt::DryRun)).empty());
}

TEST_CASE("torchrun 56: what follows the program is the program's") {
  const struct {
    Words words, program;
  } rows[] = {
      {{"S", "--nnodes=9", "-r", "", "a b", "--"}, {"S", "--nnodes=9", "-r", "", "a b", "--"}},
      {{"--", "S", "--", "-m"}, {"S", "--", "-m"}},
      {{"-m", "--", "pkg.mod", "--", "x"}, {"pkg.mod", "--", "x"}},
      {{"--standalone", "--", "--looks-like-one"}, {"--looks-like-one"}},
      {{"--nnodes", "1", "S", "--bogus"}, {"S", "--bogus"}},
      {{"-5", "x"}, {"-5", "x"}},
      {{"-.5"}, {"-.5"}},
      {{"-"}, {"-"}},
      {{"", "x"}, {"", "x"}},
      {{"@file"}, {"@file"}},
      {{}, {}},
      {{"--"}, {}},
      {{"--", "--"}, {"--"}},
  };
  for (const auto& row : rows) {
    INFO(row.words.size());
    CHECK(options(row.words).program == row.program);
  }
}

TEST_CASE("torchrun 63: letters, bundles and what is wrong with them") {
  CHECK(options({"-m", "pkg"}).flag(Opt::Module));
  CHECK(options({"-mm", "pkg"}).flag(Opt::Module));
  CHECK(options({"-h"}).flag(Opt::Help));
  CHECK(options({"-mh"}).flag(Opt::Help));
  CHECK(usage_error({"-mfoo", "S"}) == "unknown option -f in -mfoo");
  CHECK(usage_error({"-x", "S"}) == "unknown option -x");
  CHECK(usage_error({"-m=1", "S"}) == "unknown option -= in -m=1");
  for (const Words& words :
       {Words{"-r3", "S"}, Words{"-r=3", "S"}, Words{"-r", "3", "S"}, Words{"-mr3", "S"}}) {
    const auto raw = options(words);
    CHECK(raw.text(Opt::Redirects) == "3");
    CHECK(raw.program == Words{"S"});
  }
  CHECK(options({"-t3", "S"}).text(Opt::Tee) == "3");
}

TEST_CASE("torchrun 63: values that are missing or too much") {
  CHECK(usage_error({"--nnodes"}) == "--nnodes needs a value: --nnodes N|MIN:MAX");
  CHECK(usage_error({"--nnodes", "--standalone", "S"}) ==
        "--nnodes needs a value; if --standalone is meant, write --nnodes=--standalone");
  CHECK(usage_error({"--role", "--", "S"}) == "--role needs a value; if -- is meant, write --role=--");
  CHECK(usage_error({"--standalone=1", "S"}) == "--standalone takes no value");
  CHECK(usage_error({"--standalone=", "S"}) == "--standalone takes no value");
  CHECK(usage_error({"--=x", "S"}) == "unknown option --");
  CHECK(usage_error({"--bogus", "S"}) == "unknown option --bogus");
}

TEST_CASE("the same option twice: the last counts") {
  CHECK(options({"--nnodes=1", "--nnodes", "2", "--nnodes=3", "S"}).text(Opt::Nnodes) == "3");
}

TEST_CASE("an unknown option names the nearest one") {
  const struct {
    const char* typo;
    const char* near;  // null: none is alike enough
  } rows[] = {
      {"--nprocs_per_node=2", "--nproc-per-node"},
      {"--max-restrats=1", "--max-restarts"},
      {"--standalnoe", "--standalone"},
      {"--rdzv_endpiont=h:1", "--rdzv-endpoint"},
      {"--xyzzy", nullptr},
      {"--a", nullptr},
      {"--completely-different", nullptr},
  };
  for (const auto& row : rows) {
    INFO(row.typo);
    const std::string message = usage_error({row.typo, "S"});
    if (row.near == nullptr) {
      CHECK(message == "unknown option " + std::string(row.typo));
    } else {
      CHECK_THAT(message, EndsWith("; did you mean " + std::string(row.near) + "?"));
    }
  }
}

TEST_CASE("torchrun 22: names may be cut short, and that is said; torchrun's options come first") {
  const struct {
    const char* word;
    Opt option;
    const char* value;
  } rows[] = {
      {"--redirect=3", Opt::Redirects, "3"},
      {"--stand", Opt::Standalone, "1"},
      {"--nn=2", Opt::Nnodes, "2"},
      {"--nproc=2", Opt::NprocPerNode, "2"},
      {"--nproc_p=2", Opt::NprocPerNode, "2"},
      {"--max=2", Opt::MaxRestarts, "2"},
      {"--rol=r", Opt::Role, "r"},
      {"--gpu=1", Opt::Gpus, "1"},
      {"--log-l=x", Opt::LogLinePrefixTemplate, "x"},
      {"--v", Opt::VirtualLocalRank, "1"},
  };
  for (const auto& row : rows) {
    INFO(row.word);
    const auto raw = options({row.word, "S"});
    CHECK(raw.text(row.option) == row.value);
    REQUIRE(raw.notes.size() == 1);
    CHECK_THAT(raw.notes[0], Contains(" is taken for --"));
  }
  CHECK(usage_error({"--rdzv=1", "S"}) ==
        "--rdzv is short for several options: --rdzv-endpoint, --rdzv-backend, --rdzv-id, --rdzv-conf");
  CHECK(options({"S", "--m", "2"}).notes.empty());  // the program's own
  CHECK(plan({"--max=2"}).notes == Words{"--max is taken for --max-restarts; please write it in full"});
  CHECK_THAT(usage_error({"S"}, {}, {{"/c", "max = 1"}}), StartsWith("/c:1: unknown option max"));
}

TEST_CASE("nearest: edits, prefixes, and words that are too long") {
  const std::string_view names[] = {"join_timeout", "close_timeout", "is_host"};
  CHECK(nearest("join_timeout", names) == "join_timeout");
  CHECK(nearest("joint_timeout", names) == "join_timeout");
  CHECK(nearest("clos", names) == "close_timeout");
  CHECK(nearest("ishost", names) == "is_host");
  CHECK(nearest("", names).empty());
  CHECK(nearest("timeout", names).empty());
  CHECK(nearest(std::string(100'000, 'x'), names).empty());
  CHECK(nearest("x", {}).empty());
}

TEST_CASE("torchrun 7, 8: PET_ variables set every option") {
  for (const OptionRow& option : option_table()) {
    const std::string name = variable(option);
    if (name.empty()) continue;
    INFO(name);
    const auto raw = options({"S"}, {{name, "1"}});
    REQUIRE(raw.find(option.id) != nullptr);
    CHECK(raw.find(option.id)->value == "1");
    CHECK(raw.find(option.id)->source == Source::Variable);
    CHECK(raw.find(option.id)->where == name);
  }
}

TEST_CASE("torchrun 7, 8: flags by variable") {
  const struct {
    const char* text;
    bool on;
  } rows[] = {{"1", true},   {"0", false},   {"2", true},     {"-1", true},
              {"00", false}, {"true", true}, {"false", false}};
  for (const auto& row : rows) {
    INFO(row.text);
    CHECK(options({"S"}, {{"PET_MODULE", row.text}}).flag(Opt::Module) == row.on);
  }
  for (const char* bad : {"", "yes", "1x", " 1", "99999999999999999999", "0x1"}) {
    INFO(bad);
    CHECK(usage_error({"S"}, {{"PET_MODULE", bad}}) ==
          "PET_MODULE=" + cxxrun::quoted(bad) + ": must be 1 or 0");
  }
  CHECK(options({"--module", "S"}, {{"PET_MODULE", "0"}}).flag(Opt::Module));
}

TEST_CASE("a set but empty variable counts as set") {
  CHECK(options({"S"}, {{"PET_NPROC_PER_NODE", ""}}).text(Opt::NprocPerNode).empty());
}

TEST_CASE("a flag wins over a variable, that over a file, that over a weaker file") {
  const std::vector<ConfigFile> files{{"/etc/c", "role = etc\nrdzv-id = etc\nnnodes = 4\nmax-restarts = 4\n"},
                                      {"/home/c", "role = home\nrdzv_id = home\nnnodes=3\n"}};
  const auto raw = options({"--role", "flag", "S"}, {{"PET_ROLE", "pet"}, {"PET_RDZV_ID", "pet"}}, files);
  CHECK(raw.text(Opt::Role) == "flag");
  CHECK(raw.text(Opt::RdzvId) == "pet");
  CHECK(raw.text(Opt::Nnodes) == "3");
  CHECK(raw.find(Opt::Nnodes)->where == "/home/c:3: nnodes");
  CHECK(said(*raw.find(Opt::Nnodes)) == "/home/c:3: nnodes = 3");
  CHECK(said(*raw.find(Opt::RdzvId)) == "PET_RDZV_ID=pet");
  CHECK(said(*raw.find(Opt::Role)) == "--role flag");
  CHECK(raw.text(Opt::MaxRestarts) == "4");
  CHECK(raw.find(Opt::MaxRestarts)->source == Source::File);
  CHECK(raw.text(Opt::MasterPort) == "29500");
  CHECK(raw.find(Opt::MasterPort) == nullptr);
}

TEST_CASE("configuration files: what a line may look like") {
  const auto raw = options({"S"}, {},
                           {{"/c",
                             "# a comment\r\n\r\n  --rdzv_endpoint =  n1:29400  \r\n\trole=a = b\n"
                             "standalone = 0\nno-python = true\nrdzv-conf ="}});
  CHECK(raw.text(Opt::RdzvEndpoint) == "n1:29400");
  CHECK(raw.text(Opt::Role) == "a = b");
  CHECK_FALSE(raw.flag(Opt::Standalone));
  CHECK(raw.flag(Opt::NoPython));
  CHECK(raw.text(Opt::RdzvConf).empty());
  CHECK(raw.program == Words{"S"});
}

TEST_CASE("configuration files: errors name file and line") {
  const struct {
    const char* content;
    const char* message;
  } rows[] = {
      {"nnodes 3\n", "/c:1: 'nnodes 3': expected `option = value`"},
      {"[cxxrun]\n", "/c:1: [cxxrun]: expected `option = value`"},
      {"\n\nnproc-per-nod = 2\n", "/c:3: unknown option nproc-per-nod; did you mean nproc-per-node?"},
      {"= 2", "/c:1: unknown option ''"},
      {"no\x1b[31mdes = 2", "/c:1: unknown option 'no\\x1b[31mdes'"},
      {"help = 1", "/c:1: help is for the command line: cxxrun --help"},
      {"hepl = 1", "/c:1: unknown option hepl"},
      {"version = 1", "/c:1: version is for the command line: cxxrun --version"},
      {"standalone = maybe\n", "/c:1: standalone = maybe: must be 1 or 0"},
      {"\nno_python =\n", "/c:2: no-python = '': must be 1 or 0"},
  };
  for (const auto& row : rows) {
    INFO(row.content);
    CHECK(usage_error({"S"}, {}, {{"/c", row.content}}) == row.message);
  }
}

TEST_CASE("configuration files: a byte order mark is dropped, a NUL is refused") {
  CHECK(options({"S"}, {}, {{"/c", "\xef\xbb\xbfrole = r\n"}}).text(Opt::Role) == "r");
  CHECK(usage_error({"S"}, {}, {{"/c", std::string("role = a\0b\n", 11)}}) == "/c: is not a text file");
}

TEST_CASE("help and version help also where a variable or a file is wrong") {
  const std::vector<ConfigFile> bad{{"/c", "nonsense"}};
  CHECK(options({"--help"}, {{"PET_MODULE", "x"}}, bad).flag(Opt::Help));
  CHECK(options({"--version"}, {{"PET_TEE", "3"}}, bad).flag(Opt::Version));
}

TEST_CASE("configuration files: one that cannot be read is an error with its path") {
  CHECK(usage_error({"S"}, {}, {{"/a b/c", "", "is a directory, not a file"}}) ==
        "'/a b/c': is a directory, not a file");
  CHECK(options({"--help"}, {}, {{"/c", "", "cannot be read"}}).flag(Opt::Help));
}

TEST_CASE("configuration files: quotes around a value are for the reader") {
  const auto raw =
      options({"S"}, {}, {{"/c", "role = \"r s\"\nrdzv-id = 'x'\nrdzv-endpoint = \"\nnnodes = '2\"\n"}});
  CHECK(raw.text(Opt::Role) == "r s");
  CHECK(raw.text(Opt::RdzvId) == "x");
  CHECK(raw.text(Opt::RdzvEndpoint) == "\"");
  CHECK(raw.text(Opt::Nnodes) == "'2\"");
}

TEST_CASE("what was typed wrong is shown without its control characters") {
  CHECK(usage_error({"--bog\nus", "S"}) == "unknown option '--bog\\nus'");
  CHECK(usage_error({"-\n", "S"}) == "unknown option '-\\n'");
  CHECK(usage_error({"-m\x1b", "S"}) == "unknown option -'\\x1b' in '-m\\x1b'");
  CHECK(usage_error({"S"}, {{"PET_MODULE", "\x1b[31m"}}) == "PET_MODULE='\\x1b[31m': must be 1 or 0");
}

TEST_CASE("one dash where two are meant") {
  CHECK(usage_error({"-nnodes", "2", "S"}) == "unknown option -n in -nnodes; did you mean --nnodes?");
  CHECK(usage_error({"-nproc_per_node=2", "S"}) ==
        "unknown option -n in -nproc_per_node=2; did you mean --nproc-per-node?");
}

TEST_CASE("torchrun 27, 28: cxxrun-launch gives --local-rank unless --use-env") {
  auto facts = machine({});
  facts.launch = true;
  const auto made = good_plan(plan_with({"S", "a"}, facts));
  CHECK(made.words == Words{"S", "--local-rank=${local_rank}", "a"});
  REQUIRE(made.notes.size() == 1);
  CHECK_THAT(made.notes[0], Contains("deprecated"));
  CHECK(good_plan(plan_with({"-m", "pkg"}, facts)).words == Words{"pkg", "--local-rank=${local_rank}"});
  CHECK(good_plan(plan_with({"--use_env", "S", "a"}, facts)).words == Words{"S", "a"});
  CHECK(good_plan(plan_with({"--use-env", "--no-python", "S"}, facts)).no_python);
  CHECK_THAT(std::get<PlanError>(plan_with({"--no-python", "S"}, facts)).message,
             StartsWith("--no-python needs --use-env"));
  CHECK_THAT(plan_error({"--use-env"}), StartsWith("--use-env is for cxxrun-launch"));
}

TEST_CASE("completion: each shell's script has every option of --help, and no other shell has one") {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const auto script = make_completion(shell);
    REQUIRE(script);
    for (const OptionRow& option : option_table()) {
      INFO(shell << " " << option.name);
      const std::string name(option.name);
      const bool has = script->find("--" + name) != std::string::npos ||
                       script->find("-l " + name + " ") != std::string::npos;
      CHECK(has == (!not_yet(option.id) && !option.group.empty()));
    }
  }
  CHECK_FALSE(make_completion("tcsh"));
  CHECK_FALSE(make_completion(""));
}
