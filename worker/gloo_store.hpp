// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string>

#include "base/result.hpp"
#include "base/time.hpp"
#include "worker/ranks.hpp"
#include "worker/store.hpp"

namespace gloo {
class Context;
namespace rendezvous {
class Store;
}
}  // namespace gloo

/// Gloo, found through the worker store. Link cxxrun::worker_gloo.
namespace cxxrun::worker {

/// The worker store as Gloo's rendezvous::Store. Keys must be fresh for every context: give each a `prefix`
/// of its own. Borrows the store, which must outlive it. `timeout`: of each look-up; then gloo::IoException
/// names the key.
[[nodiscard]] std::unique_ptr<gloo::rendezvous::Store> gloo_store(Store& store, std::string prefix,
                                                                  Duration timeout);

struct GlooOptions {
  std::string name = "gloo";  ///< of the group; unique in a round
  std::string address = "";   ///< own address to listen at; empty: local_address(), which peers reach
  Duration timeout = 30s;     ///< for the connection to all, and of each collective; whole milliseconds
};

/// All ranks of the round, each connected to each (Gloo's full mesh over TCP).
///
/// Collectives are called by all ranks in the same order; not thread-safe. After an error the group is of no
/// more use: a peer has gone (the launcher then starts a new round), or has not answered in time. Gloo's
/// exceptions end here.
class GlooGroup {
 public:
  /// Meets the others through the store. Errors: the sentence of Gloo; a rank that never came is named.
  static Result<GlooGroup> connect(const Ranks& ranks, Store& store, const GlooOptions& options = {});

  GlooGroup(GlooGroup&&) noexcept;
  GlooGroup& operator=(GlooGroup&&) noexcept;
  ~GlooGroup();

  /// Replaces each element by the sum over all ranks: the same bits on all of them. Equally long everywhere.
  Result<> allreduce_sum(std::span<float> values);
  Result<> allreduce_sum(std::span<double> values);
  /// Replaces the bytes by those of `root`. Equally long everywhere.
  Result<> broadcast(std::span<char> bytes, int root);
  /// Returns when all ranks have called it.
  Result<> barrier();

  /// For everything else that Gloo can do.
  [[nodiscard]] std::shared_ptr<gloo::Context> context() const { return context_; }

 private:
  explicit GlooGroup(std::shared_ptr<gloo::Context> context);
  std::shared_ptr<gloo::Context> context_;
};

}  // namespace cxxrun::worker
