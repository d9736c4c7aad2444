// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace cxxrun::net {

/// Frames out of a byte stream: u32 big-endian length of the body, then the body. Pure.
///
/// Holds at most one frame of `frame_bytes_max` and what was fed in one go: memory grows with what came,
/// never with what a header announces.
class FrameReader {
 public:
  explicit FrameReader(std::size_t frame_bytes_max) : frame_bytes_max_(frame_bytes_max) {}

  /// For frames whose header is read from now on.
  void set_frame_bytes_max(std::size_t bytes) { frame_bytes_max_ = bytes; }
  void feed(std::string_view bytes);
  /// The next whole body, valid until the next feed(); nullopt: more bytes are needed. Errors: a frame of
  /// more than the maximum; then the stream is useless, every further call gives the same error.
  [[nodiscard]] Result<std::optional<std::string_view>> next();
  /// Nothing of an unfinished frame is held.
  [[nodiscard]] bool between_frames() const { return taken_ == bytes_.size(); }

 private:
  std::size_t frame_bytes_max_;
  std::string bytes_;
  std::size_t taken_ = 0;
};

/// The header of a frame with this body.
[[nodiscard]] std::string frame(std::string_view body);

}  // namespace cxxrun::net
