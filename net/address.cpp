// SPDX-License-Identifier: Apache-2.0
#include "net/address.hpp"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>

#include "base/text.hpp"

namespace cxxrun::net {
namespace {

constexpr std::array<std::uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

Address from_v4(const in_addr& in) {
  Address out;
  std::memcpy(out.bytes.data(), &in, 4);
  return out;
}

Address from_v6(const in6_addr& in, std::uint32_t scope) {
  if (std::memcmp(&in, kMapped.data(), kMapped.size()) == 0) {
    in_addr v4{};
    std::memcpy(&v4, reinterpret_cast<const std::uint8_t*>(&in) + 12, 4);
    return from_v4(v4);
  }
  Address out;
  out.v6 = true;
  std::memcpy(out.bytes.data(), &in, 16);
  out.scope = out.link_local() ? scope : 0;
  return out;
}

std::optional<unsigned> parse_number(std::string_view text, unsigned max, std::size_t digits_max) {
  if (text.empty() || text.size() > digits_max) return std::nullopt;
  unsigned value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + static_cast<unsigned>(c - '0');
  }
  if (value > max) return std::nullopt;
  return value;
}

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

bool host_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
         c == ':' || c == '-' || c == '%';
}

Error bad_host(std::string_view host, std::string_view text) {
  if (text.find("://") != std::string_view::npos) return plain_error("write HOST:PORT, not a URL");
  if (text.front() == '[') {
    const auto close = text.find(']');
    if (close == std::string_view::npos) return plain_error("a [ without ]: write [ADDRESS]:PORT");
    if (close + 1 < text.size() && text[close + 1] != ':')
      return plain_error("after the ] comes :PORT, or nothing");
  }
  if (host.empty()) return plain_error("names no host: write HOST:PORT");
  return plain_error((host == text ? "" : quoted(host) + " ") + std::string("is no host name or address"));
}

}  // namespace

bool Address::loopback() const {
  if (!v6) return bytes[0] == 127;
  return std::all_of(bytes.begin(), bytes.end() - 1, [](std::uint8_t b) { return b == 0; }) && bytes[15] == 1;
}
bool Address::link_local() const {
  return v6 ? bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80 : bytes[0] == 169 && bytes[1] == 254;
}
bool Address::unspecified() const {
  return std::all_of(bytes.begin(), bytes.end(), [](std::uint8_t b) { return b == 0; });
}
bool Address::multicast() const { return v6 ? bytes[0] == 0xff : (bytes[0] & 0xf0) == 0xe0; }

std::optional<Address> parse_address(std::string_view text) {
  char name[INET6_ADDRSTRLEN + IF_NAMESIZE + 1];
  if (text.empty() || text.size() >= sizeof name || text.find('\0') != std::string_view::npos)
    return std::nullopt;
  std::uint32_t scope = 0;
  if (const auto percent = text.find('%'); percent != std::string_view::npos) {
    const std::string zone(text.substr(percent + 1));
    const auto number = parse_number(zone, 0x7fffffffu, 9);
    scope = number ? *number : ::if_nametoindex(zone.c_str());
    if (scope == 0) return std::nullopt;
    text = text.substr(0, percent);
  }
  std::memcpy(name, text.data(), text.size());
  name[text.size()] = '\0';
  in_addr v4{};
  if (scope == 0 && ::inet_pton(AF_INET, name, &v4) == 1) return from_v4(v4);
  in6_addr v6{};
  if (::inet_pton(AF_INET6, name, &v6) == 1) return from_v6(v6, scope);
  return std::nullopt;
}

std::string text(const Address& address) {
  char out[INET6_ADDRSTRLEN] = "";
  ::inet_ntop(address.v6 ? AF_INET6 : AF_INET, address.bytes.data(), out, sizeof out);
  std::string result = out;
  if (address.scope != 0) {
    char name[IF_NAMESIZE];
    result += '%';
    result +=
        ::if_indextoname(address.scope, name) != nullptr ? std::string(name) : std::to_string(address.scope);
  }
  return result;
}

