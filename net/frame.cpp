// SPDX-License-Identifier: Apache-2.0
#include "net/frame.hpp"

namespace cxxrun::net {
namespace {
constexpr std::size_t kHeaderBytes = 4;
}

void FrameReader::feed(std::string_view bytes) {
  if (taken_ > 0) {
    bytes_.erase(0, taken_);
    taken_ = 0;
  }
  bytes_.append(bytes);
}

Result<std::optional<std::string_view>> FrameReader::next() {
  const std::string_view left = std::string_view(bytes_).substr(taken_);
  if (left.size() < kHeaderBytes) return std::optional<std::string_view>();
  std::size_t size = 0;
  for (std::size_t i = 0; i < kHeaderBytes; ++i) size = size << 8 | static_cast<unsigned char>(left[i]);
  if (size > frame_bytes_max_) {
    return plain_error("frame of " + std::to_string(size) + " bytes, at most " +
                       std::to_string(frame_bytes_max_) + " are allowed");
  }
  if (left.size() - kHeaderBytes < size) return std::optional<std::string_view>();
  taken_ += kHeaderBytes + size;
  return std::optional(left.substr(kHeaderBytes, size));
}

std::string frame(std::string_view body) {
  const auto size = static_cast<std::uint32_t>(body.size());
  std::string out;
  out.reserve(kHeaderBytes + body.size());
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(size >> shift & 0xff);
  return out += body;
}

}  // namespace cxxrun::net
