// SPDX-License-Identifier: Apache-2.0
#include "launcher/program.hpp"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/text.hpp"
#include "base/unique_fd.hpp"

namespace cxxrun::launcher {
namespace {

constexpr std::size_t kHeadBytes = 512;
constexpr unsigned kElfPartsMax = 128;
constexpr std::size_t kLoaderBytesMax = 256;
constexpr int kCannotExecute = 126;
constexpr int kNotFound = 127;
constexpr const char* kDefaultPath = "/usr/local/bin:/usr/bin:/bin";

using Kind = FileFacts::Kind;
using Answer = std::variant<ResolvedProgram, ProgramError>;

bool is_python_name(std::string_view name) { return name.ends_with(".py"); }
bool is_text(std::string_view head) { return head.find('\0') == std::string_view::npos; }

ResolvedProgram direct(std::string path, const ProgramRequest& request) {
  ResolvedProgram program{std::move(path), {request.name}, false};
  program.argv.insert(program.argv.end(), request.args.begin(), request.args.end());
  return program;
}

/// The first file of that name in PATH that can be executed, and whether one was found that cannot.
struct PathSearch {
  std::string found;
  std::string not_executable;
};
PathSearch search_path(const std::string& name, const std::string& path, const FileProbe& files) {
  PathSearch result;
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t end = std::min(path.find(':', at), path.size());
    const std::string folder = end == at ? "." : path.substr(at, end - at);
    const std::string candidate = folder + "/" + name;
    const FileFacts facts = files.facts(candidate);
    if (facts.kind == Kind::File && facts.executable) {
      result.found = candidate;
      return result;
    }
    if (facts.kind == Kind::File && result.not_executable.empty()) result.not_executable = candidate;
    at = end + 1;
  }
  return result;
}

/// PYTHON_EXEC, $VIRTUAL_ENV/bin/python, python3, python; the first that is there.
Answer find_interpreter(const EnvironmentLookup& environment, const std::string& path,
                        const FileProbe& files) {
  if (const auto chosen = environment("PYTHON_EXEC"); chosen && !chosen->empty()) {
    if (chosen->find('/') == std::string::npos) {
      const PathSearch search = search_path(*chosen, path, files);
      if (!search.found.empty()) return ResolvedProgram{search.found, {search.found}, true};
    }
    const FileFacts facts = files.facts(*chosen);
    if (facts.kind == Kind::File && facts.executable) return ResolvedProgram{*chosen, {*chosen}, true};
    return ProgramError{facts.kind == Kind::Missing ? kNotFound : kCannotExecute,
                        "PYTHON_EXEC=" + quoted(*chosen) + " is not an executable file"};
  }
  if (const auto venv = environment("VIRTUAL_ENV"); venv && !venv->empty()) {
    const std::string python = *venv + "/bin/python";
    const FileFacts facts = files.facts(python);
    if (facts.kind == Kind::File && facts.executable) return ResolvedProgram{python, {python}, true};
  }
  for (const char* name : {"python3", "python"}) {
    const PathSearch search = search_path(name, path, files);
    if (!search.found.empty()) return ResolvedProgram{search.found, {search.found}, true};
  }
  return ProgramError{kNotFound,
                      "no Python interpreter: neither python3 nor python is in PATH\nset PYTHON_EXEC, "
                      "activate a virtual environment, or pass --no-python for a native program"};
}

/// The interpreter with `arguments` and those of the request behind it.
Answer by_python(const ProgramRequest& request, std::vector<std::string> arguments,
                 const EnvironmentLookup& environment, const std::string& path, const FileProbe& files) {
  Answer answer = find_interpreter(environment, path, files);
  auto* program = std::get_if<ResolvedProgram>(&answer);
  if (program == nullptr) return answer;
  program->argv.insert(program->argv.end(), arguments.begin(), arguments.end());
  program->argv.insert(program->argv.end(), request.args.begin(), request.args.end());
  return answer;
}

/// As a shell does with a text file that has an x bit but does not say what reads it.
ResolvedProgram by_shell(const std::string& path, const ProgramRequest& request) {
  ResolvedProgram program{"/bin/sh", {"sh", path}, false};
  program.argv.insert(program.argv.end(), request.args.begin(), request.args.end());
  return program;
}

bool names_python(std::string_view head) {
  const std::string_view first_line = head.substr(0, head.find('\n'));
  return first_line.find("python") != std::string_view::npos;
}

/// What the first line of a script asks for, as the kernel reads it: `#!INTERPRETER [ARGUMENT]`.
std::string_view interpreter_of(std::string_view head) {
  std::string_view line =
      head.substr(2, head.find('\n') == std::string_view::npos ? head.size() : head.find('\n') - 2);
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  return line.substr(0, line.find_first_of(" \t"));
}

/// Why the kernel would not run a script that has an x bit; the exec would only say "no such file".
std::optional<ProgramError> interpreter_error(const std::string& path, const std::string& head,
                                              const FileProbe& files) {
  const std::string_view line = std::string_view(head).substr(0, head.find('\n'));
  const std::string interpreter(interpreter_of(head));
  if (line.ends_with('\r') && head.size() > line.size()) {
    return ProgramError{
        kNotFound, path + ": its first line ends with a carriage return, so that no interpreter is found: " +
                       std::string(line.substr(0, line.size() - 1)) +
                       "\nit has line ends of Windows: sed -i 's/\\r$//' " + path};
  }
  if (interpreter.empty())
    return ProgramError{kCannotExecute, path + ": its first line names no interpreter after #!"};
  const FileFacts facts = files.facts(interpreter);
  if (facts.kind == Kind::Missing) {
    return ProgramError{kNotFound,
                        path + ": its interpreter " + interpreter + " (first line) does not exist"};
  }
  if (facts.kind == Kind::File && facts.executable) return std::nullopt;
  return ProgramError{kCannotExecute,
                      path + ": its interpreter " + interpreter + " (first line) cannot be executed"};
}

/// The program loader that a 64-bit ELF file names; empty if it names none.
std::string loader_of(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  Elf64_Ehdr file{};
  if (!fd || ::pread(fd.get(), &file, sizeof file, 0) != sizeof file) return {};
  if (std::memcmp(file.e_ident, ELFMAG, SELFMAG) != 0 || file.e_ident[EI_CLASS] != ELFCLASS64) return {};
  for (unsigned i = 0; i < file.e_phnum && i < kElfPartsMax; ++i) {
    Elf64_Phdr part{};
    const auto at = static_cast<off_t>(file.e_phoff + i * sizeof part);
    if (::pread(fd.get(), &part, sizeof part, at) != sizeof part) return {};
    if (part.p_type != PT_INTERP) continue;
    std::string name(std::min<std::size_t>(part.p_filesz, kLoaderBytesMax), '\0');
    const ssize_t n = ::pread(fd.get(), name.data(), name.size(), static_cast<off_t>(part.p_offset));
    name.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    return name.c_str();  // up to its first NUL
  }
  return {};
}

ProgramError missing(const ProgramRequest& request, const FileFacts& facts) {
  if (facts.error != 0 && facts.error != ENOENT && facts.error != ENOTDIR) {
    return {kCannotExecute, quoted(request.name) + ": " + std::strerror(facts.error)};
  }
  if (request.name.find('/') != std::string::npos)
    return {kNotFound, quoted(request.name) + ": no such file"};
  return {kNotFound, quoted(request.name) + ": no such file here, and no such program in PATH"};
}

Answer run_file(const std::string& path, const FileFacts& facts, const ProgramRequest& request,
                const EnvironmentLookup& environment, const std::string& search, const FileProbe& files) {
  if (facts.kind == Kind::Directory) {
    return ProgramError{
        kCannotExecute,
        quoted(path) + " is a directory\nname the program or script in it, or use -m for a module"};
  }
  if (facts.kind == Kind::Other) return ProgramError{kCannotExecute, quoted(path) + " is not a regular file"};
  const std::string head = files.head(path);
  const bool script = head.starts_with("#!");
  const bool text = facts.readable && is_text(head);
  if (facts.executable) {
    // A text without #! is what exec refuses: many file systems show every file as executable.
    if (script) {
      if (auto error = interpreter_error(path, head, files)) return *std::move(error);
    }
    if (!text || script || head.empty()) return direct(path, request);
    if (request.no_python || !is_python_name(path)) return by_shell(path, request);
    return by_python(request, {"-u", path}, environment, search, files);
  }
  if (!facts.readable)
    return ProgramError{kCannotExecute,
                        quoted(path) + ": permission denied (neither readable nor executable)"};
  if (request.no_python)
    return ProgramError{kCannotExecute, quoted(path) + " is not executable\nchmod +x " + quoted(path)};
  if (!text)
    return ProgramError{kCannotExecute,
                        quoted(path) + " is a binary file that is not executable\nchmod +x " + quoted(path)};
  if (script && !names_python(head) && !is_python_name(path)) {
    const std::string line = head.substr(0, std::min(head.find('\n'), std::size_t{80}));
    return ProgramError{kCannotExecute, quoted(path) +
                                            " is not executable, and its first line names no Python: " +
                                            quoted(line) + "\nchmod +x " + path};
  }
  return by_python(request, {"-u", path}, environment, search, files);
}

}  // namespace

