// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/eventfd.h>

#include <cassert>
#include <cstdint>
#include <future>
#include <thread>

#include "base/event_loop.hpp"
#include "base/unique_fd.hpp"
#include "store/server.hpp"
#include "worker/ranks.hpp"

namespace cxxrun::test {

/// A worker store of one test, served on a thread of its own.
class StoreThread {
 public:
  StoreThread() : stop_(::eventfd(0, EFD_CLOEXEC)) {
    std::promise<std::uint16_t> port;
    auto port_read = port.get_future();
    thread_ = std::thread([this, &port] {
      EventLoop loop;
      auto server = store::Server::listen(loop, {}, [](const std::string&) {});
      assert(server);
      (*server)->admit({});
      const auto stop = loop.watch(stop_.get(), EPOLLIN, [&](std::uint32_t) { loop.stop(); });
      port.set_value((*server)->port());
      loop.run();
    });
    port_ = port_read.get();
  }
  ~StoreThread() {
    ::eventfd_write(stop_.get(), 1);
    thread_.join();
  }

  /// What the environment of that rank would say.
  [[nodiscard]] worker::Ranks ranks(int rank, int world_size) const {
    worker::Ranks ranks;
    ranks.rank = rank;
    ranks.world_size = world_size;
    ranks.group_rank = rank;
    ranks.group_world_size = world_size;
    ranks.master_addr = "127.0.0.1";
    ranks.master_port = port_;
    return ranks;
  }

 private:
  UniqueFd stop_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

/// Runs `work(rank)` for each rank on a thread of its own, and waits for all.
template <class Work>
void on_all_ranks(int world_size, Work work) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank) threads.emplace_back([&work, rank] { work(rank); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace cxxrun::test
