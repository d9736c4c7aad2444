// SPDX-License-Identifier: Apache-2.0
#include "store/core.hpp"

#include <cassert>
#include <charconv>
#include <optional>

namespace cxxrun::store {
namespace {

/// What holding something costs besides its bytes: node, bucket, allocator. Keeps a million one-byte keys
/// honest.
constexpr std::size_t kEntryCost = 176;
constexpr std::size_t kElementCost = 64;
constexpr std::size_t kWaitCost = 40;

/// Room for the digits of any i64 and its sign.
constexpr std::size_t kDigitsMax = 24;

/// From this size on a value is sent from where it lies.
constexpr std::size_t kBorrowedBytes = std::size_t{16} << 10;

/// Vectors of waits are given back when the last wait ends and they have grown beyond this.
constexpr std::size_t kWaitNodesKept = 16'384;

/// A counter's text as C++'s stoll reads it: white space, a sign, digits; the rest is ignored. Nothing: not a
/// number.
std::optional<std::int64_t> parse_counter(std::string_view text) {
  const std::size_t start = text.find_first_not_of(" \t\n\v\f\r");
  if (start == std::string_view::npos) return std::nullopt;
  text.remove_prefix(start);
  if (text[0] == '+') {
    text.remove_prefix(1);
    if (text.empty() || text[0] == '-') return std::nullopt;
  }
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  return value;
}

/// Wraps around, as the servers that clients know do.
std::int64_t wrapping_sum(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

}  // namespace

Core::Core(const CoreLimits& limits, std::uint64_t hash_seed)
    : limits_(limits), map_(0, KeyHash{hash_seed}, std::equal_to<>{}) {}

Core::Verdict Core::apply(ClientId client, const Request& request, std::string& reply) {
  std::int64_t sum = 0;
  borrowed_ = {};
  switch (request.op) {
    case Op::Validate: return Verdict::Served;
    case Op::Set: return set(request.string(0), request.string(1));
    case Op::CompareSet: return compare_set(request, reply);
    case Op::Get: get(request.string(0), reply); return Verdict::Served;
    case Op::Add:
      if (add(request.string(0), request.signed_number(), sum) == Verdict::Close) return Verdict::Close;
      put_i64(reply, sum);
      return Verdict::Served;
    case Op::Check: reply.push_back(all_present(request) ? kReady : kNotReady); return Verdict::Served;
    case Op::Wait: return wait(client, request, reply);
    case Op::NumKeys: put_u64(reply, keys_); return Verdict::Served;
    case Op::DeleteKey: delete_key(request.string(0), reply); return Verdict::Served;
    case Op::Append: return append(request.string(0), request.string(1));
    case Op::MultiGet: return multi_get(request, reply);
    case Op::MultiSet: return multi_set(request);
    case Op::CancelWait:
      cancel(client);
      reply.push_back(kCanceled);
      return Verdict::Served;
    case Op::Ping: put_u32(reply, static_cast<std::uint32_t>(request.number)); return Verdict::Served;
    case Op::QueuePush: return queue_push(request.string(0), request.string(1));
    case Op::QueuePop: queue_pop(request.string(0), reply); return Verdict::Served;
    case Op::QueueLen: {
      const Entry* entry = find(request.string(0));
      put_u64(reply, entry != nullptr && entry->queue ? entry->queue->size() : 0);
      return Verdict::Served;
    }
    case Op::ListKeys: return list_keys(reply);
    case Op::Barrier: return barrier(client, request, reply);
  }
  return close("unknown opcode");
}

const Core::Entry* Core::find(std::string_view key) const {
  const auto found = map_.find(key);
  return found == map_.end() ? nullptr : &found->second;
}

/// The entry of a name, made if there is none. The caller has checked that there is room.
Core::Slot& Core::slot_of(std::string_view key) {
  if (const auto found = map_.find(key); found != map_.end()) return *found;
  bytes_ += kEntryCost + key.size();
  return *map_.try_emplace(std::string(key)).first;
}

void Core::drop_if_unused(Slot& slot) {
  if (slot.second.present() || slot.second.first_wait != kNone) return;
  bytes_ -= kEntryCost + slot.first.size();
  map_.erase(map_.find(std::string_view(slot.first)));
}

/// Stores a value and wakes whoever waits for the key.
void Core::write(Slot& slot, std::string_view value) {
  Entry& entry = slot.second;
  if (!entry.exists) {
    entry.exists = true;
    ++keys_;
  }
  bytes_ += value.size();
  bytes_ -= entry.value.size();
  // A short value must not keep the room of a long one.
  if (entry.value.capacity() > 2 * value.size() + 64) std::string().swap(entry.value);
  entry.value.assign(value);
  wake_all(slot);
}

void Core::get(std::string_view key, std::string& reply) {
  const Entry* entry = find(key);
  const std::string_view value = entry != nullptr ? std::string_view(entry->value) : std::string_view();
  if (value.size() < kBorrowedBytes) return put_string(reply, value);
  put_u64(reply, value.size());
  borrowed_ = value;
}

Core::Verdict Core::set(std::string_view key, std::string_view value) {
  if (!room_for(kEntryCost + key.size() + value.size())) return close("the store is full");
  write(slot_of(key), value);
  return Verdict::Served;
}

Core::Verdict Core::compare_set(const Request& request, std::string& reply) {
  const std::string_view key = request.string(0), expected = request.string(1), desired = request.string(2);
  const auto found = map_.find(key);
  const bool exists = found != map_.end() && found->second.exists;
  if (exists ? found->second.value != expected : !expected.empty()) {
    // The answer for a missing key is what the caller expected, although it is not there: clients rely on it.
    put_string(reply, exists ? std::string_view(found->second.value) : expected);
    return Verdict::Served;
  }
  if (const Verdict verdict = set(key, desired); verdict == Verdict::Close) return verdict;
  put_string(reply, desired);
  return Verdict::Served;
}

Core::Verdict Core::add(std::string_view key, std::int64_t delta, std::int64_t& sum) {
  const auto found = map_.find(key);
  const bool exists = found != map_.end() && found->second.exists;
  std::int64_t old = 0;
  if (exists) {
    const auto parsed = parse_counter(found->second.value);
    if (!parsed) return close("ADD on a value that is no number");
    old = *parsed;
  }
  if (!room_for(kEntryCost + key.size() + kDigitsMax)) return close("the store is full");
  sum = wrapping_sum(old, delta);
  char digits[kDigitsMax];
  const auto end = std::to_chars(digits, digits + sizeof digits, sum).ptr;
  write(found != map_.end() ? *found : slot_of(key), {digits, static_cast<std::size_t>(end - digits)});
  return Verdict::Served;
}

Core::Verdict Core::append(std::string_view key, std::string_view data) {
  if (!room_for(kEntryCost + key.size() + data.size())) return close("the store is full");
  Slot& slot = slot_of(key);
  if (!slot.second.exists) {
    write(slot, data);
    return Verdict::Served;
  }
  slot.second.value.append(data);
  bytes_ += data.size();
  wake_all(slot);
  return Verdict::Served;
}

Core::Verdict Core::multi_set(const Request& request) {
  std::size_t bytes = 0;  // all or nothing: asked for before the first is written
  for (std::size_t i = 0; i < request.strings; ++i) bytes += request.string(i).size();
  if (!room_for(bytes + request.strings / 2 * kEntryCost)) return close("the store is full");
  for (std::size_t i = 0; i + 1 < request.strings; i += 2) {
    write(slot_of(request.string(i)), request.string(i + 1));
  }
  return Verdict::Served;
}

Core::Verdict Core::multi_get(const Request& request, std::string& reply) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < request.strings; ++i) {
    const Entry* entry = find(request.string(i));
    bytes += sizeof(std::uint64_t) + (entry != nullptr ? entry->value.size() : 0);
  }
  if (bytes > limits_.reply_bytes_max) return close("the reply would be too long");
  for (std::size_t i = 0; i < request.strings; ++i) {
    const Entry* entry = find(request.string(i));
    put_string(reply, entry != nullptr ? std::string_view(entry->value) : std::string_view());
  }
  return Verdict::Served;
}

