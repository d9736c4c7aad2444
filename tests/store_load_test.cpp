// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <string>
#include <thread>
#include <vector>

#include "store/client.hpp"
#include "tests/support/store_driver.hpp"

using namespace cxxrun;
using namespace cxxrun::store;
using namespace cxxrun::store::test;

namespace {

/// Runs `work(number)` on so many threads, and waits for all.
template <class Work>
void at_once(int threads, Work work) {
  std::vector<std::thread> all;
  for (int i = 0; i < threads; ++i) all.emplace_back([&work, i] { work(i); });
  for (auto& thread : all) thread.join();
}

}  // namespace

TEST_CASE("B20: a counter under load; a barrier of all") {
  ServedStore store;
  std::atomic<int> right = 0;
  at_once(16, [&](int number) {
    auto client = Client::connect("localhost", store.port());
    if (!client) return;
    for (int n = 0; n < 1000; ++n) (void)client->add("counter", 1);
    if (number == 0) (void)client->add("counter", 1);
    if (client->barrier("all", 16, kPatience) && *client->get("counter") == "16001") ++right;
  });
  CHECK(right == 16);
}

TEST_CASE("B21: everybody sets and gets its own keys, then reads the others'") {
  ServedStore store;
  std::atomic<int> right = 0;
  at_once(16, [&](int number) {
    auto client = Client::connect("127.0.0.1", store.port());
    if (!client) return;
    const auto key = [](int owner, int n) { return std::to_string(owner) + "/" + std::to_string(n); };
    bool good = true;
    for (int n = 0; n < 1000; ++n) {
      const std::string value = "value of " + key(number, n);
      good = good && client->set(key(number, n), value) && *client->get(key(number, n)) == value;
    }
    good = good && client->barrier("all", 16, kPatience);
    for (int owner = 0; owner < 16; ++owner) {
      for (int n = 0; n < 1000; n += 100)
        good = good && *client->get(key(owner, n)) == "value of " + key(owner, n);
    }
    right += good ? 1 : 0;
  });
  CHECK(right == 16);
}

TEST_CASE("C9: 32 clients race for a lock, one has it") {
  ServedStore store;
  std::atomic<int> owners = 0;
  std::atomic<int> agreed = 0;
  at_once(32, [&](int number) {
    auto client = Client::connect("127.0.0.1", store.port());
    if (!client || !client->barrier("start", 32, kPatience)) return;
    const std::string own = std::to_string(number);
    const auto seen = client->compare_set("lock", "", own);
    if (seen && *seen == own) ++owners;
    if (seen && *seen == *client->get("lock")) ++agreed;
  });
  CHECK(owners == 1);
  CHECK(agreed == 32);
}

TEST_CASE("H17: 5,000 connections at once") {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  constexpr int kThreads = 8;
  const auto room =
      static_cast<int>(std::min<rlim_t>(limit.rlim_cur - 200, 20'000)) / 2;  // both ends are ours
  const int each = std::min(5'000, room) / kThreads;
  if (each * kThreads < 5'000)
    WARN("only " << each * kThreads << " connections: the hard limit of descriptors is " << limit.rlim_max);
  ServedStore store;
  std::atomic<int> right = 0;
  at_once(kThreads, [&](int number) {
    std::vector<Socket> sockets;
    for (int i = 0; i < each; ++i) {
      sockets.emplace_back(store.port());
      const std::string key = std::to_string(number) + "." + std::to_string(i);
      if (!sockets.back() || !sockets.back().send(validate() + ping(1) + set(key, "v" + key) + get(key)))
        return;
    }
    for (int i = 0; i < each; ++i) {
      const std::string value = str("v" + std::to_string(number) + "." + std::to_string(i));
      right += sockets[static_cast<std::size_t>(i)].read(4 + value.size()) == u32(1) + value ? 1 : 0;
    }
  });
  CHECK(right == each * kThreads);
}
