// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdlib>
#include <string>

#include "worker/heartbeat.hpp"

using namespace cxxrun;

TEST_CASE("heartbeat: bytes in the pipe that the launcher named, and never a wait") {
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_NONBLOCK | O_CLOEXEC) == 0);
  ::setenv("CXXRUN_HEARTBEAT_FD", std::to_string(ends[1]).c_str(), 1);  // read once
  errno = 7;
  worker::beat();
  worker::rest();
  CHECK(errno == 7);
  std::array<char, 8> bytes{};
  CHECK(::read(ends[0], bytes.data(), bytes.size()) == 2);
  CHECK(std::string(bytes.data(), 2) == ".-");
  for (int i = 0; i < 70'000; ++i) worker::beat();  // more than a pipe holds
  CHECK(errno == 7);
}