Core::Verdict Core::list_keys(std::string& reply) {
  std::size_t bytes = sizeof(std::uint64_t);
  for (const auto& [key, entry] : map_) bytes += entry.exists ? sizeof(std::uint64_t) + key.size() : 0;
  if (bytes > limits_.reply_bytes_max) return close("the reply would be too long");
  put_u64(reply, keys_);
  for (const auto& [key, entry] : map_) {
    if (entry.exists) put_string(reply, key);
  }
  return Verdict::Served;
}

void Core::delete_key(std::string_view key, std::string& reply) {
  const auto found = map_.find(key);
  const bool exists = found != map_.end() && found->second.exists;
  put_u64(reply, exists ? 1 : 0);
  if (!exists) return;
  Entry& entry = found->second;
  bytes_ -= entry.value.size();
  std::string().swap(entry.value);
  entry.exists = false;
  --keys_;
  drop_if_unused(*found);
}

bool Core::all_present(const Request& request) const {
  for (std::size_t i = 0; i < request.strings; ++i) {
    const Entry* entry = find(request.string(i));
    if (entry == nullptr || !entry->present()) return false;
  }
  return true;
}

Core::Verdict Core::queue_push(std::string_view key, std::string_view data) {
  if (!room_for(kEntryCost + key.size() + kElementCost + data.size())) return close("the store is full");
  Slot& slot = slot_of(key);
  if (!slot.second.queue) slot.second.queue = std::make_unique<Queue>();
  slot.second.queue->emplace_back(data);
  bytes_ += kElementCost + data.size();
  wake_one(slot);
  return Verdict::Served;
}

