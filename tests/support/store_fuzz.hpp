// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tests/support/store_driver.hpp"

namespace cxxrun::store::test {

/// One hostile input. Its first byte chooses how the rest is cut; two clients get the pieces in turn. Aborts
/// when a promise of parser or core is broken; a sanitizer finds the rest.
inline void feed_hostile(std::string_view bytes) {
  constexpr CoreLimits kSmall{.bytes_max = 1u << 20, .reply_bytes_max = 1u << 20};
  PureDriver driver(kSmall);
  if (bytes.empty()) return;
  const std::size_t piece = static_cast<std::uint8_t>(bytes.front()) % 64 + std::size_t{1};
  const bool greeted = (static_cast<std::uint8_t>(bytes.front()) & 0x80u) != 0;  // get past the handshake
  bytes.remove_prefix(1);
  if (greeted) {
    driver.talk(0, validate());
    driver.talk(1, validate());
  }
  int client = 0;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    driver.talk(client, bytes.substr(at, piece));
    if (driver.core().bytes() > kSmall.bytes_max) std::abort();
    client ^= 1;
  }
  driver.hang_up(0);
  driver.hang_up(1);
  if (driver.core().waits() != 0) std::abort();
}

}  // namespace cxxrun::store::test
