// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "store/wire.hpp"

/// Requests and replies of the store protocol as bytes, for tests.
namespace cxxrun::store::test {

using Names = std::vector<std::string>;

inline std::string hex(std::string_view digits) {
  std::string bytes;
  std::string pair;
  for (const char c : digits) {
    if (c == ' ') continue;
    pair.push_back(c);
    if (pair.size() == 2) {
      bytes.push_back(static_cast<char>(std::stoi(pair, nullptr, 16)));
      pair.clear();
    }
  }
  return bytes;
}

inline std::string op(Op code) { return std::string(1, static_cast<char>(code)); }
inline std::string str(std::string_view text) {
  std::string out;
  put_string(out, text);
  return out;
}
inline std::string i64(std::int64_t value) {
  std::string out;
  put_i64(out, value);
  return out;
}
inline std::string u32(std::uint32_t value) {
  std::string out;
  put_u32(out, value);
  return out;
}
inline std::string byte(char value) { return std::string(1, value); }
inline std::string many(Op code, const Names& names) {
  std::string out = op(code) + i64(static_cast<std::int64_t>(names.size()));
  for (const auto& name : names) out += str(name);
  return out;
}

inline std::string validate() { return hex("00 cef7853c"); }
inline std::string ping(std::uint32_t nonce) { return op(Op::Ping) + u32(nonce); }
inline std::string set(std::string_view k, std::string_view v) { return op(Op::Set) + str(k) + str(v); }
inline std::string get(std::string_view k) { return op(Op::Get) + str(k); }
inline std::string add(std::string_view k, std::int64_t n) { return op(Op::Add) + str(k) + i64(n); }
inline std::string compare_set(std::string_view k, std::string_view expected, std::string_view desired) {
  return op(Op::CompareSet) + str(k) + str(expected) + str(desired);
}
inline std::string check(const Names& names) { return many(Op::Check, names); }
inline std::string wait(const Names& names) { return many(Op::Wait, names); }
inline std::string multi_get(const Names& names) { return many(Op::MultiGet, names); }
inline std::string multi_set(const std::vector<std::pair<std::string, std::string>>& pairs) {
  std::string out = op(Op::MultiSet) + i64(static_cast<std::int64_t>(pairs.size()));
  for (const auto& [k, v] : pairs) out += str(k) + str(v);
  return out;
}
inline std::string num_keys() { return op(Op::NumKeys); }
inline std::string delete_key(std::string_view k) { return op(Op::DeleteKey) + str(k); }
inline std::string append(std::string_view k, std::string_view v) { return op(Op::Append) + str(k) + str(v); }
inline std::string cancel() { return op(Op::CancelWait); }
inline std::string push(std::string_view k, std::string_view v) {
  return op(Op::QueuePush) + str(k) + str(v);
}
inline std::string pop(std::string_view k) { return op(Op::QueuePop) + str(k); }
inline std::string queue_len(std::string_view k) { return op(Op::QueueLen) + str(k); }
inline std::string list_keys() { return op(Op::ListKeys); }
inline std::string barrier(std::string_view k, std::int64_t n) { return op(Op::Barrier) + str(k) + i64(n); }

inline const std::string kStop = byte(kStopWaiting);
inline const std::string kCancelReply = byte(kCanceled);
inline const std::string kIsReady = byte(kReady);
inline const std::string kIsNotReady = byte(kNotReady);

struct Frame {
  const char* name;
  std::string sent;
  std::string received;
};

/// One connection's life on an empty store, byte for byte.
inline std::vector<Frame> golden_frames() {
  const auto frame = [](const char* name, const char* sent, const char* received) {
    return Frame{name, hex(sent), hex(received)};
  };
  return {
      frame("validate", "00 cef7853c", ""),
      frame("ping", "0d 45230100", "45230100"),
      frame("add init/", "04 0500000000000000 696e69742f 0100000000000000", "0100000000000000"),
      frame("set", "01 0400000000000000 2f6b6579 0500000000000000 76616c7565", ""),
      frame("wait", "06 0100000000000000 0400000000000000 2f6b6579", "00"),
      frame("get", "03 0400000000000000 2f6b6579", "0500000000000000 76616c7565"),
      frame("add 5", "04 0800000000000000 2f636f756e746572 0500000000000000", "0500000000000000"),
      frame("add -7", "04 0800000000000000 2f636f756e746572 f9ffffffffffffff", "feffffffffffffff"),
      frame("check, one missing", "05 0200000000000000 0400000000000000 2f6b6579 0500000000000000 2f6e6f7065",
            "01"),
      frame("check", "05 0100000000000000 0400000000000000 2f6b6579", "00"),
      frame("wait for a missing key", "06 0100000000000000 0500000000000000 2f6e6f7065", ""),
      frame("cancel", "0c", "01"),
      frame("compare_set, missing",
            "02 0300000000000000 2f7a7a 0300000000000000 6f6c64 0300000000000000 6e6577",
            "0300000000000000 6f6c64"),
      frame("compare_set, created", "02 0300000000000000 2f6373 0000000000000000 0300000000000000 6e6577",
            "0300000000000000 6e6577"),
      frame("compare_set, different",
            "02 0300000000000000 2f6373 0300000000000000 626164 0100000000000000 78",
            "0300000000000000 6e6577"),
      frame("num_keys 4", "07", "0400000000000000"),
      frame("delete", "08 0300000000000000 2f6373", "0100000000000000"),
      frame("delete again", "08 0300000000000000 2f6373", "0000000000000000"),
      frame("append", "09 0400000000000000 2f6b6579 0200000000000000 2121", ""),
      frame("multi_set",
            "0b 0200000000000000 0400000000000000 2f666f6f 0200000000000000 706f 0400000000000000 2f626172 "
            "0400000000000000 7461746f",
            ""),
      frame("wait for two", "06 0200000000000000 0400000000000000 2f666f6f 0400000000000000 2f626172", "00"),
      frame("multi_get", "0a 0200000000000000 0400000000000000 2f666f6f 0400000000000000 2f626172",
            "0200000000000000 706f 0400000000000000 7461746f"),
      frame("get appended", "03 0400000000000000 2f6b6579", "0700000000000000 76616c75652121"),
      frame("queue_push", "0e 0200000000000000 2f71 0100000000000000 61", ""),
      frame("queue_len", "10 0200000000000000 2f71", "0100000000000000"),
      frame("queue_pop", "0f 0200000000000000 2f71", "0100000000000000 0100000000000000 61"),
      frame("queue_pop, empty", "0f 0200000000000000 2f71", "0000000000000000"),
      frame("num_keys 5", "07", "0500000000000000"),
      frame("barrier of one", "12 0200000000000000 2f62 0100000000000000", "00"),
  };
}

}  // namespace cxxrun::store::test
