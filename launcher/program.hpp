// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.hpp"

namespace cxxrun::launcher {

/// What was asked to run.
struct ProgramRequest {
  std::string name;               ///< as typed: program, script, or module with `module`
  std::vector<std::string> args;  ///< those after the name
  bool no_python = false;
  bool module = false;
};

/// What to execute.
struct ResolvedProgram {
  std::string path;               ///< for exec, no search needed
  std::vector<std::string> argv;  ///< argv[0] included
  bool python = false;            ///< run by an interpreter that we chose
};

/// Why it cannot run. `exit_code`: 126 (found, not executable) or 127 (not found). `message`: 1 to 3 lines.
struct ProgramError {
  int exit_code = 127;
  std::string message;
};

/// What resolve_program() asks of the file system; replaced in tests.
struct FileFacts {
  enum class Kind { Missing, File, Directory, Other } kind = Kind::Missing;
  bool executable = false;  ///< by us
  bool readable = false;
  int error = 0;  ///< errno where Missing for another reason than ENOENT
};
struct FileProbe {
  std::function<FileFacts(const std::string& path)> facts;
  std::function<std::string(const std::string& path)> head;  ///< the first 512 bytes; empty if unreadable
};
[[nodiscard]] FileProbe real_files();

using EnvironmentLookup = std::function<std::optional<std::string>(std::string_view name)>;

/// Why exec(2) refused a file, with what its errno leaves out: a missing program loader, another processor's
/// code.
[[nodiscard]] Error exec_error(int error, const std::string& path);

/// Finds what runs: an executable file itself; with `no_python` nothing else; a Python file or other text
/// without x bit by `python -u`; a module by `python -u -m`. A name without a slash: a *.py file
/// of this folder, a program in PATH, any file of this folder (with `no_python`: PATH only). Interpreter:
/// PYTHON_EXEC, $VIRTUAL_ENV/bin/python, python3, python.
[[nodiscard]] std::variant<ResolvedProgram, ProgramError> resolve_program(
    const ProgramRequest& request, const EnvironmentLookup& environment, const FileProbe& files);

}  // namespace cxxrun::launcher
