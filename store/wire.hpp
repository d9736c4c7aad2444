// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/limits.hpp"

/// The TCPStore protocol of PyTorch 2.2 and later ("dialect M"): bytes of requests and replies, no I/O.
///
/// A request is one opcode byte and its arguments, back to back; a reply has no header. Integers are
/// little-endian, a string is a u64 length and its bytes. The older dialects (before 2.2) have no handshake
/// and other opcodes: their first bytes are no VALIDATE, so such a client is closed like any stranger.
namespace cxxrun::store {

enum class Op : std::uint8_t {
  Validate = 0,     ///< first on every connection, once
  Set = 1,          ///< key, value; no reply
  CompareSet = 2,   ///< key, expected, desired
  Get = 3,          ///< key
  Add = 4,          ///< key, i64
  Check = 5,        ///< n keys
  Wait = 6,         ///< n keys; the reply comes when all exist
  NumKeys = 7,      ///< nothing
  DeleteKey = 8,    ///< key
  Append = 9,       ///< key, value; no reply
  MultiGet = 10,    ///< n keys
  MultiSet = 11,    ///< n pairs; no reply
  CancelWait = 12,  ///< nothing
  Ping = 13,        ///< u32, sent back
  QueuePush = 14,   ///< key, value; no reply
  QueuePop = 15,    ///< key
  QueueLen = 16,    ///< key
  ListKeys = 17,    ///< nothing
  Barrier = 18,     ///< key, i64 world size; the reply comes when that many have arrived
};
inline constexpr std::size_t kOpCount = 19;

inline constexpr std::uint32_t kValidateMagic = 0x3C85F7CE;

/// One-byte replies.
inline constexpr char kReady = 0, kNotReady = 1;        // CHECK
inline constexpr char kStopWaiting = 0, kCanceled = 1;  // WAIT and BARRIER; CANCEL_WAIT

/// The largest things that a peer may send. All are checked as soon as the length is there, before its bytes
/// are.
struct WireLimits {
  std::size_t key_bytes_max = limits::kStoreKeyBytesMax;
  std::size_t value_bytes_max = limits::kStoreValueBytesMax;
  std::size_t keys_max = limits::kStoreKeysPerRequestMax;  ///< of one CHECK, WAIT, MULTI_GET or MULTI_SET
  /// One request altogether. Only requests of many keys or values can reach it.
  std::size_t request_bytes_max = std::size_t{128} << 20;
};

/// A complete request. Its strings are borrowed from the bytes that the parser was given.
class Request {
 public:
  Op op = Op::Validate;
  std::uint64_t number = 0;  ///< ADD: delta; BARRIER: world size (both signed, same bits); PING: nonce
  std::size_t strings = 0;   ///< how many: keys, or keys and values in turn

  [[nodiscard]] std::string_view string(std::size_t i) const {
    const Piece& piece = pieces_[i];
    return {base_ + piece.offset, piece.length};
  }
  [[nodiscard]] std::int64_t signed_number() const { return static_cast<std::int64_t>(number); }

 private:
  friend class RequestParser;
  struct Piece {
    std::uint32_t offset;
    std::uint32_t length;
  };
  const char* base_ = nullptr;
  const Piece* pieces_ = nullptr;
};

/// Cuts one connection's bytes into requests. Remembers how far it came, so a request that arrives in many
/// pieces is read once; holds no bytes itself.
class RequestParser {
 public:
  enum class Status {
    NeedMore,  ///< call again when more bytes are there
    Ready,     ///< request() and size() are valid until the next call
    Bad,       ///< close the connection: why()
  };

  /// `bytes`: from the first byte of the current request on; on a call after NeedMore the same bytes (perhaps
  /// at another address) and more. After Ready the next call begins behind size().
  Status parse(std::string_view bytes, const WireLimits& limits);

  [[nodiscard]] const Request& request() const { return request_; }
  [[nodiscard]] std::size_t size() const { return cursor_; }  ///< bytes of the request
  /// After NeedMore: how long the bytes must be at least before there is progress.
  [[nodiscard]] std::size_t needed() const { return needed_; }
  [[nodiscard]] const char* why() const { return why_; }
  [[nodiscard]] bool validated() const { return validated_; }

 private:
  Status begin(std::string_view bytes);
  Status validate(std::string_view bytes);
  Status read_count(std::string_view bytes, const WireLimits& limits);
  Status read_strings(std::string_view bytes, const WireLimits& limits);
  Status need(std::size_t bytes) {
    needed_ = bytes;
    return Status::NeedMore;
  }
  Status bad(const char* why) {
    why_ = why;
    return Status::Bad;
  }

  Request request_;
  std::vector<Request::Piece> pieces_;
  std::size_t cursor_ = 0;
  std::size_t needed_ = 0;
  std::size_t strings_left_ = 0;
  bool finished_ = true;  // the next call begins a request
  bool counted_ = false;  // the count in front of the strings was read
  bool validated_ = false;
  const char* why_ = "";
};

// --- writing: appended to `out` ---

inline void put_u32(std::string& out, std::uint32_t value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof value);
}
inline void put_u64(std::string& out, std::uint64_t value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof value);
}
inline void put_i64(std::string& out, std::int64_t value) { put_u64(out, static_cast<std::uint64_t>(value)); }
inline void put_string(std::string& out, std::string_view value) {
  put_u64(out, value.size());
  out.append(value);
}
inline void put_op(std::string& out, Op op) { out.push_back(static_cast<char>(op)); }
inline void put_validate(std::string& out) {
  put_op(out, Op::Validate);
  put_u32(out, kValidateMagic);
}

}  // namespace cxxrun::store
