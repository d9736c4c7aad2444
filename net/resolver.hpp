// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "net/address.hpp"

namespace cxxrun::net {

/// One look-up of a name: all families in one question. Numeric addresses and "localhost" need neither thread
/// nor network.
///
/// `done` is called once, on the loop: addresses in the order to try them, each once, or an error with the
/// resolver's text. The system's resolver blocks, so it runs on a thread of its own; a look-up that is given
/// up (destruction, or `limit` is over: ETIMEDOUT) leaves that thread to end by itself, and it holds up
/// neither the loop nor the exit.
class Resolve {
 public:
  using Done = std::function<void(Result<std::vector<Address>>)>;
  Resolve(EventLoop& loop, const std::string& name, Duration limit, Done done);
  Resolve(const Resolve&) = delete;

 private:
  void finish(Result<std::vector<Address>> result);
  void read_answer(const std::string& name);
  UniqueFd answer_;
  EventLoop::Watch watch_;
  EventLoop::Timer timer_;
  Done done_;
};

}  // namespace cxxrun::net