void Core::queue_pop(std::string_view key, std::string& reply) {
  const auto found = map_.find(key);
  if (found == map_.end() || !found->second.queue) return put_u64(reply, 0);
  Queue& queue = *found->second.queue;
  put_u64(reply, queue.size());
  put_string(reply, queue.front());
  bytes_ -= kElementCost + queue.front().size();
  queue.pop_front();
  if (queue.empty()) found->second.queue.reset();
  drop_if_unused(*found);
}

// --- waits ---

Core::Verdict Core::wait(ClientId client, const Request& request, std::string& reply) {
  if (client < clients_.size() && clients_[client].waits > 0)
    return close("a second wait before the first ended");
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < request.strings; ++i) {
    const Entry* entry = find(request.string(i));
    if (entry == nullptr || !entry->present()) bytes += kWaitCost + kEntryCost + request.string(i).size();
  }
  if (bytes == 0) {
    reply.push_back(kStopWaiting);
    return Verdict::Served;
  }
  if (!room_for(bytes)) return close("the store is full");
  for (std::size_t i = 0; i < request.strings; ++i) {
    Slot& slot = slot_of(request.string(i));
    if (!slot.second.present()) add_wait(client, slot);
  }
  return Verdict::Served;
}

Core::Verdict Core::barrier(ClientId client, const Request& request, std::string& reply) {
  if (client < clients_.size() && clients_[client].waits > 0)
    return close("a second wait before the first ended");
  const std::string_view key = request.string(0);
  // Room for the wait is asked for first: an arrival that is counted but cannot wait would be half a barrier.
  if (!room_for(2 * kEntryCost + key.size() + kDigitsMax + kWaitCost)) return close("the store is full");
  const auto found = map_.find(key);
  std::int64_t count = 0;
  if (found != map_.end() && found->second.exists) {
    const auto parsed = parse_counter(found->second.value);
    if (!parsed) return close("BARRIER on a value that is no number");
    count = *parsed;
  }
  count = wrapping_sum(count, 1);
  char digits[kDigitsMax];
  const auto end = std::to_chars(digits, digits + sizeof digits, count).ptr;
  const std::string_view text(digits, static_cast<std::size_t>(end - digits));
  Slot& slot = found != map_.end() ? *found : slot_of(key);
  if (count >= request.signed_number()) {
    write(slot, text);
    reply.push_back(kStopWaiting);
    return Verdict::Served;
  }
  // Earlier arrivals wait on: an arrival writes the count but is not the news that they wait for.
  Entry& entry = slot.second;
  if (!entry.exists) {
    entry.exists = true;
    ++keys_;
  }
  bytes_ += text.size();
  bytes_ -= entry.value.size();
  entry.value.assign(text);
  add_wait(client, slot);
  return Verdict::Served;
}

