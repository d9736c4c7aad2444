// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/result.hpp"
#include "base/time.hpp"
#include "store/client.hpp"
#include "worker/ranks.hpp"

namespace cxxrun::worker {

/// The key-value store that all workers of a round share, at MASTER_ADDR:MASTER_PORT: strings by name,
/// counters, waiting. New and empty in every round. All calls and their errors: store/client.hpp.
using Store = store::Client;

struct StoreOptions {
  /// To connect, and of every call that is given no time of its own.
  Duration timeout = 300s;
  /// In front of every key. Programs that share keys with PyTorch leave it empty.
  std::string prefix = "";
};

/// Connects to the store of this round.
/// Errors: errc::timed_out, with the address and what the last attempt met.
[[nodiscard]] Result<Store> connect_store(const Ranks& ranks, const StoreOptions& options = {});

/// The address of this host that peers reach, as text: the one that a connection to the store leaves from.
/// Never a name, so nothing depends on the own host name being known anywhere. Sends nothing. Errors:
/// MASTER_ADDR cannot be resolved, or no route leads to it.
[[nodiscard]] Result<std::string> local_address(const Ranks& ranks);

}  // namespace cxxrun::worker
