// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bitset>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/config.hpp"
#include "base/result.hpp"

/// The small languages of option values. Pure. Errors say what the value must be, without the value.
namespace cxxrun::cli {

/// Split at each `separator`; n of them give n + 1 pieces.
[[nodiscard]] std::vector<std::string> split(std::string_view text, char separator);

/// -r and -t: 0 to 3, or RANK:VALUE,...; the last of a repeated rank counts. torchrun's ranks have one digit,
/// ours any number.
[[nodiscard]] Result<agent::StreamMap> parse_streams(std::string_view text);

/// "0, 2,3"; blanks allowed; empty: nothing is filtered.
[[nodiscard]] Result<std::optional<std::vector<int>>> parse_ranks(std::string_view text);

/// Substrings separated by commas; two commas are one that belongs to the text. Empty ones are dropped.
[[nodiscard]] std::vector<std::string> parse_filters(std::string_view text);

/// "1,64-78,SIGKILL": codes 1 to 255, ranges, signals (128 + their number).
[[nodiscard]] Result<std::bitset<256>> parse_exit_codes(std::string_view text);

/// "SIGTERM, SIGUSR1" as numbers, each once. A name that is none is left out and comes back in `unknown`, as
/// torchrun has it. Errors: a signal that nobody can handle.
[[nodiscard]] Result<std::vector<int>> parse_signals(std::string_view text,
                                                     std::vector<std::string>& unknown);

/// "2,4,7", "GPU-...", "MIG-...": each once, none empty.
[[nodiscard]] Result<std::vector<std::string>> parse_gpus(std::string_view text);

/// null, console or a path with a slash. dynamic_rendezvous (reserved by torchrun) is null.
[[nodiscard]] Result<agent::LineSink> parse_sink(std::string_view text);

/// "rendezvous=197,stopped=0" and the preset kubeflow, from left to right.
[[nodiscard]] Result<std::array<std::optional<int>, 5>> parse_exit_code_map(std::string_view text);

}  // namespace cxxrun::cli
