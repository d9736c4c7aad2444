// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cxxrun::cli {

/// The completion of `shell` (bash, zsh, fish), made from the option table: every option of --help, the words
/// that a value may be, files where a value is one; behind the options the program and its files. Nothing for
/// another shell.
[[nodiscard]] std::optional<std::string> make_completion(std::string_view shell);

}  // namespace cxxrun::cli
