// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "base/time.hpp"
#include "worker/ranks.hpp"
#include "worker/store.hpp"

namespace cxxrun::worker {

/// A point that no rank passes before all have reached it, made of the worker store alone. For coarse steps
/// (all have loaded their data): each passing costs two keys and three round trips a rank; collectives have
/// faster barriers.
///
/// All ranks construct it with the same name and pass it equally often. Works with every TCPStore server of
/// PyTorch 2.x. Not thread-safe. Borrows the store, which must outlive it.
class Barrier {
 public:
  Barrier(Store& store, const Ranks& ranks, std::string name);

  /// Waits for all ranks.
  /// Errors: errc::timed_out, and the sentence names the ranks that did not come; those of Store.
  Result<> pass(Duration timeout);

 private:
  [[nodiscard]] std::string key(std::int64_t pass, std::string_view what) const;
  [[nodiscard]] std::string missing_ranks();

  Store* store_;
  int rank_;
  int world_size_;
  std::string name_;
  std::int64_t passes_ = 0;
};

}  // namespace cxxrun::worker
