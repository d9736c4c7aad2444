// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cxxrun::rendezvous {

/// `bytes` from the kernel's random source, as hex digits.
[[nodiscard]] std::string random_hex(std::size_t bytes);

/// HMAC-SHA256 (RFC 2104) as 64 hex digits.
[[nodiscard]] std::string hmac_sha256(std::string_view key, std::string_view data);

/// What each side proves: that it knows the token, in this very conversation.
[[nodiscard]] std::string server_proof(std::string_view token, std::string_view client_nonce,
                                       std::string_view server_nonce);
[[nodiscard]] std::string client_proof(std::string_view token, std::string_view client_nonce,
                                       std::string_view server_nonce);

/// Takes the same time wherever the texts differ.
[[nodiscard]] bool equal_secret(std::string_view a, std::string_view b);

}  // namespace cxxrun::rendezvous