void Core::add_wait(ClientId client, Slot& slot) {
  if (client >= clients_.size()) clients_.resize(client + std::size_t{1});
  std::uint32_t index = free_node_;
  if (index != kNone) {
    free_node_ = nodes_[index].slot_next;
  } else {
    index = static_cast<std::uint32_t>(nodes_.size());
    nodes_.emplace_back();
  }
  Client& owner = clients_[client];
  Entry& entry = slot.second;
  nodes_[index] = {&slot, client, entry.last_wait, kNone, kNone, owner.first_wait};
  if (entry.last_wait != kNone) nodes_[entry.last_wait].slot_next = index;
  if (entry.first_wait == kNone) entry.first_wait = index;
  entry.last_wait = index;
  if (owner.first_wait != kNone) nodes_[owner.first_wait].client_previous = index;
  owner.first_wait = index;
  ++owner.waits;
  ++waits_;
  bytes_ += kWaitCost;
}

/// Takes one name off what its client waits for. True when it was the last one.
bool Core::end_wait(std::uint32_t index) {
  const WaitNode node = nodes_[index];
  Entry& entry = node.slot->second;
  Client& owner = clients_[node.client];
  (node.slot_previous != kNone ? nodes_[node.slot_previous].slot_next : entry.first_wait) = node.slot_next;
  (node.slot_next != kNone ? nodes_[node.slot_next].slot_previous : entry.last_wait) = node.slot_previous;
  (node.client_previous != kNone ? nodes_[node.client_previous].client_next : owner.first_wait) =
      node.client_next;
  if (node.client_next != kNone) nodes_[node.client_next].client_previous = node.client_previous;
  nodes_[index].slot_next = free_node_;
  free_node_ = index;
  bytes_ -= kWaitCost;
  if (--waits_ == 0 && nodes_.size() > kWaitNodesKept) {
    std::vector<WaitNode>().swap(nodes_);
    free_node_ = kNone;
  }
  return --owner.waits == 0;
}

void Core::wake_all(Slot& slot) {
  while (slot.second.first_wait != kNone) {
    const ClientId client = nodes_[slot.second.first_wait].client;
    if (end_wait(slot.second.first_wait)) woken_.push_back(client);
  }
}

/// One element wakes one client: the oldest whose last missing name this is. Older ones with more names to
/// wait for have seen it all the same, as with a key that is set and deleted.
void Core::wake_one(Slot& slot) {
  while (slot.second.first_wait != kNone) {
    const ClientId client = nodes_[slot.second.first_wait].client;
    if (end_wait(slot.second.first_wait)) {
      woken_.push_back(client);
      return;
    }
  }
}

void Core::cancel(ClientId client) {
  if (client >= clients_.size()) return;
  while (clients_[client].first_wait != kNone) {
    Slot& slot = *nodes_[clients_[client].first_wait].slot;
    end_wait(clients_[client].first_wait);
    drop_if_unused(slot);
  }
}

void Core::forget(ClientId client) { cancel(client); }

}  // namespace cxxrun::store
