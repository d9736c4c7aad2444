// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace cxxrun::store {

/// Hash of a key, seeded per store: a peer that knows the program cannot aim many keys at one bucket.
/// Transparent, so that a look-up needs no std::string.
struct KeyHash {
  using is_transparent = void;
  std::uint64_t seed = 0;

  // Not noexcept: the map then keeps the hash beside the key, so a rehash or a long chain reads no key again.
  std::size_t operator()(std::string_view key) const {
    std::uint64_t hash = seed ^ (key.size() * kOdd);
    const char* at = key.data();
    std::size_t left = key.size();
    for (; left >= 8; left -= 8, at += 8) hash = mix(hash ^ load(at, 8), kOdd ^ seed);
    if (left > 0) hash = mix(hash ^ load(at, left), kOdd ^ seed);
    return static_cast<std::size_t>(mix(hash, seed | 1u));
  }

 private:
  __extension__ using Wide = unsigned __int128;
  static constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15u;  // 2^64 / golden ratio: bits well spread

  static std::uint64_t load(const char* at, std::size_t bytes) noexcept {
    std::uint64_t value = 0;
    std::memcpy(&value, at, bytes);
    return value;
  }
  /// Both halves of the product: every input bit reaches every output bit.
  static std::uint64_t mix(std::uint64_t a, std::uint64_t b) noexcept {
    const Wide product = static_cast<Wide>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  }
};

}  // namespace cxxrun::store
