// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <map>

#include "launcher/program.hpp"

namespace cxxrun::launcher {
namespace {

using Kind = FileFacts::Kind;

struct FakeFile {
  Kind kind = Kind::File;
  bool executable = false;
  bool readable = true;
  std::string head = {};
  int error = 0;
};

const std::string kElf(
    "\x7f"
    "ELF\0\0\0",
    7);

/// A machine: programs in /bin and /usr/bin, the rest here.
const std::map<std::string, FakeFile> kFiles = {
    {"/bin/true", {.executable = true, .head = kElf}},
    {"/usr/bin/env", {.executable = true, .head = kElf}},
    {"./windows", {.executable = true, .head = "#!/usr/bin/env python3\r\nprint()\r\n"}},
    {"./no-reader", {.executable = true, .head = "#! /no/such -x\n"}},
    {"./bad-reader", {.executable = true, .head = "#!./noexec"}},
    {"./no-name", {.executable = true, .head = "#! \n"}},
    {"/bin/python3", {.executable = true, .head = kElf}},
    {"/venv/bin/python", {.executable = true, .head = kElf}},
    {"/opt/py", {.executable = true, .head = kElf}},
    {"./train", {.executable = true, .head = kElf}},
    {"train", {.executable = true, .head = kElf}},
    {"train.py", {.head = "import torch\n"}},
    {"x.py", {.executable = true, .head = "import torch\n"}},
    {"./x.py", {.executable = true, .head = "import torch\n"}},
    {"./own.py", {.executable = true, .head = "#!/usr/bin/env python3\n"}},
    {"./script", {.head = "print(1)\n"}},
    {"./tool.sh", {.executable = true, .head = "echo hello\n"}},
    {"./noexec", {.head = kElf}},
    {"./shell", {.head = "#!/bin/bash\necho\n"}},
    {"./pyline", {.head = "#!/usr/bin/python3 -u\n"}},
    {"./secret", {.readable = false, .head = ""}},
    {"./empty", {.executable = true, .head = ""}},
    {"./dir", {.kind = Kind::Directory}},
    {"./fifo", {.kind = Kind::Other}},
    {"./closed/x", {.kind = Kind::Missing, .error = EACCES}},
    {"/bin/data", {.head = "text"}},
};

FileProbe fake_files() {
  FileProbe probe;
  probe.facts = [](const std::string& path) {
    const auto found = kFiles.find(path);
    if (found == kFiles.end()) return FileFacts{.error = ENOENT};
    const FakeFile& file = found->second;
    return FileFacts{file.kind, file.executable, file.readable, file.error};
  };
  probe.head = [](const std::string& path) {
    const auto found = kFiles.find(path);
    return found == kFiles.end() ? std::string{} : found->second.head;
  };
  return probe;
}

using Variables = std::map<std::string, std::string, std::less<>>;
const Variables kPlain = {{"PATH", "/usr/bin:/bin"}};

auto resolve(const ProgramRequest& request, const Variables& variables = kPlain) {
  return resolve_program(
      request,
      [&](std::string_view name) -> std::optional<std::string> {
        const auto found = variables.find(name);
        return found == variables.end() ? std::nullopt : std::optional(found->second);
      },
      fake_files());
}

using Words = std::vector<std::string>;

TEST_CASE("program: what runs", "[launcher]") {
  struct Row {
    const char* name;
    ProgramRequest request;
    std::string path;
    Words argv;
    bool python;
  };
  const auto row = GENERATE(values<Row>({
      {"a program of PATH", {"true", {"a"}}, "/bin/true", {"true", "a"}, false},
      {"a path", {"./train", {"-x"}}, "./train", {"./train", "-x"}, false},
      {"a program here", {"train", {}}, "./train", {"train"}, false},
      {"a script", {"train.py", {"-x"}}, "/bin/python3", {"/bin/python3", "-u", "train.py", "-x"}, true},
      {"a script that says what reads it", {"./own.py", {}}, "./own.py", {"./own.py"}, false},
      {"x bit by accident", {"x.py", {}}, "/bin/python3", {"/bin/python3", "-u", "./x.py"}, true},
      {"a text without x bit", {"./script", {}}, "/bin/python3", {"/bin/python3", "-u", "./script"}, true},
      {"#! names a Python", {"./pyline", {}}, "/bin/python3", {"/bin/python3", "-u", "./pyline"}, true},
      {"a text with x bit and no #!", {"./tool.sh", {"1"}}, "/bin/sh", {"sh", "./tool.sh", "1"}, false},
      {"empty, x bit", {"./empty", {}}, "./empty", {"./empty"}, false},
      {"a module",
       {"pkg.train", {"-x"}, false, true},
       "/bin/python3",
       {"/bin/python3", "-u", "-m", "pkg.train", "-x"},
       true},
      {"no Python: a program", {"true", {}, true}, "/bin/true", {"true"}, false},
      {"no Python: a path", {"./train", {}, true}, "./train", {"./train"}, false},
  }));
  INFO(row.name);
  const auto answer = resolve(row.request);
  REQUIRE(std::holds_alternative<ResolvedProgram>(answer));
  const auto& program = std::get<ResolvedProgram>(answer);
  CHECK(program.path == row.path);
  CHECK(program.argv == row.argv);
  CHECK(program.python == row.python);
}

TEST_CASE("program: what does not run", "[launcher]") {
  struct Row {
    const char* name;
    ProgramRequest request;
    int code;
    std::string says;
  };
  const auto row = GENERATE(values<Row>({
      {"no such path", {"./nothing", {}}, 127, "./nothing: no such file"},
      {"no such name", {"nothing", {}}, 127, "no such program in PATH"},
      {"empty name", {"", {}}, 127, "empty"},
      {"no Python: a file of this folder", {"train", {}, true}, 127, "./train"},
      {"a directory", {"./dir", {}}, 126, "is a directory"},
      {"Windows line ends", {"./windows", {}}, 127, "carriage return"},
      {"no such interpreter",
       {"./no-reader", {}},
       127,
       "its interpreter /no/such (first line) does not exist"},
      {"an interpreter that cannot run",
       {"./bad-reader", {}},
       126,
       "its interpreter ./noexec (first line) cannot"},
      {"no interpreter", {"./no-name", {}}, 126, "names no interpreter after #!"},
      {"a pipe", {"./fifo", {}}, 126, "not a regular file"},
      {"binary without x bit", {"./noexec", {}}, 126, "chmod +x ./noexec"},
      {"a shell script without x bit", {"./shell", {}}, 126, "#!/bin/bash"},
      {"no Python: a text without x bit", {"./script", {}, true}, 126, "chmod +x"},
      {"neither readable nor executable", {"./secret", {}}, 126, "permission denied"},
      {"a folder that we may not enter", {"./closed/x", {}}, 126, "Permission denied"},
      {"in PATH without x bit", {"data", {}}, 126, "/bin/data is not executable"},
  }));
  INFO(row.name);
  const auto answer = resolve(row.request);
  REQUIRE(std::holds_alternative<ProgramError>(answer));
  const auto& error = std::get<ProgramError>(answer);
  CHECK(error.exit_code == row.code);
  CHECK_THAT(error.message, Catch::Contains(row.says));
  CHECK(std::count(error.message.begin(), error.message.end(), '\n') <= 2);
}

TEST_CASE("program: which interpreter", "[launcher]") {
  struct Row {
    const char* name;
    Variables variables;
    std::string want;  ///< empty: an error
  };
  const auto row = GENERATE(values<Row>({
      {"of PATH", kPlain, "/bin/python3"},
      {"virtual environment", {{"PATH", "/bin"}, {"VIRTUAL_ENV", "/venv"}}, "/venv/bin/python"},
      {"virtual environment that is gone", {{"PATH", "/bin"}, {"VIRTUAL_ENV", "/old"}}, "/bin/python3"},
      {"PYTHON_EXEC first",
       {{"PATH", "/bin"}, {"VIRTUAL_ENV", "/venv"}, {"PYTHON_EXEC", "/opt/py"}},
       "/opt/py"},
      {"PYTHON_EXEC by name", {{"PATH", "/bin"}, {"PYTHON_EXEC", "python3"}}, "/bin/python3"},
      {"PYTHON_EXEC that is not there", {{"PATH", "/bin"}, {"PYTHON_EXEC", "/opt/no"}}, ""},
      {"none at all", {{"PATH", "/usr/bin"}}, ""},
  }));
  INFO(row.name);
  const auto answer = resolve({"train.py", {}}, row.variables);
  if (row.want.empty()) {
    REQUIRE(std::holds_alternative<ProgramError>(answer));
    CHECK(std::get<ProgramError>(answer).exit_code == 127);
  } else {
    REQUIRE(std::holds_alternative<ResolvedProgram>(answer));
    CHECK(std::get<ResolvedProgram>(answer).path == row.want);
  }
}

}  // namespace
}  // namespace cxxrun::launcher
