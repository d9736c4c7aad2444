// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace cxxrun::cli {

/// Ready-made texts: printed before anything else is set up. A test compares kHelp with what the option table
/// says.
extern const std::string_view kHelp;
extern const std::string_view kVersion;

}  // namespace cxxrun::cli
