// SPDX-License-Identifier: Apache-2.0
#include "base/exit_status.hpp"

#include <catch2/catch.hpp>
#include <csignal>

#include "base/time.hpp"

using namespace cxxrun;

TEST_CASE("exit status: shell code and text", "[base]") {
  CHECK(shell_code(Exited{7}) == 7);
  CHECK(shell_code(Signaled{SIGKILL}) == 137);
  CHECK(text(ExitStatus{Exited{7}}) == "exit code 7");
  CHECK(text(ExitStatus{Signaled{SIGKILL}}) == "signal 9 (SIGKILL)");
  CHECK(text(ExitStatus{Signaled{SIGSEGV, true}}) == "signal 11 (SIGSEGV), core dumped");
  CHECK(succeeded(Exited{0}));
  CHECK_FALSE(succeeded(Exited{1}));
}

TEST_CASE("signal names go both ways", "[base]") {
  CHECK(signal_name(SIGTERM) == "SIGTERM");
  CHECK(signal_number("SIGTERM") == SIGTERM);
  CHECK(signal_number("USR1") == SIGUSR1);
  CHECK(signal_number("15") == SIGTERM);
  CHECK(signal_number("NOPE") == -1);
  CHECK(signal_number("") == -1);
}

TEST_CASE("durations read well", "[base]") {
  CHECK(text(Duration(850ms)) == "850 ms");
  CHECK(text(Duration(4200ms)) == "4.2 s");
  CHECK(text(Duration(412s)) == "412 s");
  CHECK(text(Duration(125min)) == "2 h 5 min");
}
