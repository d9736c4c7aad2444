// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "rendezvous/member.hpp"

namespace cxxrun::rendezvous {

/// The member of a job of one node: the coordinator's decisions are taken right here, nothing listens or
/// connects.
std::unique_ptr<Member> make_local_member(EventLoop& loop, Config config,
                                          std::function<void(MemberEvent)> on_event);

}  // namespace cxxrun::rendezvous
