// SPDX-License-Identifier: Apache-2.0
#include "base/text.hpp"

#include <algorithm>

namespace cxxrun {
namespace {

constexpr std::size_t kQuotedBytesMax = 120;

/// Bytes of the printable character at the begin of `text`; 0: there is none.
std::size_t printable_character(std::string_view text) {
  const auto byte = [&](std::size_t at) {
    return at < text.size() ? static_cast<unsigned char>(text[at]) : 0u;
  };
  const unsigned lead = byte(0);
  if (lead < 0x80) return lead < 0x20 || lead == 0x7f ? 0 : 1;
  const std::size_t length = lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
  for (std::size_t at = 1; at < length; ++at) {
    if ((byte(at) & 0xc0) != 0x80) return 0;
  }
  // No C1 controls, overlong forms, surrogates, nothing above U+10FFFF.
  const unsigned next = byte(1);
  const bool bad = (lead == 0xc2 && next < 0xa0) || (lead == 0xe0 && next < 0xa0) ||
                   (lead == 0xed && next > 0x9f) || (lead == 0xf0 && next < 0x90) ||
                   (lead == 0xf4 && next > 0x8f);
  return bad ? 0 : length;
}

std::string escape(char c) {
  if (c == '\n') return "\\n";
  if (c == '\t') return "\\t";
  if (c == '\r') return "\\r";
  constexpr std::string_view kDigits = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  return {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
}

}  // namespace

bool printable(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = printable_character(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string cleaned(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = printable_character(text);
    out += length == 0 ? "?" : text.substr(0, length);
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

std::string quoted(std::string_view text) {
  const bool plain = !text.empty() && text.size() <= kQuotedBytesMax && printable(text) &&
                     text.find_first_of(" '\"") == std::string_view::npos;
  if (plain) return std::string(text);
  std::string out = "'";
  while (!text.empty() && out.size() <= kQuotedBytesMax) {
    const std::size_t length = printable_character(text);
    if (length == 0) {
      out += escape(text[0]);
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out + (text.empty() ? "'" : "...'");
}

}  // namespace cxxrun
