// SPDX-License-Identifier: Apache-2.0
#include "cli/host.hpp"

#include <sched.h>
#include <unistd.h>

#include "cli/numbers.hpp"
#include "cli_support.hpp"

using namespace cxxrun::cli;
using namespace cxxrun::cli::test;

namespace {

int affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  REQUIRE(::sched_getaffinity(0, sizeof set, &set) == 0);
  return CPU_COUNT(&set);
}

}  // namespace

TEST_CASE("CPU quota: v2, the smallest of the group and those above it") {
  const TemporaryFolder root;
  CHECK_FALSE(cpu_quota(root.path()));  // no /proc/self/cgroup at all
  root.write("proc/self/cgroup", "0::/a/b\n");
  CHECK_FALSE(cpu_quota(root.path()));  // a group that is not mounted here
  root.write("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  CHECK_FALSE(cpu_quota(root.path()));
  root.write("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  CHECK(cpu_quota(root.path()) == std::optional(1.5));
  root.write("sys/fs/cgroup/a/b/cpu.max", "50000 100000\n");
  CHECK(cpu_quota(root.path()) == std::optional(0.5));
  root.write("sys/fs/cgroup/cpu.max", "25000 100000\n");
  CHECK(cpu_quota(root.path()) == std::optional(0.25));
}

TEST_CASE("CPU quota: v2, a container that sees itself as the root") {
  const TemporaryFolder root;
  root.write("proc/self/cgroup", "0::/\n");
  root.write("sys/fs/cgroup/cpu.max", "300000 100000\n");
  CHECK(cpu_quota(root.path()) == std::optional(3.0));
}

TEST_CASE("CPU quota: v1") {
  const TemporaryFolder root;
  root.write("proc/self/cgroup", "12:cpuset:/x\n4:cpu,cpuacct:/jobs/7\n3:memory:/y\n1:name=systemd:/\n");
  root.write("sys/fs/cgroup/cpu/jobs/7/cpu.cfs_quota_us", "-1\n");
  root.write("sys/fs/cgroup/cpu/jobs/7/cpu.cfs_period_us", "100000\n");
  CHECK_FALSE(cpu_quota(root.path()));
  root.write("sys/fs/cgroup/cpu/jobs/cpu.cfs_quota_us", "250000\n");
  root.write("sys/fs/cgroup/cpu/jobs/cpu.cfs_period_us", "100000\n");
  CHECK(cpu_quota(root.path()) == std::optional(2.5));
  root.write("sys/fs/cgroup/cpu/jobs/7/cpu.cfs_quota_us", "120000\n");
  CHECK(cpu_quota(root.path()) == std::optional(1.2));
}

TEST_CASE("CPU quota: hybrid, v1 has the CPU controller; cpuset and cpuacct alone are not it") {
  const TemporaryFolder root;
  root.write("proc/self/cgroup", "5:cpuset:/\n4:cpuacct:/q\n3:cpu:/q\n0::/u\n");
  root.write("sys/fs/cgroup/cpu/q/cpu.cfs_quota_us", "200000\n");
  root.write("sys/fs/cgroup/cpu/q/cpu.cfs_period_us", "100000\n");
  CHECK(cpu_quota(root.path()) == std::optional(2.0));
  root.write("proc/self/cgroup", "5:cpuset:/q\n4:cpuacct:/q\n0::/u\n");
  CHECK_FALSE(cpu_quota(root.path()));
}

TEST_CASE("CPU quota: files with garbage are no quota") {
  const TemporaryFolder root;
  for (const char* text : {"", "\n", "max", "50000", "50000 0\n", "x y\n", "-5 100000\n", "50000  100000\n",
                           "99999999999999999999 100000\n"}) {
    INFO(text);
    root.write("proc/self/cgroup", "0::/\n");
    root.write("sys/fs/cgroup/cpu.max", text);
    CHECK_FALSE(cpu_quota(root.path()));
  }
  for (const char* text : {"", "\n", "0\n", "0:\n", ":::::\n", "nonsense"}) {
    root.write("proc/self/cgroup", text);
    CHECK_NOTHROW(cpu_quota(root.path()));
  }
}

TEST_CASE("usable CPUs: affinity, and the quota rounded up, at least one") {
  const TemporaryFolder root;
  CHECK(usable_cpus(root.path()) == affinity());
  root.write("proc/self/cgroup", "0::/\n");
  root.write("sys/fs/cgroup/cpu.max", "1000 100000\n");
  CHECK(usable_cpus(root.path()) == 1);
  root.write("sys/fs/cgroup/cpu.max", "110000 100000\n");
  CHECK(usable_cpus(root.path()) == std::min(2, affinity()));
  root.write("sys/fs/cgroup/cpu.max", "0 100000\n");
  CHECK(usable_cpus(root.path()) == 1);
  root.write("sys/fs/cgroup/cpu.max", "99999900000 100000\n");
  CHECK(usable_cpus(root.path()) == affinity());
}

TEST_CASE("torchrun 11: GPUs by CUDA_VISIBLE_DEVICES") {
  const struct {
    const char* mask;
    int count;
  } rows[] = {
      {"", 0},
      {"0", 1},
      {"0,1,2", 3},
      {"5,7", 2},
      {" 0, 1", 2},
      {"-1", 0},
      {"0,-1,1", 1},
      {"0,1,-1,2", 2},
      {"0,,1", 1},
      {"0,", 1},
      {",0", 0},
      {"NoDevFiles", 0},
      {"GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", 1},
      {"GPU-1,GPU-2", 2},
      {"MIG-GPU-8932f937/1/0,MIG-9a", 2},
  };
  const TemporaryFolder root;
  for (int i = 0; i < 4; ++i)
    root.write("proc/driver/nvidia/gpus/0000:0" + std::to_string(i) + ":00.0/information", "");
  root.write("dev/nvidiactl", "");
  for (const auto& row : rows) {
    INFO(row.mask);
    CHECK(usable_gpus(lookup({{"CUDA_VISIBLE_DEVICES", row.mask}}), root.path()) == row.count);
  }
  CHECK(usable_gpus(lookup({}), root.path()) == 4);
}

TEST_CASE("GPUs: AMD's masks") {
  const TemporaryFolder root;
  CHECK(usable_gpus(lookup({{"HIP_VISIBLE_DEVICES", "1,3"}, {"CUDA_VISIBLE_DEVICES", "0"}}), root.path()) ==
        2);
  CHECK(usable_gpus(lookup({{"HIP_VISIBLE_DEVICES", ""}, {"CUDA_VISIBLE_DEVICES", "0"}}), root.path()) == 1);
  CHECK(usable_gpus(lookup({{"ROCR_VISIBLE_DEVICES", "GPU-1,GPU-2,GPU-3"}}), root.path()) == 3);
}

TEST_CASE("GPUs: none without a driver, or in a container that was given none") {
  const TemporaryFolder root;
  CHECK(usable_gpus(lookup({}), root.path()) == 0);
  root.write("proc/driver/nvidia/gpus/0000:01:00.0/information", "Device Minor: \t 0\n");
  CHECK(usable_gpus(lookup({}), root.path()) == 0);
}

TEST_CASE("small files are read whole, others not at all or cut") {
  const TemporaryFolder root;
  root.write("small", std::string("a\0b\n", 4));
  CHECK(read_text(root.path() + "/small") == std::optional(std::string("a\0b\n", 4)));
  root.write("large", std::string(1 << 20, 'x'));
  CHECK_FALSE(read_text(root.path() + "/large"));
  CHECK_FALSE(read_text(root.path() + "/none"));
  CHECK_FALSE(read_text(root.path()));
}

TEST_CASE("numbers: digits only, whole, in range") {
  CHECK(whole_number("0") == std::optional(0L));
  CHECK(whole_number("007") == std::optional(7L));
  for (const char* bad : {"", "-1", "+1", " 1", "1 ", "1.0", "0x1", "1_000", "99999999999999999999"})
    CHECK_FALSE(whole_number(bad));
  CHECK(seconds_number("0.5") == std::optional(0.5));
  for (const char* bad : {"", "-1", "+1", "inf", "nan", "1s", " 1", "1e999"})
    CHECK_FALSE(seconds_number(bad));
}

TEST_CASE("configuration files: missing is fine, unreadable is said") {
  const TemporaryFolder root;
  CHECK_FALSE(read_config_file(root.path() + "/none"));
  CHECK_FALSE(read_config_file(root.path() + "/none/none"));
  root.write("file", "role = r\n");
  CHECK_FALSE(read_config_file(root.path() + "/file/none"));
  const auto good = read_config_file(root.path() + "/file");
  REQUIRE(good);
  CHECK(good->content == "role = r\n");
  CHECK(good->problem.empty());
  root.write("folder/x", "");
  CHECK(read_config_file(root.path() + "/folder")->problem == "is a directory, not a file");
  root.write("long", std::string(65'537, '#'));
  CHECK(read_config_file(root.path() + "/long")->problem == "is larger than 65536 bytes");
  root.write("fits", std::string(65'536, '#'));
  CHECK(read_config_file(root.path() + "/fits")->problem.empty());
  CHECK(read_config_file("/dev/zero")->problem == "is larger than 65536 bytes");
  CHECK(read_config_file("/dev/null")->problem.empty());
  REQUIRE(::symlink("loop", (root.path() + "/loop").c_str()) == 0);
  CHECK(read_config_file(root.path() + "/loop")->problem ==
        "cannot be read: Too many levels of symbolic links");
}
