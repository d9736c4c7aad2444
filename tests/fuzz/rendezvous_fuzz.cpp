// SPDX-License-Identifier: Apache-2.0
// An agent's bytes through frames, messages and the coordinator.
#include "tests/fuzz/rendezvous_feed.hpp"

#include "tests/fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  cxxrun::fuzz::feed_coordinator({reinterpret_cast<const char*>(data), size});
  return 0;
}

std::vector<std::string> cxxrun::fuzz::seeds() {
  using namespace rendezvous::wire;
  Hello hello;
  hello.run_id = "t";
  hello.incarnation = "1";
  hello.nnodes_max = 2;
  hello.max_restarts = 2;
  hello.ready = true;
  Hello second = hello;
  second.incarnation = "2";
  Failure failure;
  failure.round = 1;
  const Message job[] = {hello,
                         second,
                         Ready{1, 1},
                         rendezvous::wire::Failed{failure},
                         Done{1},
                         KeepAlive{},
                         Fence{1, "f", "blob"},
                         Suspended{true},
                         Leave{rendezvous::Leaving{}, "x"}};
  std::vector<std::string> out;
  std::string all;
  for (const Message& message : job) {
    out.push_back(net::frame(encode(message)));
    all += out.back();
  }
  out.push_back(all);
  out.push_back(out[0] + out[1] + out[4] + out[4]);
  return out;
}
