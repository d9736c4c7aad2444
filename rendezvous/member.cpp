// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/member.hpp"

#include "rendezvous/local_member.hpp"

namespace cxxrun::rendezvous {

std::unique_ptr<Member> make_member(EventLoop& loop, Config config,
                                    std::function<void(MemberEvent)> on_event) {
  return make_local_member(loop, std::move(config), std::move(on_event));
}

}  // namespace cxxrun::rendezvous
