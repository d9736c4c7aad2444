// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/config.hpp"
#include "base/result.hpp"

namespace cxxrun::cli {

/// Every key that is known, for messages and for the test of the documentation.
[[nodiscard]] std::vector<std::string_view> rdzv_conf_keys();

/// "k=v,k=v": split at commas, each at its first =, blanks dropped; quotes around the whole are dropped
/// (torchrun's own tests pass them literally). Errors: an empty key, no =, an empty value.
Result<std::vector<std::pair<std::string, std::string>>> split_rdzv_conf(std::string_view text);

/// --rdzv-conf into its places in `config`; `token_file` gets that key's value. A key that we do not know
/// gives a note with the nearest one. The last of a repeated key counts. Errors name the key, its value and
/// what it should be.
Result<> apply_rdzv_conf(std::string_view text, agent::Config& config, std::string& token_file,
                         std::vector<std::string>& notes);

}  // namespace cxxrun::cli
