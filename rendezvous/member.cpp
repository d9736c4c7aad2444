// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/member.hpp"

#include "rendezvous/local_member.hpp"
#include "rendezvous/remote_member.hpp"

namespace cxxrun::rendezvous {

std::unique_ptr<Member> make_member(EventLoop& loop, Config config,
                                    std::function<void(MemberEvent)> on_event) {
  switch (config.backend) {
    case BackendKind::Local: return make_local_member(loop, std::move(config), std::move(on_event));
    case BackendKind::C10d:
    case BackendKind::Static: return make_remote_member(loop, std::move(config), std::move(on_event));
  }
  return nullptr;
}

}  // namespace cxxrun::rendezvous
