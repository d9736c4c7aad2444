// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>
#include <utility>

namespace cxxrun::store {

/// Bytes that arrived and are not read yet. Grows in place where the system can, and never zero-fills.
class Buffer {
 public:
  void swap(Buffer& other) noexcept {
    data_.swap(other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }
  [[nodiscard]] std::string_view bytes() const { return {data_.get(), size_}; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::size_t capacity() const { return capacity_; }
  [[nodiscard]] char* tail() { return data_.get() + size_; }
  [[nodiscard]] std::size_t room() const { return capacity_ - size_; }

  /// Makes room for `more` bytes behind the ones there.
  void reserve(std::size_t more) {
    if (room() >= more) return;
    const std::size_t capacity = size_ + more;
    void* data = std::realloc(data_.get(), capacity);
    if (data == nullptr) throw std::bad_alloc();
    (void)data_.release();  // realloc has freed or kept it
    data_.reset(static_cast<char*>(data));
    capacity_ = capacity;
  }
  void grew(std::size_t bytes) { size_ += bytes; }
  void append(std::string_view bytes) {
    if (bytes.empty()) return;
    // Exact while small: an incomplete request costs what has arrived. Then in proportion, so that copies
    // stay few.
    if (room() < bytes.size())
      reserve(bytes.size() > size_ / 2 || size_ < kExactBytes ? bytes.size() : size_ / 2);
    std::memcpy(tail(), bytes.data(), bytes.size());
    size_ += bytes.size();
  }
  /// Forgets the first bytes. The memory stays, for release() or for more.
  void consume(std::size_t bytes) {
    size_ -= bytes;
    if (size_ > 0 && bytes > 0) std::memmove(data_.get(), data_.get() + bytes, size_);
  }
  void release() {
    data_.reset();
    size_ = capacity_ = 0;
  }

 private:
  static constexpr std::size_t kExactBytes = std::size_t{64} << 10;

  struct Free {
    void operator()(char* data) const { std::free(data); }
  };
  std::unique_ptr<char[], Free> data_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace cxxrun::store
