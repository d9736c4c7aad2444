// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/delivery.hpp"

#include <utility>

namespace cxxrun::rendezvous {

void Delivery::add(MemberEvent event) {
  events_.push_back(std::move(event));
  schedule();
}

void Delivery::then(std::function<void()> last) {
  last_ = std::move(last);
  schedule();
}

void Delivery::schedule() {
  if (!soon_) soon_ = loop_.after(Duration::zero(), [this] { deliver(); });
}

/// What it calls may destroy this object, so that is the last thing it does.
void Delivery::deliver() {
  if (events_.empty()) {
    if (last_) std::exchange(last_, nullptr)();
    return;
  }
  MemberEvent event = std::move(events_.front());
  events_.pop_front();
  if (!events_.empty() || last_) schedule();
  const auto handler = on_event_;
  handler(std::move(event));
}

}  // namespace cxxrun::rendezvous