std::string text(const Address& address, std::uint16_t port) { return endpoint_text(text(address), port); }

SocketAddress socket_address(const Address& address, std::uint16_t port) {
  SocketAddress out;
  if (address.v6) {
    sockaddr_in6 in{};
    in.sin6_family = AF_INET6;
    in.sin6_port = htons(port);
    in.sin6_scope_id = address.scope;
    std::memcpy(&in.sin6_addr, address.bytes.data(), 16);
    std::memcpy(&out.storage, &in, sizeof in);
    out.size = sizeof in;
  } else {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(port);
    std::memcpy(&in.sin_addr, address.bytes.data(), 4);
    std::memcpy(&out.storage, &in, sizeof in);
    out.size = sizeof in;
  }
  return out;
}

std::optional<Address> address_of(const sockaddr* address, std::uint16_t* port) {
  if (address->sa_family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, address, sizeof in);
    if (port != nullptr) *port = ntohs(in.sin_port);
    return from_v4(in.sin_addr);
  }
  if (address->sa_family == AF_INET6) {
    sockaddr_in6 in{};
    std::memcpy(&in, address, sizeof in);
    if (port != nullptr) *port = ntohs(in.sin6_port);
    return from_v6(in.sin6_addr, in.sin6_scope_id);
  }
  return std::nullopt;
}

bool Prefix::contains(const Address& other) const {
  if (other.v6 != address.v6) return false;
  const auto whole = static_cast<std::size_t>(bits / 8);
  if (std::memcmp(address.bytes.data(), other.bytes.data(), whole) != 0) return false;
  const int rest = bits % 8;
  if (rest == 0) return true;
  const auto mask = static_cast<std::uint8_t>(0xff << (8 - rest));
  return (address.bytes[whole] & mask) == (other.bytes[whole] & mask);
}

std::optional<Prefix> parse_prefix(std::string_view text) {
  const auto slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const auto address = parse_address(text.substr(0, slash));
  if (!address) return std::nullopt;
  const auto bits = parse_number(text.substr(slash + 1), address->v6 ? 128 : 32, 3);
  if (!bits) return std::nullopt;
  return Prefix{*address, static_cast<int>(*bits)};
}

Result<HostPort> parse_endpoint(std::string_view whole) {
  const std::string_view text = trimmed(whole);
  HostPort out;
  if (text.empty()) return HostPort{"localhost", std::nullopt};
  std::string_view host = text;
  std::string_view port;
  bool has_port = false;
  const bool only_host = (text.front() == '[' && text.back() == ']') || parse_address(text).has_value();
  if (!only_host) {
    if (const auto colon = text.rfind(':'); colon != std::string_view::npos) {
      host = text.substr(0, colon);
      port = text.substr(colon + 1);
      has_port = true;
    }
  }
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  if (host.empty() || !std::all_of(host.begin(), host.end(), host_char)) return bad_host(host, text);
  if (host.find(':') != std::string_view::npos && !parse_address(host)) return bad_host(host, text);
  out.host = host;
  if (has_port) {
    const auto number = parse_number(port, 65535, 5);
    if (!number) {
      return plain_error((port.empty() ? "no port after the colon" : quoted(port) + " is no port") +
                         std::string(" (0 to 65535)"));
    }
    out.port = static_cast<std::uint16_t>(*number);
  }
  return out;
}

std::string endpoint_text(std::string_view host, std::uint16_t port) {
  const bool brackets = host.find(':') != std::string_view::npos;
  return (brackets ? "[" + std::string(host) + "]" : std::string(host)) + ":" + std::to_string(port);
}

bool loopback_host(std::string_view host) {
  if (host == "localhost") return true;
  const auto address = parse_address(host);
  return address && address->loopback();
}

}  // namespace cxxrun::net
