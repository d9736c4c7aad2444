// SPDX-License-Identifier: Apache-2.0
#include "store/admission.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace cxxrun::store {
namespace {

constexpr std::array<std::uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr int kMappedBits = 96;

AddressBytes mapped(const in_addr& address) {
  AddressBytes bytes{};
  std::copy(kMapped.begin(), kMapped.end(), bytes.begin());
  std::memcpy(bytes.data() + kMapped.size(), &address, sizeof address);
  return bytes;
}

bool is_mapped(const AddressBytes& address) {
  return std::equal(kMapped.begin(), kMapped.end(), address.begin());
}

bool is_loopback(const AddressBytes& address) {
  if (is_mapped(address)) return address[kMapped.size()] == 127;
  return std::all_of(address.begin(), address.end() - 1, [](std::uint8_t b) { return b == 0; }) &&
         address[15] == 1;
}

bool same_bits(const AddressBytes& a, const AddressBytes& b, int bits) {
  const auto whole = static_cast<std::size_t>(bits / 8);
  if (!std::equal(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(whole), b.begin())) return false;
  const int rest = bits % 8;
  return rest == 0 || ((a[whole] ^ b[whole]) >> (8 - rest)) == 0;
}

}  // namespace

std::optional<AddressBytes> address_bytes(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &address, sizeof v4);
    return mapped(v4.sin_addr);
  }
  if (address.ss_family == AF_INET6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, &address, sizeof v6);
    AddressBytes bytes{};
    std::memcpy(bytes.data(), &v6.sin6_addr, bytes.size());
    return bytes;
  }
  return std::nullopt;
}

std::string text(const AddressBytes& address) {
  char buffer[INET6_ADDRSTRLEN] = "";
  if (is_mapped(address)) {
    ::inet_ntop(AF_INET, address.data() + kMapped.size(), buffer, sizeof buffer);
  } else {
    ::inet_ntop(AF_INET6, address.data(), buffer, sizeof buffer);
  }
  return buffer;
}

Result<> Admission::add(const std::string& rule) {
  if (rule == "any") {
    any_ = true;
    return kOk;
  }
  const std::size_t slash = rule.find('/');
  std::string host = rule.substr(0, slash);
  host = host.substr(0, host.find('%'));
  Prefix prefix;
  in_addr v4{};
  const bool is_v4 = ::inet_pton(AF_INET, host.c_str(), &v4) == 1;
  if (is_v4) {
    prefix.address = mapped(v4);
  } else if (::inet_pton(AF_INET6, host.c_str(), prefix.address.data()) != 1) {
    return plain_error("'" + rule + "' is no numeric address, no prefix such as 10.0.0.0/8, and not 'any'");
  }
  if (slash != std::string::npos) {
    const std::string bits = rule.substr(slash + 1);
    const int bits_max = is_v4 ? 32 : 128;
    const auto [end, error] = std::from_chars(bits.data(), bits.data() + bits.size(), prefix.bits);
    if (error != std::errc{} || end != bits.data() + bits.size() || prefix.bits < 0 ||
        prefix.bits > bits_max) {
      return plain_error("'" + rule + "': the prefix length must be 0.." + std::to_string(bits_max));
    }
    if (is_v4) prefix.bits += kMappedBits;
  }
  prefixes_.push_back(prefix);
  return kOk;
}

bool Admission::allows(const AddressBytes& address) const {
  if (any_ || is_loopback(address)) return true;
  return std::any_of(prefixes_.begin(), prefixes_.end(),
                     [&](const Prefix& p) { return same_bits(p.address, address, p.bits); });
}

}  // namespace cxxrun::store
