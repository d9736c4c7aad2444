// SPDX-License-Identifier: Apache-2.0
// Parser and core of the worker store.
#include "tests/fuzz/target.hpp"
#include "tests/support/store_fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  cxxrun::store::test::feed_hostile({reinterpret_cast<const char*>(data), size});
  return 0;
}

std::vector<std::string> cxxrun::fuzz::seeds() {
  using namespace cxxrun::store::test;
  const std::string keys = set("a", "1") + add("a", 2) + get("a") + compare_set("a", "3", "4") +
                           append("a", "5") + check({"a", "b"}) + delete_key("a");
  const std::string waits = wait({"a", "b"}) + cancel() + barrier("c", 2) + barrier("c", 2) + set("b", "x");
  const std::string many =
      multi_set({{"a", "1"}, {"b", "2"}}) + multi_get({"a", "b"}) + list_keys() + num_keys();
  const std::string queues = push("q", "1") + queue_len("q") + pop("q") + pop("q") + ping(7);
  std::vector<std::string> out{std::string(1, '\x0f') + validate() + keys};
  for (const std::string& body : {keys, waits, many, queues}) out.push_back(std::string(1, '\xbf') + body);
  return out;
}
