// SPDX-License-Identifier: Apache-2.0
#include "cli/options.hpp"

#include <algorithm>
#include <charconv>

#include "base/text.hpp"

namespace cxxrun::cli {
namespace {

/// Option names compare with - and _ equal.
bool same_letters(char a, char b) { return (a == '_' ? '-' : a) == b; }

const OptionRow* find_long(std::string_view name) {
  const auto same = [&](const OptionRow& option) {
    return std::equal(name.begin(), name.end(), option.name.begin(), option.name.end(), same_letters);
  };
  const auto table = option_table();
  const auto found = std::find_if(table.begin(), table.end(), same);
  return found == table.end() ? nullptr : &*found;
}

/// The options that `name` may be short for: torchrun's, if there are any.
std::vector<const OptionRow*> long_for(std::string_view name) {
  std::vector<const OptionRow*> found;
  for (const Origin origin : {Origin::Torchrun, Origin::Ours}) {
    for (const OptionRow& option : option_table()) {
      if (option.origin != origin || name.empty() || name.size() >= option.name.size()) continue;
      if (std::equal(name.begin(), name.end(), option.name.begin(), same_letters)) found.push_back(&option);
    }
    if (!found.empty()) return found;
  }
  return found;
}

const OptionRow* find_letter(char letter) {
  for (const OptionRow& option : option_table()) {
    if (option.letter == letter) return &option;
  }
  return nullptr;
}

/// `in_file`: only what a file may set, as it is written there.
std::string did_you_mean(std::string_view name, bool in_file = false) {
  std::string dashed(name);
  std::replace(dashed.begin(), dashed.end(), '_', '-');
  std::vector<std::string_view> names;
  for (const OptionRow& option : option_table()) {
    if (!in_file || !variable(option).empty()) names.push_back(option.name);
  }
  const auto best = nearest(dashed, names);
  return best.empty() ? std::string()
                      : "; did you mean " + std::string(in_file ? "" : "--") + std::string(best) + "?";
}

bool looks_like_number(std::string_view word) {
  return word.size() > 1 && word[0] == '-' && (word[1] == '.' || (word[1] >= '0' && word[1] <= '9'));
}

/// The command line up to the program. A small hand: what it may take is in the table.
class CommandLine {
 public:
  CommandLine(std::span<const std::string> arguments, RawOptions& out) : arguments_(arguments), out_(out) {}

  std::optional<UsageError> parse() {
    while (next_ < arguments_.size()) {
      const std::string& word = arguments_[next_];
      if (word == "--") {
        ++next_;
        break;
      }
      if (word.size() < 2 || word[0] != '-' || looks_like_number(word)) break;
      ++next_;
      if (auto error = word[1] == '-' ? long_option(word) : letters(word)) return error;
    }
    out_.program.assign(arguments_.begin() + static_cast<std::ptrdiff_t>(next_), arguments_.end());
    return std::nullopt;
  }

 private:
  std::optional<UsageError> long_option(const std::string& word) {
    const auto equals = word.find('=');
    const std::string_view name =
        std::string_view(word).substr(2, equals == std::string::npos ? equals : equals - 2);
    const OptionRow* option = find_long(name);
    if (option == nullptr) {
      if (auto error = abbreviated(name, option)) return error;
    }
    if (equals != std::string::npos) return take(*option, word.substr(equals + 1));
    return take(*option, std::nullopt);
  }

  /// torchrun's parser takes names that are cut short.
  std::optional<UsageError> abbreviated(std::string_view name, const OptionRow*& option) {
    const auto candidates = long_for(name);
    const std::string shown = quoted("--" + std::string(name));
    if (candidates.empty()) return UsageError{"unknown option " + shown + did_you_mean(name)};
    if (candidates.size() > 1) {
      std::string all;
      for (const OptionRow* one : candidates) all += (all.empty() ? "--" : ", --") + std::string(one->name);
      return UsageError{shown + " is short for several options: " + all};
    }
    option = candidates.front();
    out_.notes.push_back(shown + " is taken for --" + std::string(option->name) +
                         "; please write it in full");
    return std::nullopt;
  }

  /// -m, -r 3, -r3, -r=3, -mr3.
  std::optional<UsageError> letters(const std::string& word) {
    for (std::size_t i = 1; i < word.size(); ++i) {
      const OptionRow* option = find_letter(word[i]);
      if (option == nullptr) return unknown_letter(word, i);
      if (option->kind == Kind::Flag) {
        if (auto error = take(*option, std::nullopt)) return error;
        continue;
      }
      if (i + 1 == word.size()) return take(*option, std::nullopt);
      return take(*option, word.substr(word[i + 1] == '=' ? i + 2 : i + 1));
    }
    return std::nullopt;
  }

  static UsageError unknown_letter(const std::string& word, std::size_t at) {
    if (word.size() == 2) return {"unknown option " + quoted(word)};
    const std::string_view name = std::string_view(word).substr(1, word.find('=') - 1);
    const std::string near = at == 1 ? did_you_mean(name) : std::string();
    return {"unknown option -" + quoted(std::string(1, word[at])) + " in " + quoted(word) + near};
  }

  std::optional<UsageError> take(const OptionRow& option, std::optional<std::string> value) {
    const std::string shown = "--" + std::string(option.name);
    if (option.kind == Kind::Optional) {
      if (!value) value = "1";
    } else if (option.kind == Kind::Flag) {
      if (value) return UsageError{shown + " takes no value"};
      value = "1";
    } else if (!value) {
      if (next_ == arguments_.size())
        return UsageError{shown + " needs a value: " + shown + " " + std::string(option.value)};
      const std::string& word = arguments_[next_];
      if (word.size() > 1 && word[0] == '-' && !looks_like_number(word)) {
        return UsageError{shown + " needs a value; if " + quoted(word) + " is meant, write " + shown + "=" +
                          quoted(word)};
      }
      value = word;
      ++next_;
    }
    out_.given[static_cast<std::size_t>(option.id)] = Given{Source::Flag, std::move(*value), shown};
    return std::nullopt;
  }

