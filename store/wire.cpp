// SPDX-License-Identifier: Apache-2.0
#include "store/wire.hpp"

#include <algorithm>
#include <array>
#include <bit>

namespace cxxrun::store {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the protocol is little-endian and so is every reader here");

/// What follows an opcode: a count if the strings are many, then strings, then a number.
struct Shape {
  std::uint8_t strings;  // without a count: all of them; with one: per item
  bool counted;
  std::uint8_t number_bytes;
  std::uint8_t values;  // bit i: string i (of an item) is a value, else a key
};

constexpr std::array<Shape, kOpCount> kShapes{{
    {0, false, 4, 0},      // VALIDATE
    {2, false, 0, 0b010},  // SET
    {3, false, 0, 0b110},  // COMPARE_SET
    {1, false, 0, 0},      // GET
    {1, false, 8, 0},      // ADD
    {1, true, 0, 0},       // CHECK
    {1, true, 0, 0},       // WAIT
    {0, false, 0, 0},      // GETNUMKEYS
    {1, false, 0, 0},      // DELETE_KEY
    {2, false, 0, 0b010},  // APPEND
    {1, true, 0, 0},       // MULTI_GET
    {2, true, 0, 0b010},   // MULTI_SET
    {0, false, 0, 0},      // CANCEL_WAIT
    {0, false, 4, 0},      // PING
    {2, false, 0, 0b010},  // QUEUE_PUSH
    {1, false, 0, 0},      // QUEUE_POP
    {1, false, 0, 0},      // QUEUE_LEN
    {0, false, 0, 0},      // LIST_KEYS
    {1, false, 8, 0},      // BARRIER
}};

/// A connection keeps room for this many strings between requests; more is given back.
constexpr std::size_t kPiecesKept = 64;

std::uint64_t read_u64(std::string_view bytes, std::size_t at) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

std::uint32_t read_u32(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

}  // namespace

RequestParser::Status RequestParser::parse(std::string_view bytes, const WireLimits& limits) {
  if (finished_) {
    if (const Status status = begin(bytes); status != Status::Ready) return status;
  }
  const Shape& shape = kShapes[static_cast<std::size_t>(request_.op)];
  if (shape.counted && !counted_) {
    if (const Status status = read_count(bytes, limits); status != Status::Ready) return status;
  }
  if (const Status status = read_strings(bytes, limits); status != Status::Ready) return status;
  if (shape.number_bytes > 0) {
    if (bytes.size() - cursor_ < shape.number_bytes) return need(cursor_ + shape.number_bytes);
    request_.number = shape.number_bytes == 8 ? read_u64(bytes, cursor_) : read_u32(bytes, cursor_);
    cursor_ += shape.number_bytes;
  }
  request_.base_ = bytes.data();
  request_.pieces_ = pieces_.data();
  request_.strings = pieces_.size();
  finished_ = true;
  return Status::Ready;
}

RequestParser::Status RequestParser::begin(std::string_view bytes) {
  cursor_ = 0;
  pieces_.clear();
  if (pieces_.capacity() > kPiecesKept) pieces_.shrink_to_fit();
  if (!validated_) return validate(bytes);
  if (bytes.empty()) return need(1);
  const auto opcode = static_cast<std::uint8_t>(bytes[0]);
  if (opcode >= kOpCount) return bad("unknown opcode");
  if (static_cast<Op>(opcode) == Op::Validate) return bad("a second handshake");
  request_.op = static_cast<Op>(opcode);
  const Shape& shape = kShapes[opcode];
  strings_left_ = shape.counted ? 0 : shape.strings;
  counted_ = false;
  finished_ = false;
  cursor_ = 1;
  return Status::Ready;
}

/// Refuses at the first byte that is wrong; a handshake that is split anywhere is still one.
RequestParser::Status RequestParser::validate(std::string_view bytes) {
  std::array<char, 5> expected{static_cast<char>(Op::Validate)};
  std::memcpy(expected.data() + 1, &kValidateMagic, sizeof kValidateMagic);
  const std::size_t there = std::min(bytes.size(), expected.size());
  if (there > 0 && std::memcmp(bytes.data(), expected.data(), there) != 0)
    return bad("no TCPStore handshake");
  if (there < expected.size()) return need(expected.size());
  request_.op = Op::Validate;
  strings_left_ = 0;
  validated_ = true;
  finished_ = false;
  cursor_ = 1;
  return Status::Ready;
}

RequestParser::Status RequestParser::read_count(std::string_view bytes, const WireLimits& limits) {
  if (bytes.size() - cursor_ < sizeof(std::uint64_t)) return need(cursor_ + sizeof(std::uint64_t));
  const std::uint64_t count = read_u64(bytes, cursor_);
  if (count > limits.keys_max) return bad("too many keys in one request");
  cursor_ += sizeof(std::uint64_t);
  strings_left_ = static_cast<std::size_t>(count) * kShapes[static_cast<std::size_t>(request_.op)].strings;
  counted_ = true;
  return Status::Ready;
}

RequestParser::Status RequestParser::read_strings(std::string_view bytes, const WireLimits& limits) {
  const Shape& shape = kShapes[static_cast<std::size_t>(request_.op)];
  while (strings_left_ > 0) {
    const std::size_t start = cursor_ + sizeof(std::uint64_t);
    if (bytes.size() < start) return need(start);
    const std::uint64_t length = read_u64(bytes, cursor_);
    const bool value = (shape.values >> (pieces_.size() % shape.strings) & 1) != 0;
    if (length > (value ? limits.value_bytes_max : limits.key_bytes_max)) {
      return bad(value ? "value too long" : "key too long");
    }
    const std::size_t end = start + static_cast<std::size_t>(length);
    if (end > limits.request_bytes_max) return bad("request too long");
    if (bytes.size() < end) return need(end);
    pieces_.push_back({static_cast<std::uint32_t>(start), static_cast<std::uint32_t>(length)});
    cursor_ = end;
    --strings_left_;
  }
  return Status::Ready;
}

}  // namespace cxxrun::store
