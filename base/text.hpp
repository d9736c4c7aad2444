// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

/// Texts of users, files and peers on their way to a terminal or into a message.
namespace cxxrun {

/// UTF-8 without control characters (C0, DEL, C1): it can travel as JSON, and does not drive a reader's
/// terminal.
[[nodiscard]] bool printable(std::string_view text);

/// The text with '?' for each control character and each byte that is not UTF-8.
[[nodiscard]] std::string cleaned(std::string_view text);

/// For sentences: the text itself where it is one plain word, else in single quotes, with \n, \t, \xNN for
/// what is not printable. At most about 120 bytes of it: the rest is "...".
[[nodiscard]] std::string quoted(std::string_view text);

}  // namespace cxxrun
