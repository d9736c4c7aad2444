// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace cxxrun::agent {

/// A worker's arguments: ${local_rank} and $local_rank become the local rank, as torchrun has it. Every other
/// $ stays as it is (torchrun also turns $$ into $, by accident).
std::vector<std::string> with_local_rank(const std::vector<std::string>& arguments, int local_rank);

}  // namespace cxxrun::agent
