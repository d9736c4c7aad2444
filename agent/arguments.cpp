// SPDX-License-Identifier: Apache-2.0
#include "agent/arguments.hpp"

#include <string_view>

namespace cxxrun::agent {
namespace {

bool continues_a_name(char c) {
  return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

std::string expanded(std::string_view argument, const std::string& value) {
  constexpr std::string_view kBraced = "${local_rank}";
  constexpr std::string_view kBare = "$local_rank";
  std::string out;
  while (!argument.empty()) {
    const bool bare = argument.starts_with(kBare) &&
                      (argument.size() == kBare.size() || !continues_a_name(argument[kBare.size()]));
    if (argument.starts_with(kBraced) || bare) {
      out += value;
      argument.remove_prefix(bare ? kBare.size() : kBraced.size());
    } else {
      out += argument.front();
      argument.remove_prefix(1);
    }
  }
  return out;
}

}  // namespace

std::vector<std::string> with_local_rank(const std::vector<std::string>& arguments, int local_rank) {
  const std::string value = std::to_string(local_rank);
  std::vector<std::string> out;
  out.reserve(arguments.size());
  for (const auto& argument : arguments) {
    out.push_back(argument.find('$') == std::string::npos ? argument : expanded(argument, value));
  }
  return out;
}

}  // namespace cxxrun::agent
