// SPDX-License-Identifier: Apache-2.0
#include "cli/completion.hpp"

#include <algorithm>
#include <vector>

#include "cli/lists.hpp"
#include "cli/not_yet.hpp"
#include "cli/options.hpp"

namespace cxxrun::cli {
namespace {

std::vector<const OptionRow*> shown_options() {
  std::vector<const OptionRow*> out;
  for (const OptionRow& option : option_table()) {
    if (!not_yet(option.id) && !option.group.empty()) out.push_back(&option);
  }
  return out;
}

/// "N|auto|cpu|gpu" has three words to choose from.
std::vector<std::string> choices(const OptionRow& option) {
  const auto is_word = [](const std::string& text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
    });
  };
  std::vector<std::string> out;
  for (const auto& part : split(option.value, '|')) {
    if (is_word(part)) out.push_back(part);
  }
  return out;
}

bool is_file(const OptionRow& option) {
  return option.value.find("FILE") != std::string_view::npos ||
         option.value.find("FOLDER") != std::string_view::npos ||
         option.value.find("PATH") != std::string_view::npos;
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const auto& word : words) out += (out.empty() ? "" : " ") + word;
  return out;
}

/// Names and letter: "--tee", "-t".
std::vector<std::string> spellings(const OptionRow& option) {
  std::vector<std::string> out{"--" + std::string(option.name)};
  if (option.letter != 0) out.push_back(std::string("-") + option.letter);
  return out;
}

std::string with_underscores(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), '-', '_');
  return out;
}

/// In single quotes, for all three shells, with a backslash before each of `special`.
std::string single_quoted(std::string_view text, std::string_view special = "") {
  std::string out = "'";
  for (const char c : text) {
    if (special.find(c) != std::string_view::npos) out += '\\';
    out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return out + "'";
}

/// Every spelling of the options that take a value as the next word.
std::string takers(std::string_view separator) {
  std::string out;
  for (const OptionRow* option : shown_options()) {
    if (option->kind != Kind::Text) continue;
    for (const auto& name : spellings(*option)) out += (out.empty() ? "" : std::string(separator)) + name;
  }
  return out;
}

// --- bash ---

/// Finds out what is being completed: the value of $option, a name, or (nothing of both) the program.
constexpr std::string_view kBash = R"sh(# Completion of cxxrun for bash: source <(cxxrun --completion bash)
_cxxrun() {
  local cur=${COMP_WORDS[COMP_CWORD]} option= last= dashes= words= files= i word
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]//_/-}
    if [[ $word == = ]]; then option=$last; continue; fi      # --name=value comes in three words
    if [[ $word == :* ]]; then ((++i)); continue; fi          # so does host:port
    if [[ -n $option ]]; then option=; continue; fi
    [[ -n $dashes || $word != -* ]] && return                 # behind the program everything is its own
    last=$word
    case $word in
      --) dashes=yes ;;
      @TAKERS@) option=$word ;;
    esac
  done
  [[ $cur == = ]] && { option=$last; cur=; }
  if [[ -n $option ]]; then
    case $option in
@VALUES@    esac
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
    [[ -n $files ]] && COMPREPLY+=($(compgen -f -- "$cur"))
  elif [[ $cur == -* && -z $dashes ]]; then
    words='@NAMES@'
    [[ $cur == --*_* ]] && words='@UNDERSCORED@'
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
  else
    COMPREPLY=($(compgen -f -- "$cur") $(compgen -c -- "$cur"))
  fi
}
complete -o default -F _cxxrun cxxrun cxxrun-launch
)sh";

std::string filled(std::string_view text,
                   std::initializer_list<std::pair<std::string_view, std::string>> marks) {
  std::string out(text);
  for (const auto& [mark, value] : marks) out.replace(out.find(mark), mark.size(), value);
  return out;
}

std::string bash() {
  std::vector<std::string> names;
  std::vector<std::string> underscored;
  std::string values;
  for (const OptionRow* option : shown_options()) {
    for (const auto& name : spellings(*option)) names.push_back(name);
    underscored.push_back("--" + with_underscores(option->name));
    std::string does;
    if (const auto words = choices(*option); !words.empty()) does += " words='" + joined(words) + "'";
    if (is_file(*option)) does += std::string(does.empty() ? "" : ";") + " files=yes";
    if (does.empty() || option->kind == Kind::Flag) continue;
    std::string pattern;
    for (const auto& name : spellings(*option)) pattern += (pattern.empty() ? "" : "|") + name;
    values.append("      ").append(pattern).append(")").append(does).append(" ;;\n");
  }
  return filled(kBash, {{"@TAKERS@", takers("|")},
                        {"@VALUES@", values},
                        {"@NAMES@", joined(names)},
                        {"@UNDERSCORED@", joined(underscored)}});
}

// --- zsh ---

std::string zsh() {
  std::string out =
      "#compdef cxxrun cxxrun-launch\n"
      "# Completion of cxxrun for zsh: source <(cxxrun --completion zsh), or as file _cxxrun in a folder of "
      "$fpath\n"
      "_cxxrun() {\n  _arguments -S \\\n";
  for (const OptionRow* option : shown_options()) {
    const std::string help = "[" + std::string(option->help) + "]";
    std::string value;
    if (option->kind != Kind::Flag) {
      const auto words = choices(*option);
      const std::string action = is_file(*option) ? "_files"
                                 : words.empty()  ? " "
                                                  : "(" + joined(words) + ")";
      value = (option->kind == Kind::Optional ? "::" : ":") + std::string(option->name) + ":" + action;
    }
    for (const auto& name : spellings(*option)) {
      const std::string sign = option->kind == Kind::Flag       ? ""
                               : name.size() == 2               ? "+"
                               : option->kind == Kind::Optional ? "=-"
                                                                : "=";
      std::string text =
          single_quoted(name + sign) + single_quoted("[" + std::string(option->help) + "]", ":");
      out += "    " + text + (value.empty() ? "" : single_quoted(value)) + " \\\n";
    }
  }
  return out +
         "    '*::program:_normal'\n}\n"
         "if [[ $funcstack[1] == _cxxrun ]]; then _cxxrun \"$@\"; else compdef _cxxrun cxxrun cxxrun-launch; "
         "fi\n";
}

// --- fish ---

constexpr std::string_view kFish = R"sh(# Completion of cxxrun for fish: cxxrun --completion fish | source
function __cxxrun_at_options --description 'no program stands on the line yet'
  set -l words (commandline -opc)
  set -e words[1]
  set -l value no
  for word in $words
    if test $value = yes
      set value no
      continue
    end
    switch (string replace --all _ - -- $word)
      case @TAKERS@
        set value yes
      case --
        return 1
      case '-*'
      case '*'
        return 1
    end
  end
  return 0
end
)sh";

std::string fish() {
  std::string out = filled(kFish, {{"@TAKERS@", takers(" ")}});
  for (const OptionRow* option : shown_options()) {
    out += "complete -c cxxrun -n __cxxrun_at_options -l " + std::string(option->name);
    if (option->letter != 0) out += std::string(" -s ") + option->letter;
    if (option->kind == Kind::Text) out += is_file(*option) ? " -r" : " -x";
    if (const auto words = choices(*option); option->kind != Kind::Flag && !words.empty())
      out += " -a '" + joined(words) + "'";
    out += " -d " + single_quoted(option->help) + "\n";
  }
  return out;
}

}  // namespace

std::optional<std::string> make_completion(std::string_view shell) {
  if (shell == "bash") return bash();
  if (shell == "zsh") return zsh();
  if (shell == "fish") return fish();
  return std::nullopt;
}

}  // namespace cxxrun::cli
