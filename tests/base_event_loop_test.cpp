// SPDX-License-Identifier: Apache-2.0
#include "base/event_loop.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <optional>
#include <vector>

using namespace cxxrun;

namespace {
UniqueFd ready_fd() { return UniqueFd(::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK)); }
}  // namespace

TEST_CASE("loop: timers fire in order of time, then of making", "[base]") {
  EventLoop loop;
  std::vector<int> order;
  const Time t0 = EventLoop::now();
  auto c = loop.at(t0 + 2ms, [&] {
    order.push_back(3);
    loop.stop();
  });
  auto a = loop.at(t0 + 1ms, [&] { order.push_back(1); });
  auto b = loop.at(t0 + 1ms, [&] { order.push_back(2); });
  loop.run();
  CHECK(order == std::vector{1, 2, 3});
  CHECK_FALSE(a);
}

TEST_CASE("loop: a cancelled timer never fires", "[base]") {
  EventLoop loop;
  bool fired = false;
  auto gone = loop.after(0ms, [&] { fired = true; });
  gone.reset();
  auto end = loop.after(1ms, [&] { loop.stop(); });
  loop.run();
  CHECK_FALSE(fired);
}

TEST_CASE("loop: a handler may end its own watch and every other one", "[base]") {
  EventLoop loop;
  const UniqueFd one = ready_fd();
  const UniqueFd two = ready_fd();
  int calls = 0;
  EventLoop::Watch first, second;
  const auto handler = [&](std::uint32_t) {
    ++calls;
    first.reset();
    second.reset();  // also ready in this very turn: must not be called any more
  };
  first = loop.watch(one.get(), EPOLLIN, handler);
  second = loop.watch(two.get(), EPOLLIN, handler);
  CHECK(loop.run_once(EventLoop::now()));
  CHECK_FALSE(loop.run_once(EventLoop::now() + 1ms));
  CHECK(calls == 1);
}

TEST_CASE("loop: a slot that is used again does not get the old watch's event", "[base]") {
  EventLoop loop;
  const UniqueFd one = ready_fd();
  const UniqueFd two = ready_fd();
  const UniqueFd quiet(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  int wrong = 0;
  EventLoop::Watch first, second, third;
  const auto handler = [&](std::uint32_t) {
    first.reset();
    second.reset();
    third = loop.watch(quiet.get(), EPOLLIN, [&](std::uint32_t) { ++wrong; });
  };
  first = loop.watch(one.get(), EPOLLIN, handler);
  second = loop.watch(two.get(), EPOLLIN, handler);
  loop.run_once(EventLoop::now());
  loop.run_once(EventLoop::now() + 1ms);
  CHECK(wrong == 0);
}

TEST_CASE("loop: no event and no deadline means no wake-up", "[base]") {
  EventLoop loop;
  const Time limit = EventLoop::now() + 5ms;
  CHECK_FALSE(loop.run_once(limit));
  CHECK(EventLoop::now() >= limit);
}

TEST_CASE("loop: posted work runs on the next turn, once", "[base]") {
  EventLoop loop;
  int runs = 0;
  loop.post([&] {
    ++runs;
    loop.post([&] {
      ++runs;
      loop.stop();
    });
  });
  CHECK(loop.run_once(EventLoop::now()));
  CHECK(runs == 1);
  loop.run();
  CHECK(runs == 2);
}
