// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/limits.hpp"
#include "store/hash.hpp"
#include "store/wire.hpp"

namespace cxxrun::store {

/// Names a connection: small numbers, used again after forget().
using ClientId = std::uint32_t;

struct CoreLimits {
  /// Everything that peers make us keep: keys, values, queue elements, waits, and what each of them costs to
  /// hold.
  std::size_t bytes_max = limits::kStoreBytesMax;
  std::size_t reply_bytes_max = limits::kStoreBytesMax;  ///< of one MULTI_GET or LIST_KEYS
};

/// The map of one store and who waits for what. Pure: no I/O, no clock.
///
/// Every request is atomic. Departures from PyTorch's servers, all of them defects there: COMPARE_SET wakes
/// waiters exactly when it wrote; a queue's wake ends the wait it answered; a non-empty queue counts as
/// present in a WAIT.
class Core {
 public:
  enum class Verdict {
    Served,
    Close,  ///< the protocol has no other way to refuse; the store is unchanged. why() says it
  };

  /// `hash_seed`: random in a server.
  explicit Core(const CoreLimits& limits, std::uint64_t hash_seed = 0);

  /// Executes one request of `client` and appends its reply, if it has one now, to `reply`. Clients whose
  /// wait it ended are added to woken(), in the order in which they are to get their byte; `client` itself
  /// may be among them.
  Verdict apply(ClientId client, const Request& request, std::string& reply);

  /// The end of the reply when that is a large value: to be sent behind `reply`, or copied, before the next
  /// call.
  [[nodiscard]] std::string_view borrowed() const { return borrowed_; }

  /// Each gets one kStopWaiting. The caller empties it.
  [[nodiscard]] std::vector<ClientId>& woken() { return woken_; }

  /// The connection is gone: its wait is dropped.
  void forget(ClientId client);

  [[nodiscard]] const char* why() const { return why_; }
  [[nodiscard]] std::size_t keys() const { return keys_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }  ///< as counted against bytes_max
  [[nodiscard]] std::size_t waits() const { return waits_; }  ///< names that clients wait for, with repeats

 private:
  static constexpr std::uint32_t kNone = 0xffffffffu;

  using Queue = std::deque<std::string>;
  /// What is known under one name. Lives while there is a value, a queue or a waiter.
  struct Entry {
    std::string value;
    std::unique_ptr<Queue> queue;      // null or not empty
    std::uint32_t first_wait = kNone;  // oldest waiter
    std::uint32_t last_wait = kNone;
    bool exists = false;  // `value` is one
    [[nodiscard]] bool present() const { return exists || queue != nullptr; }
  };
  using Map = std::unordered_map<std::string, Entry, KeyHash, std::equal_to<>>;
  using Slot = Map::value_type;

  /// One name that one client waits for: in the list of the name and in the list of the client.
  struct WaitNode {
    Slot* slot;
    ClientId client;
    std::uint32_t slot_previous, slot_next;
    std::uint32_t client_previous, client_next;
  };
  struct Client {
    std::uint32_t first_wait = kNone;
    std::uint32_t waits = 0;  // names still missing; 0: waits for nothing
  };

  Verdict close(const char* why) {
    why_ = why;
    return Verdict::Close;
  }
  void get(std::string_view key, std::string& reply);
  Verdict set(std::string_view key, std::string_view value);
  Verdict compare_set(const Request& request, std::string& reply);
  Verdict add(std::string_view key, std::int64_t delta, std::int64_t& sum);
  Verdict append(std::string_view key, std::string_view data);
  Verdict multi_set(const Request& request);
  Verdict multi_get(const Request& request, std::string& reply);
  Verdict list_keys(std::string& reply);
  Verdict wait(ClientId client, const Request& request, std::string& reply);
  Verdict barrier(ClientId client, const Request& request, std::string& reply);
  Verdict queue_push(std::string_view key, std::string_view data);
  void queue_pop(std::string_view key, std::string& reply);
  void delete_key(std::string_view key, std::string& reply);
  [[nodiscard]] bool all_present(const Request& request) const;

  [[nodiscard]] const Entry* find(std::string_view key) const;
  [[nodiscard]] bool room_for(std::size_t bytes) const { return bytes <= limits_.bytes_max - bytes_; }
  Slot& slot_of(std::string_view key);
  void write(Slot& slot, std::string_view value);
  void drop_if_unused(Slot& slot);
  void wake_all(Slot& slot);
  void wake_one(Slot& slot);
  void add_wait(ClientId client, Slot& slot);
  bool end_wait(std::uint32_t node);
  void cancel(ClientId client);

  CoreLimits limits_;
  Map map_;
  std::vector<Client> clients_;
  std::vector<WaitNode> nodes_;
  std::uint32_t free_node_ = kNone;
  std::vector<ClientId> woken_;
  std::string_view borrowed_;
  std::size_t keys_ = 0, bytes_ = 0, waits_ = 0;
  const char* why_ = "";
};

}  // namespace cxxrun::store
