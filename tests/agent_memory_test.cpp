// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "agent/memory_cgroup.hpp"
#include "tests/support/file_tree.hpp"

using namespace cxxrun::agent;

namespace {

/// A small "/" of its own.
using Tree = cxxrun::test::FileTree;

}  // namespace

TEST_CASE("memory: version 2, in a container with a view of its own", "[agent]") {
  const Tree tree;
  tree.write("/proc/self/cgroup", "0::/\n");
  tree.write("/sys/fs/cgroup/memory.events", "low 0\nhigh 0\nmax 71\noom 3\noom_kill 2\noom_group_kill 1\n");
  tree.write("/sys/fs/cgroup/memory.max", "536870912\n");
  tree.write("/sys/fs/cgroup/memory.current", "535822336\n");
  tree.write(
      "/sys/fs/cgroup/memory.pressure",
      "some avg10=40.00 avg60=1.00 avg300=0.00 total=1\nfull avg10=12.34 avg60=1.00 avg300=0.00 total=1\n");
  const auto group = MemoryCgroup::find(tree.root());
  REQUIRE(group);
  CHECK(group->name() == "/");
  CHECK(group->counts() == MemoryCounts{2, 1});
  CHECK(group->limit() == 536870912);
  CHECK(group->load(536870912).used == 535822336);
  CHECK(group->load(536870912).pressure == 1234);
  CHECK(group->load(1 << 30).pressure == 0);  // far from the limit nobody asks
  tree.write("/sys/fs/cgroup/memory.stat", "anon 1\ninactive_file 535822000\nactive_file 7\n");
  CHECK(group->load(536870912).used == 336);
}

TEST_CASE("memory: version 2, the least limit above counts, and none is none", "[agent]") {
  const Tree tree;
  tree.write("/proc/self/cgroup", "0::/pod/job\n");
  tree.write("/sys/fs/cgroup/pod/job/memory.events", "oom_kill 0\n");
  tree.write("/sys/fs/cgroup/pod/job/memory.max", "max\n");
  auto group = MemoryCgroup::find(tree.root());
  REQUIRE(group);
  CHECK(group->limit() == 0);
  tree.write("/sys/fs/cgroup/pod/memory.max", "1048576\n");
  CHECK(group->limit() == 1048576);
  CHECK(group->counts() == MemoryCounts{0, 0});
}

TEST_CASE("memory: version 1, also where the path is the host's", "[agent]") {
  const Tree tree;
  tree.write("/proc/self/cgroup", "9:name=systemd:/x\n4:cpu,memory:/docker/abc\n0::/\n");
  tree.write("/sys/fs/cgroup/memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n");
  tree.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  tree.write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "4096\n");
  const auto group = MemoryCgroup::find(tree.root());
  REQUIRE(group);
  CHECK(group->name() == "/docker/abc");
  CHECK(group->counts() == MemoryCounts{5, 0});
  CHECK(group->limit() == 0);
  CHECK(group->load(0).used == 4096);
}

TEST_CASE("memory: nothing known is no evidence", "[agent]") {
  const Tree tree;
  CHECK_FALSE(MemoryCgroup::find(tree.root()));
  tree.write("/proc/self/cgroup", "garbage\n:\n4:memory:/a\n0::/\n");
  CHECK_FALSE(MemoryCgroup::find(tree.root()));
  tree.write("/sys/fs/cgroup/memory.events", "low 0\noom_kill\noom_kill_x 3\noom_kill many\n");
  CHECK_FALSE(MemoryCgroup::find(tree.root()));
}

TEST_CASE("memory: the sentence", "[agent]") {
  struct Row {
    MemoryCounts before, after;
    std::uint64_t limit;
    bool exact, killed;
    std::string text;
  };
  const Row rows[] = {
      {{3, 0}, {3, 0}, 1 << 20, true, true, ""},
      {{3, 0}, {2, 0}, 1 << 20, true, true, ""},
      {{3, 0},
       {4, 0},
       512 << 20,
       true,
       true,
       "out of memory: the cgroup /a counted 1 out-of-memory kill in that moment, limit 512 MiB"},
      {{0, 0},
       {2, 1},
       3ull << 29,
       false,
       true,
       "perhaps out of memory: the cgroup /a counted 2 out-of-memory kills since the workers started, limit "
       "1.5 GiB"},
      {{0, 0},
       {1, 0},
       0,
       true,
       false,
       "the cgroup /a counted 1 out-of-memory kill in that moment, without a limit of its own: the machine "
       "had "
       "no more; perhaps a helper process of this worker"}};
  for (const auto& row : rows)
    CHECK(memory_evidence("/a", row.before, row.after, row.limit, row.exact, row.killed) == row.text);
  CHECK(bytes_text(0) == "0 bytes");
  CHECK(bytes_text(2048) == "2 KiB");
}
