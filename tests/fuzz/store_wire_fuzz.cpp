// SPDX-License-Identifier: Apache-2.0
// A libFuzzer target: parser and core of the store. Build with clang: -fsanitize=fuzzer,address,undefined.
#include <cstddef>
#include <cstdint>

#include "tests/support/store_fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  cxxrun::store::test::feed_hostile({reinterpret_cast<const char*>(data), size});
  return 0;
}
