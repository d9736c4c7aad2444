// SPDX-License-Identifier: Apache-2.0
// What a worker wrote about its failure.
#include "agent/error_file.hpp"

#include "tests/fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  (void)cxxrun::agent::parse_error_file({reinterpret_cast<const char*>(data), size});
  return 0;
}

std::vector<std::string> cxxrun::fuzz::seeds() {
  return {
      R"({"message": {"message": "ValueError: bad", "extraInfo": {"py_callstack": "Traceback", "timestamp": "1700000000"}}})",
      R"({"message": "SIGSEGV", "timestamp": 1700000000.5})",
      R"({"message": {"message": [1, {"a": null}], "extraInfo": {"timestamp": 1e300}}})",
      R"({"message": {"message": "caf\u00e9 \ud83d\ude00", "extraInfo": []}})",
      R"({"message": {"message": )" + std::string(20'000, '[') + std::string(20'000, ']') + "}}"};
}
