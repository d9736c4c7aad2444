// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "base/time.hpp"
#include "base/unique_fd.hpp"
#include "store/wire.hpp"

namespace cxxrun::store {

struct ClientOptions {
  /// For connect(), and for every operation that is given no time of its own. At least 1 ms, at most 24 days.
  Duration timeout = std::chrono::seconds(300);
  /// Put in front of every key. "/" is what PyTorch's TCPStore does: key "x" here is key "x" there. A
  /// PrefixStore("p", ...) of PyTorch is prefix "/p/".
  std::string prefix = "/";
};

/// One connection to a TCPStore server: cxxrun's, or PyTorch's (2.5 and later).
///
/// Blocking, with a deadline on every call (this host's steady clock, from the call on). Not thread-safe;
/// several clients may use one store. A signal interrupts nothing. Movable.
///
/// Errors of every operation:
///   errc::timed_out          wait(), get(), multi_get(), barrier() and queue_pop(): what was waited for did
///   not come in
///                            time. The connection stays usable. In all others: the server did not answer,
///                            connected() is false from then on, and the operation may or may not have been
///                            done.
///   errc::not_connected      the server closed the connection (or refused the request, which it says in this
///   way), or an
///                            earlier error did. There is no reconnect: a store lives as long as its round.
///   errc::message_size       the server's answer is longer than the protocol allows.
class Client {
 public:
  /// Resolves `host` (name or numeric address), tries every address, and tries again until the timeout: a
  /// server that does not listen yet is normal. The first pause is 1 ms, each next one twice as long, at most
  /// 1 s. The system's resolver is asked without a deadline of ours. Errors: errc::timed_out; the sentence
  /// says what the last attempt met.
  static Result<Client> connect(const std::string& host, std::uint16_t port, ClientOptions options = {});

  Client(Client&&) noexcept = default;
  Client& operator=(Client&&) noexcept = default;

  using Keys = std::vector<std::string>;

  /// Stores the value, also over an old one. Sent when this returns; seen by this client's next call.
  Result<> set(std::string_view key, std::string_view value);
  /// Waits until the key exists, then returns its value.
  Result<std::string> get(std::string_view key, std::optional<Duration> timeout = {});
  /// Adds to a counter and returns the sum. A missing key counts as 0. A value that is no number: closed by
  /// the server.
  Result<std::int64_t> add(std::string_view key, std::int64_t delta);
  /// Stores `desired` if the value equals `expected`, or if the key is missing and `expected` is empty.
  /// Returns what is stored now; for a missing key and a non-empty `expected`: `expected`, and nothing is
  /// stored.
  Result<std::string> compare_set(std::string_view key, std::string_view expected, std::string_view desired);
  /// True when all keys exist. Up to 131,072 keys.
  Result<bool> check(const Keys& keys);
  /// Waits until all keys exist. Up to 131,072 keys.
  Result<> wait(const Keys& keys, std::optional<Duration> timeout = {});
  /// True when the key existed.
  Result<bool> delete_key(std::string_view key);
  /// Adds bytes to the end of a value; a missing key counts as empty.
  Result<> append(std::string_view key, std::string_view data);
  /// Waits until all keys exist, then returns their values in the order of `keys`.
  Result<std::vector<std::string>> multi_get(const Keys& keys, std::optional<Duration> timeout = {});
  /// Stores several values at once, in order.
  Result<> multi_set(const std::vector<std::pair<std::string, std::string>>& pairs);
  /// All keys of the store, under every prefix.
  Result<std::int64_t> num_keys();
  /// The keys under our prefix, without it, in no order. Needs PyTorch 2.10 or cxxrun as server.
  Result<Keys> list_keys();

  /// Waits until `world_size` calls with this key were made, this one included. One key serves one barrier; a
  /// second use returns at once. A call that timed out stays counted. Needs PyTorch 2.12 or cxxrun as server.
  Result<> barrier(std::string_view key, std::int64_t world_size, std::optional<Duration> timeout = {});

  /// Queues have names of their own beside the keys. Need PyTorch 2.8 or cxxrun as server.
  Result<> queue_push(std::string_view name, std::string_view data);
  /// Waits for an element and takes the oldest. Of several that wait each gets another one.
  Result<std::string> queue_pop(std::string_view name, std::optional<Duration> timeout = {});
  Result<std::int64_t> queue_len(std::string_view name);

  [[nodiscard]] bool connected() const { return static_cast<bool>(socket_); }

 private:
  Client(UniqueFd socket, ClientOptions options) : options_(std::move(options)), socket_(std::move(socket)) {}

  void begin(Op op);
  void put_key(std::string_view key);
  void put_keys(const Keys& keys);
  [[nodiscard]] Time deadline(std::optional<Duration> timeout = {}) const;
  Result<> send(Time deadline);
  Result<> read(char* to, std::size_t bytes, Time deadline);
  Result<> fill(Time deadline);
  Result<std::int64_t> read_i64(Time deadline);
  Result<std::string> read_string(Time deadline);
  Result<char> read_byte(Time deadline);
  Result<std::int64_t> ask_i64();
  Result<> await(std::string_view what, Time deadline);
  Result<> handshake(Time deadline);
  Error lost(Error error);

  ClientOptions options_;
  UniqueFd socket_;
  std::string request_;
  std::string input_;  // received, read up to `input_read_`
  std::size_t input_read_ = 0;
};

}  // namespace cxxrun::store
