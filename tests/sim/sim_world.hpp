// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/time.hpp"

namespace cxxrun::sim {

using NodeId = int;

/// Clock, network and dice of one simulated cluster. Same seed, same history.
///
/// The network is TCP's: a connection delivers in order, and what is sent while its direction is cut arrives
/// when the cut heals. What is lost is the end of a stream, with the connection.
class SimWorld {
 public:
  explicit SimWorld(std::uint64_t seed) : dice_(seed) {}

  [[nodiscard]] Time now() const { return now_; }
  unsigned roll(unsigned sides) { return static_cast<unsigned>(dice_() % sides); }  // std distributions vary
  Duration between(Duration low, Duration high) {
    const auto span = static_cast<std::uint64_t>((high - low).count()) + 1;
    return low + Duration(static_cast<Duration::rep>(dice_() % span));
  }

  /// Runs `what` after `delay`, unless it was taken back.
  std::uint64_t after(Duration delay, std::function<void()> what) {
    queue_.emplace(std::pair(now_ + delay, ++serial_),
                   std::move(what));  // ties break by serial, never by address
    return serial_;
  }

  /// One direction only: asymmetric cuts are the interesting ones.
  void cut(NodeId from, NodeId to) { cut_.insert({from, to}); }
  void heal(NodeId from, NodeId to) {
    cut_.erase({from, to});
    auto held = std::exchange(held_[{from, to}], {});
    for (auto& deliver : held) send(from, to, std::move(deliver));
  }
  void heal_all() {
    const auto all = cut_;
    for (const auto& [from, to] : all) heal(from, to);
  }
  [[nodiscard]] bool is_cut(NodeId from, NodeId to) const { return cut_.contains({from, to}); }

  /// In order within a direction.
  void send(NodeId from, NodeId to, std::function<void()> deliver) {
    if (is_cut(from, to)) return held_[{from, to}].push_back(std::move(deliver));
    const Duration delay = roll(50) == 0 ? between(1ms, 1500ms) : between(20us, 3ms);
    Time& last = last_[{from, to}];
    last = std::max(last, now_ + delay);
    queue_.emplace(std::pair(last, ++serial_), std::move(deliver));
  }

  /// Virtual time is free: an hour costs milliseconds.
  void run(
      Time until, const std::function<bool()>& stop = [] { return false; }) {
    while (!queue_.empty() && queue_.begin()->first.first <= until && !stop()) {
      auto node = queue_.extract(queue_.begin());
      now_ = node.key().first;
      node.mapped()();
      ++steps_;
    }
    if (!stop()) now_ = std::max(now_, until);
  }
  [[nodiscard]] std::uint64_t steps() const { return steps_; }

 private:
  std::mt19937_64 dice_;
  Time now_ = Time{} + std::chrono::hours(1);
  std::uint64_t serial_ = 0;
  std::uint64_t steps_ = 0;
  std::map<std::pair<Time, std::uint64_t>, std::function<void()>> queue_;
  std::set<std::pair<NodeId, NodeId>> cut_;
  std::map<std::pair<NodeId, NodeId>, std::vector<std::function<void()>>> held_;
  std::map<std::pair<NodeId, NodeId>, Time> last_;
};

}  // namespace cxxrun::sim
