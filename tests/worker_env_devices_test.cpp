// SPDX-License-Identifier: Apache-2.0
#include "worker_env/devices.hpp"

#include <catch2/catch.hpp>

using namespace cxxrun;
using namespace cxxrun::worker_env;

namespace {

using Words = std::vector<std::string>;

InheritedMasks cuda(const char* mask) { return {mask, {}, {}}; }

/// The entries, or the error.
Words visible(const InheritedMasks& masks, int usable, const Words& chosen = {}) {
  const auto made = visible_devices(masks, usable, chosen);
  return made ? made->entries : Words{made.error().message};
}

/// "A=1 B=1" by local rank, or the error.
Words variables(const InheritedMasks& masks, int usable, const Words& chosen, bool one_each, int workers) {
  const auto seen = visible_devices(masks, usable, chosen);
  REQUIRE(seen);
  const auto made = mask_variables(masks, *seen, !chosen.empty(), one_each, workers);
  if (!made) return {made.error().message};
  Words out;
  for (const auto& worker : *made) {
    std::string text;
    for (const auto& [name, value] : worker) text += (text.empty() ? "" : " ") + name + "=" + value;
    out.push_back(text);
  }
  return out;
}

}  // namespace

TEST_CASE("devices: a mask as CUDA reads it", "[worker_env]") {
  const std::pair<const char*, Words> rows[] = {
      {"", {}},
      {"0,1", {"0", "1"}},
      {" 5 , 7 ", {"5", "7"}},
      {"0,-1,2", {"0"}},
      {"0,,2", {"0"}},
      {"NoDevFiles", {}},
      {"GPU-1b2c,MIG-GPU-1/2/0,MIG-9", {"GPU-1b2c", "MIG-GPU-1/2/0", "MIG-9"}},
      {"GPU-", {}},
      {"99999999999", {}},
  };
  for (const auto& [mask, want] : rows) {
    INFO(mask);
    CHECK(mask_entries(mask) == want);
  }
}

TEST_CASE("devices: what the workers see", "[worker_env]") {
  CHECK(visible({}, 3) == Words{"0", "1", "2"});
  CHECK(visible({}, 0).empty());
  CHECK(visible(cuda("5,7"), 0) == Words{"5", "7"});
  CHECK(visible(cuda(""), 4).empty());
  CHECK(visible({"5,7", "2", {}}, 0) == Words{"2"});              // HIP's counts, as for PyTorch
  CHECK(visible({"5,7", "", {}}, 0) == Words{"5", "7"});          // an empty one does not
  CHECK(visible({{}, {}, "GPU-a,GPU-b"}, 8) == Words{"0", "1"});  // below the numbers that HIP counts
  CHECK(visible({"1", {}, "4,5"}, 8) == Words{"1"});
}

TEST_CASE("devices: --gpus", "[worker_env]") {
  CHECK(visible({}, 8, {"2", "4", "7"}) == Words{"2", "4", "7"});
  CHECK(visible({}, 0, {"2", "GPU-1b"}) == Words{"2", "GPU-1b"});  // a machine that does not tell
  CHECK(visible({}, 4, {"2", "4"}) == Words{"there is no GPU 4 here: 4 GPUs, counted from 0"});
  CHECK(visible(cuda("2,4,GPU-1b"), 8, {"GPU-1b", "2"}) == Words{"GPU-1b", "2"});
  CHECK(visible(cuda("2,4"), 8, {"2", "3"}) ==
        Words{"3 is not among the devices of CUDA_VISIBLE_DEVICES=2,4"});
  CHECK(visible(cuda(""), 8, {"0"}) == Words{"0 is not among the devices of CUDA_VISIBLE_DEVICES="});
  CHECK(visible({{}, {}, "6,7"}, 8, {"2"}) ==
        Words{"2 is not among the devices of ROCR_VISIBLE_DEVICES=6,7"});
}

