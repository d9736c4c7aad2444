// SPDX-License-Identifier: Apache-2.0
// libFuzzer entry: bytes of a hostile peer through frames, messages and the coordinator.
//   clang++ -std=c++20 -fsanitize=fuzzer,address -I. tests/fuzz/rendezvous_fuzz.cpp <sources of base, net,
//   rendezvous> -ldl
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/limits.hpp"
#include "net/frame.hpp"
#include "rendezvous_feed.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  cxxrun::fuzz::feed_coordinator({reinterpret_cast<const char*>(data), size});
  return 0;
}
