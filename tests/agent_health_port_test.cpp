// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "agent/health_port.hpp"

using namespace cxxrun;
using namespace cxxrun::agent;
using Catch::Contains;
using Catch::EndsWith;
using Catch::StartsWith;

namespace {

Health running() {
  Health out;
  out.state = "running";
  out.round = 3;
  out.workers = 4;
  return out;
}

}  // namespace

TEST_CASE("health: who answers is alive", "[agent]") {
  const std::string answer = health_answer("GET / HTTP/1.1\r\nHost: x", running());
  CHECK_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n") && Contains("Content-Type: application/json"));
  CHECK_THAT(answer, EndsWith("\r\n\r\n{\"state\":\"running\",\"round\":3,\"workers\":4,\"hanging\":0,"
                              "\"last_progress_seconds\":null}\n"));
}

TEST_CASE("health: a worker that hangs, and progress", "[agent]") {
  Health health = running();
  health.hanging = 1;
  health.progress_age = 1500ms;
  health.round = -1;
  const std::string answer = health_answer("GET /healthz HTTP/1.1", health);
  CHECK_THAT(answer, StartsWith("HTTP/1.1 503 "));
  CHECK_THAT(answer, Contains("\"round\":null") && Contains("\"hanging\":1") &&
                         Contains("\"last_progress_seconds\":1.5"));
}

TEST_CASE("health: other requests", "[agent]") {
  CHECK_THAT(health_answer("HEAD / HTTP/1.1", running()),
             StartsWith("HTTP/1.1 200 ") && EndsWith("\r\n\r\n"));
  CHECK_THAT(health_answer("POST / HTTP/1.1", running()), StartsWith("HTTP/1.1 405 "));
  CHECK_THAT(health_answer("", running()), StartsWith("HTTP/1.1 400 "));
  CHECK_THAT(health_answer("GET", running()), StartsWith("HTTP/1.1 400 "));
  CHECK_THAT(health_answer("\x16\x03\x01", running()), StartsWith("HTTP/1.1 400 "));
}