TEST_CASE("torchrun 24, 25: one device for each worker", "[worker_env]") {
  CHECK(variables(cuda("5, 7"), 0, {}, true, 2) == Words{"CUDA_VISIBLE_DEVICES=5", "CUDA_VISIBLE_DEVICES=7"});
  CHECK(variables(cuda("5"), 0, {}, true, 2) ==
        Words{"local rank 1 has no device: CUDA_VISIBLE_DEVICES=5 has 1 device for 2 workers"});
  CHECK(variables(cuda(""), 8, {}, true, 1) ==
        Words{"local rank 0 has no device: CUDA_VISIBLE_DEVICES= has 0 devices for 1 worker"});
  CHECK(variables({}, 0, {}, true, 2) == Words{"CUDA_VISIBLE_DEVICES=0", "CUDA_VISIBLE_DEVICES=1"});
  CHECK(variables({}, 1, {}, true, 2) ==
        Words{"local rank 1 has no device: this machine has 1 device for 2 workers"});
  CHECK(variables(cuda("MIG-a,MIG-b"), 1, {}, true, 2) ==
        Words{"CUDA_VISIBLE_DEVICES=MIG-a", "CUDA_VISIBLE_DEVICES=MIG-b"});
  CHECK(variables({"0", "5,7", {}}, 0, {}, true, 2) == Words{"HIP_VISIBLE_DEVICES=5 CUDA_VISIBLE_DEVICES=5",
                                                             "HIP_VISIBLE_DEVICES=7 CUDA_VISIBLE_DEVICES=7"});
  CHECK(variables({{}, {}, "3,5"}, 8, {}, true, 2) ==
        Words{"CUDA_VISIBLE_DEVICES=0", "CUDA_VISIBLE_DEVICES=1"});
  CHECK(variables({}, 8, {"7", "2"}, true, 2) == Words{"CUDA_VISIBLE_DEVICES=7", "CUDA_VISIBLE_DEVICES=2"});
  CHECK(variables({}, 8, {"7"}, true, 2) ==
        Words{"local rank 1 has no device: --gpus 7 has 1 device for 2 workers"});
}

TEST_CASE("devices: without --virtual-local-rank all workers see all of --gpus, or what we see",
          "[worker_env]") {
  CHECK(variables({}, 8, {"2", "4"}, false, 2) ==
        Words{"CUDA_VISIBLE_DEVICES=2,4", "CUDA_VISIBLE_DEVICES=2,4"});
  CHECK(variables({{}, "0,2,4", {}}, 8, {"2", "4"}, false, 1) ==
        Words{"HIP_VISIBLE_DEVICES=2,4 CUDA_VISIBLE_DEVICES=2,4"});
  CHECK(variables(cuda("1,2"), 8, {}, false, 2) == Words{"", ""});
}

TEST_CASE("devices: which of the machine's GPUs they are", "[worker_env]") {
  const std::vector<Gpu> gpus{{"0000:01:00.0", "GPU-aa11", 0, false},
                              {"0000:02:00.0", "GPU-aa22", 1, true},
                              {"0000:03:00.0", "GPU-bb33", -1, true}};
  const auto found = [&](const InheritedMasks& masks, int usable = 2) {
    const auto made = locate(masks, *visible_devices(masks, usable, {}), gpus);
    if (!made) return Words{made.error().message};
    Words out;
    for (const auto& device : *made)
      out.push_back(device.name + " " + std::to_string(device.node) + (device.guessed ? "?" : ""));
    return out;
  };
  // Numbers count those of this container.
  CHECK(found({}) == Words{"GPU 0 (0000:02:00.0) 1", "GPU 1 (0000:03:00.0) 0?"});
  CHECK(found(cuda("GPU-bb")) == Words{"GPU-bb (0000:03:00.0) 0?"});
  CHECK(found(cuda("GPU-aa11")) ==
        Words{"device GPU-aa11 of CUDA_VISIBLE_DEVICES=GPU-aa11 is not among the 2 GPUs here"});
  CHECK(found({{}, {}, "1"}) == Words{"GPU 0 (0000:03:00.0) 0?"});
  CHECK(found({"0", {}, "GPU-bb33,0"}) == Words{"GPU 0 (0000:03:00.0) 0?"});
}
