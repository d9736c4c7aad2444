// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/secret.hpp"

#include <dlfcn.h>
#include <sys/random.h>

#include <array>
#include <cassert>
#include <vector>

namespace cxxrun::rendezvous {
namespace {

using Sha256 = const void* (*)();
using Hmac = unsigned char* (*)(const void* method, const void* key, int key_bytes, const unsigned char* data,
                                std::size_t data_bytes, unsigned char* out, unsigned int* out_bytes);

struct Crypto {
  Sha256 sha256 = nullptr;
  Hmac hmac = nullptr;
};

/// Never linked: loading it costs 0.7 ms of every start, and most jobs have no token.
Crypto load() {
  for (const char* name : {"libcrypto.so.3", "libcrypto.so.1.1", "libcrypto.so"}) {
    void* library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) continue;
    Crypto out{reinterpret_cast<Sha256>(::dlsym(library, "EVP_sha256")),
               reinterpret_cast<Hmac>(::dlsym(library, "HMAC"))};
    if (out.sha256 != nullptr && out.hmac != nullptr) return out;
  }
  return {};
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

Result<std::string> hmac_sha256(std::string_view key, std::string_view data) {
  static const Crypto crypto = load();
  if (crypto.hmac == nullptr) {
    return plain_error(
        "a token needs OpenSSL's libcrypto (libcrypto.so.3), which is not there; install libssl3");
  }
  std::array<unsigned char, 64> out{};
  unsigned int bytes = 0;
  if (crypto.hmac(crypto.sha256(), key.data(), static_cast<int>(key.size()),
                  reinterpret_cast<const unsigned char*>(data.data()), data.size(), out.data(),
                  &bytes) == nullptr) {
    return plain_error("libcrypto could not compute an HMAC");
  }
  return hex(out.data(), bytes);
}

Result<std::string> server_proof(std::string_view token, std::string_view client_nonce,
                                 std::string_view server_nonce) {
  return hmac_sha256(token, joined("server", client_nonce, server_nonce));
}
Result<std::string> client_proof(std::string_view token, std::string_view client_nonce,
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