FileProbe real_files() {
  FileProbe probe;
  probe.facts = [](const std::string& path) {
    FileFacts facts;
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) {
      facts.error = errno;
      return facts;
    }
    facts.kind = S_ISREG(info.st_mode) ? Kind::File : S_ISDIR(info.st_mode) ? Kind::Directory : Kind::Other;
    facts.executable = ::access(path.c_str(), X_OK) == 0;
    facts.readable = ::access(path.c_str(), R_OK) == 0;
    return facts;
  };
  probe.head = [](const std::string& path) {
    std::string head(kHeadBytes, '\0');
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    const ssize_t n = fd ? ::read(fd.get(), head.data(), head.size()) : 0;
    head.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    return head;
  };
  return probe;
}

Error exec_error(int error, const std::string& path) {
  Error told = errno_error(error, "exec " + path);
  if (error == ENOEXEC) told.message += ": made for another kind of processor, or damaged";
  if (error != ENOENT || ::access(path.c_str(), F_OK) != 0) return told;
  const std::string loader = loader_of(path);
  if (loader.empty() || ::access(loader.c_str(), F_OK) == 0) return told;
  told.message =
      "exec " + path + ": its loader " + loader + " does not exist here (it was built for another system)";
  return told;
}

Answer resolve_program(const ProgramRequest& request, const EnvironmentLookup& environment,
                       const FileProbe& files) {
  const std::string path = environment("PATH").value_or(kDefaultPath);
  if (request.module) return by_python(request, {"-u", "-m", request.name}, environment, path, files);
  if (request.name.empty()) return ProgramError{kNotFound, "the program's name is empty"};

  const FileFacts here = files.facts(request.name);
  if (request.name.find('/') != std::string::npos) {
    if (here.kind == Kind::Missing) return missing(request, here);
    return run_file(request.name, here, request, environment, path, files);
  }
  // Without a slash a script of this folder comes first; a program as a shell finds it, then in this folder.
  const auto run_here = [&] {
    return run_file(here.executable ? "./" + request.name : request.name, here, request, environment, path,
                    files);
  };
  if (here.kind == Kind::File && is_python_name(request.name) && !request.no_python) return run_here();
  const PathSearch search = search_path(request.name, path, files);
  if (!search.found.empty()) {
    return run_file(search.found, files.facts(search.found), request, environment, path, files);
  }
  if (here.kind == Kind::File && !request.no_python) return run_here();
  if (here.kind == Kind::Directory) return run_file(request.name, here, request, environment, path, files);
  if (here.kind == Kind::File)
    return ProgramError{
        kNotFound,
        quoted(request.name) + ": not in PATH; for the file of this folder write ./" + quoted(request.name)};
  if (!search.not_executable.empty())
    return ProgramError{kCannotExecute, search.not_executable + " is not executable"};
  return missing(request, here);
}

}  // namespace cxxrun::launcher
