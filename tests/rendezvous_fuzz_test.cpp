// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <random>
#include <string>

#include "tests/fuzz/rendezvous_feed.hpp"

using namespace cxxrun;

TEST_CASE("fuzz: streams of agents' frames, some broken, never crash the coordinator", "[rendezvous]") {
  using namespace rendezvous::wire;
  std::mt19937 engine(23);
  const auto roll = [&](int sides) { return static_cast<int>(engine() % static_cast<unsigned>(sides)); };
  const auto byte = [&] { return static_cast<char>(roll(256)); };
  const auto place = [&](const std::string& text) {
    return static_cast<std::size_t>(roll(static_cast<int>(text.size())));
  };
  for (int run = 0; run < 1'500; ++run) {
    std::string stream;
    for (int frames = roll(40); frames > 0; --frames) {
      Hello hello;
      hello.run_id = roll(8) == 0 ? "x" : "t";
      hello.incarnation = std::to_string(roll(4));
      hello.nnodes_max = 2;
      hello.max_restarts = 2;
      hello.ready = roll(4) != 0;
      hello.running = roll(6) == 0;
      hello.round = roll(5) - 1;
      hello.epoch = roll(3);
      Failure failure;
      failure.round = roll(4);
      failure.age = std::chrono::milliseconds(roll(100'000) - 20'000);
      const Message all[] = {hello,
                             hello,
                             Ready{roll(4), 1},
                             Ready{9, 1},
                             rendezvous::wire::Failed{failure},
                             Done{roll(4)},
                             Leave{static_cast<rendezvous::Leaving>(roll(3)), "x"},
                             Fence{roll(3), "f", "blob"},
                             Suspended{true},
                             GoingAway{"x"},
                             KeepAlive{}};
      std::string body = encode(all[roll(11)]);
      if (roll(20) == 0) body[place(body)] = byte();
      stream += net::frame(body);
    }
    if (roll(4) == 0 && !stream.empty()) stream[place(stream)] = byte();
    fuzz::feed_coordinator(stream);
  }
  SUCCEED("no crash");
}
