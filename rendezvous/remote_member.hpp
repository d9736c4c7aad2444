// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "rendezvous/member.hpp"

namespace cxxrun::rendezvous {

/// The member of a job of several nodes (c10d, static): finds the coordinator at the endpoint, or hosts it
/// there.
std::unique_ptr<Member> make_remote_member(EventLoop& loop, Config config,
                                           std::function<void(MemberEvent)> on_event);

}  // namespace cxxrun::rendezvous
