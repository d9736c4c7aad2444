// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/config.hpp"
#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "base/world.hpp"
#include "store/server.hpp"

namespace cxxrun::agent {

/// MASTER_PORT of one round, should this node get group rank 0: opened before the rendezvous hears of it, so
/// that nobody can take it. Serves the worker store, or (--worker-store=none) keeps the port bound, not
/// listening, so that PyTorch in the worker can still listen there (both set SO_REUSEADDR) but no other
/// program is given it.
class MasterPort {
 public:
  using Say = std::function<void(const std::string& line)>;

  /// Errors: no port of --port-range is free.
  static Result<std::unique_ptr<MasterPort>> open(EventLoop& loop, const Config& config, Say say);

  [[nodiscard]] std::uint16_t number() const { return number_; }
  /// The round has started: who may use the store. Without effect on nodes of another group rank than 0.
  void start_round(const World& world, std::vector<std::string> members);
  /// A client that came through the control port.
  void adopt(UniqueFd socket, std::vector<std::uint8_t> first);

 private:
  MasterPort() = default;
  static Result<UniqueFd> hold_port(const rendezvous::Config& rendezvous, std::uint16_t& number);

  StoreAdmission admission_;
  std::unique_ptr<store::Server> store_;
  UniqueFd held_;
  std::uint16_t number_ = 0;
};

}  // namespace cxxrun::agent