  std::span<const std::string> arguments_;
  RawOptions& out_;
  std::size_t next_ = 0;
};

/// A flag's text: a decimal number, as torchrun reads it; also true and false.
std::optional<bool> flag_value(std::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  long number = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (ec != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number != 0;
}

/// From a variable or a file: sets it unless something stronger did.
std::optional<UsageError> set_weak(RawOptions& out, const OptionRow& option, Source source, std::string value,
                                   const std::string& where) {
  Given given{source, std::move(value), where};
  if (option.kind == Kind::Flag) {
    const auto on = flag_value(given.value);
    if (!on) return UsageError{said(given) + ": must be 1 or 0"};
    given.value = *on ? "1" : "0";
  }
  auto& entry = out.given[static_cast<std::size_t>(option.id)];
  if (!entry || entry->source <= source) entry = std::move(given);
  return std::nullopt;
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

/// One pair of quotes around a value is for the reader.
std::string_view unquoted(std::string_view text) {
  const bool pair =
      text.size() >= 2 && (text.front() == '"' || text.front() == '\'') && text.back() == text.front();
  return pair ? text.substr(1, text.size() - 2) : text;
}

/// `key = value` lines; # starts a comment line. Keys are the long options.
std::optional<UsageError> read_file(RawOptions& out, const ConfigFile& file) {
  if (!file.problem.empty()) return UsageError{quoted(file.path) + ": " + file.problem};
  std::string_view rest = file.content;
  if (rest.starts_with("\xef\xbb\xbf")) rest.remove_prefix(3);  // an editor's byte order mark
  if (rest.find('\0') != std::string_view::npos)
    return UsageError{quoted(file.path) + ": is not a text file"};
  for (int number = 1; !rest.empty(); ++number) {
    const auto end = rest.find('\n');
    const std::string_view line = trimmed(rest.substr(0, end));
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (line.empty() || line[0] == '#') continue;
    std::string where = quoted(file.path) + ":" + std::to_string(number) + ": ";
    const auto equals = line.find('=');
    if (equals == std::string_view::npos)
      return UsageError{where + quoted(line) + ": expected `option = value`"};
    std::string_view key = trimmed(line.substr(0, equals));
    if (key.starts_with("--")) key.remove_prefix(2);
    const OptionRow* option = find_long(key);
    if (option == nullptr)
      return UsageError{where + "unknown option " + quoted(key) + did_you_mean(key, true)};
    where += option->name;
    if (variable(*option).empty()) {
      return UsageError{where + " is for the command line: cxxrun --" + std::string(option->name)};
    }
    if (auto error = set_weak(out, *option, Source::File,
                              std::string(unquoted(trimmed(line.substr(equals + 1)))), where))
      return error;
  }
  return std::nullopt;
}

}  // namespace

std::string said(const Given& given) {
  switch (given.source) {
    case Source::File: return given.where + " = " + quoted(given.value);
    case Source::Variable: return given.where + "=" + quoted(given.value);
    case Source::Flag:
    case Source::Default: break;
  }
  return given.where + " " + quoted(given.value);
}

std::string RawOptions::text(Opt id) const {
  const Given* entry = find(id);
  return entry != nullptr ? entry->value : std::string(row(id).fallback);
}

bool RawOptions::flag(Opt id) const {
  const Given* entry = find(id);
  return entry != nullptr && entry->value == "1";
}

std::variant<RawOptions, UsageError> parse_options(std::span<const std::string> arguments,
                                                   const EnvironmentLookup& environment,
                                                   std::span<const ConfigFile> files) {
  RawOptions out;
  if (auto error = CommandLine(arguments, out).parse()) return std::move(*error);
  for (const Opt text : {Opt::Help, Opt::Version, Opt::Completion, Opt::PrintCompletion}) {
    if (out.find(text) != nullptr) return out;  // helps also where a variable is wrong
  }
  for (const ConfigFile& file : files) {
    if (auto error = read_file(out, file)) return std::move(*error);
  }
  for (const OptionRow& option : option_table()) {
    const std::string name = variable(option);
    if (name.empty()) continue;
    if (auto value = environment(name.c_str())) {
      if (auto error = set_weak(out, option, Source::Variable, std::move(*value), name))
        return std::move(*error);
    }
  }
  return out;
}

std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates) {
  if (word.size() > 64) return {};  // no name of ours is that long; the work grows with it
  std::string_view best;
  std::size_t best_distance = word.size() / 3 + 1;  // a third of it wrong: another word
  for (const auto candidate : candidates) {
    std::vector<std::size_t> above(candidate.size() + 1);
    for (std::size_t j = 0; j < above.size(); ++j) above[j] = j;
    for (std::size_t i = 0; i < word.size(); ++i) {
      std::size_t corner = above[0];
      above[0] = i + 1;
      for (std::size_t j = 0; j < candidate.size(); ++j) {
        const std::size_t change = corner + (word[i] == candidate[j] ? 0 : 1);
        corner = above[j + 1];
        above[j + 1] = std::min({change, above[j] + 1, above[j + 1] + 1});
      }
    }
    const bool prefix = word.size() >= 3 && candidate.starts_with(word);
    const std::size_t distance = prefix ? 1 : above.back();
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace cxxrun::cli
