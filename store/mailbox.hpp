// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/unique_fd.hpp"

namespace cxxrun::store {

/// Hands values from one thread to another, in order, without a lock. The receiver watches fd() for EPOLLIN.
/// ok() is false when the kernel gave no descriptor; nothing else may then be called.
template <class T>
class Mailbox {
 public:
  Mailbox() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;
  ~Mailbox() { free_all(head_.load(std::memory_order_acquire)); }

  [[nodiscard]] bool ok() const { return static_cast<bool>(event_); }
  [[nodiscard]] int fd() const { return event_.get(); }

  /// Any thread.
  void put(T value) {
    Node* node = new Node{std::move(value), head_.load(std::memory_order_relaxed)};
    while (!head_.compare_exchange_weak(node->next, node, std::memory_order_release,
                                        std::memory_order_relaxed)) {
    }
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written =
        ::write(event_.get(), &one, sizeof one);  // full: it is readable anyway
  }

  /// The receiver: is there something to take, also before fd() was seen readable.
  [[nodiscard]] bool has_mail() const { return head_.load(std::memory_order_acquire) != nullptr; }

  /// The receiver: everything put so far, oldest first.
  std::vector<T> take() {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto got = ::read(event_.get(), &count, sizeof count);
    Node* newest = head_.exchange(nullptr, std::memory_order_acquire);
    std::vector<T> values;
    for (Node* node = newest; node != nullptr; node = node->next) values.push_back(std::move(node->value));
    free_all(newest);
    std::reverse(values.begin(), values.end());
    return values;
  }

 private:
  struct Node {
    T value;
    Node* next;
  };
  static void free_all(Node* node) {
    while (node != nullptr) delete std::exchange(node, node->next);
  }

  std::atomic<Node*> head_{nullptr};
  UniqueFd event_;
};

}  // namespace cxxrun::store
