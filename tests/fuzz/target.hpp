// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

/// What a fuzz target is made of. libFuzzer finds the first; loop.cpp, which needs no clang, uses both.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace cxxrun::fuzz {

/// Valid inputs that mutations start from.
std::vector<std::string> seeds();

}  // namespace cxxrun::fuzz
