// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <csignal>

#include "agent/hung_process.hpp"
#include "tests/support/file_tree.hpp"

using namespace cxxrun::agent;

TEST_CASE("hung process: which signal dumps its stacks", "[agent]") {
  const struct {
    const char* status;
    int signo;
  } rows[] = {
      {"Name:\tx\nSigCgt:\t0000000000000000\nCapInh:\t0\n", SIGQUIT},
      {"SigCgt:\t0000000000000020\n", SIGABRT},  // SIGABRT is 6: bit 5
      {"SigCgt:\t0000000000000004\n", SIGQUIT},  // SIGQUIT is 3: bit 2
      {"SigCgt:\t0000000000000024\n", SIGQUIT},
      {"", SIGQUIT},
      {"SigCgt:\tgarbage", SIGQUIT},
  };
  for (const auto& row : rows) {
    CAPTURE(row.status);
    CHECK(dump_signal_of(row.status) == row.signo);
  }
}

TEST_CASE("hung process: where its threads are", "[agent]") {
  cxxrun::test::FileTree tree;
  const std::string task = "/proc/70/task/";
  tree.write(task + "71/stat", "71 (pt (x) y) D 1 70 70 0");
  tree.write(task + "71/wchan", "nfs_wait");
  tree.write(task + "70/stat", "70 (python3) S 1 70 70 0");
  tree.write(task + "70/wchan", "0");
  CHECK(threads_text(70, tree.root()) == "threads: python3 S, pt (x) y D nfs_wait");
  for (int id = 72; id < 80; ++id) tree.write(task + std::to_string(id) + "/stat", "1 (t) R");
  CHECK(threads_text(70, tree.root()) == "threads: python3 S, pt (x) y D nfs_wait, t R, t R and 6 more");
  CHECK(threads_text(9, tree.root()).empty());
}
