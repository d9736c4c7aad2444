// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/secret.hpp"

// The plain functions are "deprecated" since 3.0 in favour of EVP, and remain; see sha256() below.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>
#include <sys/random.h>

#include <array>
#include <cassert>
#include <vector>

namespace cxxrun::rendezvous {
namespace {

constexpr std::size_t kBlockBytes = SHA256_CBLOCK;
using Digest = std::array<unsigned char, SHA256_DIGEST_LENGTH>;

/// SHA-256 of the two texts one behind the other. OpenSSL's plain functions: its EVP layer, which HMAC()
/// needs, would add 3.5 MB to a static program and a set-up to every start.
Digest sha256(std::string_view a, std::string_view b) {
  SHA256_CTX context;
  Digest out;
  ::SHA256_Init(&context);
  ::SHA256_Update(&context, a.data(), a.size());
  ::SHA256_Update(&context, b.data(), b.size());
  ::SHA256_Final(out.data(), &context);
  return out;
}

std::string_view text(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

std::string hex(const unsigned char* bytes, std::size_t count) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (std::size_t i = 0; i < count; ++i) {
    out += kDigits[bytes[i] >> 4];
    out += kDigits[bytes[i] & 15];
  }
  return out;
}

std::string joined(std::string_view who, std::string_view a, std::string_view b) {
  return "cxxrun rendezvous 1 " + std::string(who) + " " + std::string(a) + " " + std::string(b);
}

}  // namespace

std::string random_hex(std::size_t bytes) {
  std::vector<unsigned char> raw(bytes);
  [[maybe_unused]] const auto got = ::getrandom(raw.data(), raw.size(), 0);
  assert(got == static_cast<ssize_t>(bytes) && "getrandom");
  return hex(raw.data(), raw.size());
}

std::string hmac_sha256(std::string_view key, std::string_view data) {
  std::string block(kBlockBytes, '\0');
  if (key.size() > kBlockBytes) {
    const Digest shorter = sha256(key, {});
    block.replace(0, shorter.size(), text(shorter));
  } else {
    block.replace(0, key.size(), key);
  }
  std::string inner = block, outer = block;
  for (char& byte : inner) byte = static_cast<char>(byte ^ 0x36);
  for (char& byte : outer) byte = static_cast<char>(byte ^ 0x5c);
  const Digest out = sha256(outer, text(sha256(inner, data)));
  return hex(out.data(), out.size());
}

std::string server_proof(std::string_view token, std::string_view client_nonce,
                         std::string_view server_nonce) {
  return hmac_sha256(token, joined("server", client_nonce, server_nonce));
}
std::string client_proof(std::string_view token, std::string_view client_nonce,
                         std::string_view server_nonce) {
  return hmac_sha256(token, joined("agent", client_nonce, server_nonce));
}

bool equal_secret(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    difference |= static_cast<unsigned>(static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]));
  }
  return difference == 0;
}

}  // namespace cxxrun::rendezvous
