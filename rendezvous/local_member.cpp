// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/local_member.hpp"

#include <utility>

#include "rendezvous/coordinator.hpp"
#include "rendezvous/delivery.hpp"
#include "rendezvous/member_core.hpp"

namespace cxxrun::rendezvous {
namespace {

constexpr MemberId kSelf = 1;

class LocalMember final : public Member {
 public:
  LocalMember(EventLoop& loop, const Config& config, std::function<void(MemberEvent)> on_event)
      : loop_(loop), config_(coordinator_config(config)), delivery_(loop, std::move(on_event)) {
    hello_.run_id = config_.run_id;
    hello_.incarnation = "local";
    hello_.host_name = config.host_name;
    hello_.role = config.role;
    hello_.nnodes_min = config_.nnodes_min;
    hello_.nnodes_max = config_.nnodes_max;
    hello_.local_world_size = config.local_world_size;
    hello_.max_restarts = config_.max_restarts;
    hello_.agent_store = config_.agent_store;
    hello_.ready = true;
    hello_.advertise = "127.0.0.1";
  }

  void ready(std::uint16_t store_port) override {
    if (!joined_) {
      joined_ = true;
      hello_.store_port = store_port;
      return take(event::Joined{kSelf, hello_, {}});
    }
    take(event::Ready{kSelf, wire::Ready{state_.round, store_port}});
  }
  void failed(const Failure& failure) override { take(event::Failed{kSelf, failure}); }
  void done(std::int64_t round) override { take(event::Done{kSelf, round}); }

  void announce_leaving(std::string_view) override {}  // there is nobody to tell
  void suspended(bool) override {}
  Result<> fence(std::string_view name, std::string_view blob) override {
    auto possible = fence_possible(state_.phase == Phase::Running, name, blob);
    if (possible) delivery_.add(Fenced{state_.round, std::string(name), {std::string(blob)}, {}});
    return possible;
  }

  void leave(Leaving why, std::string_view sentence, Duration, std::function<void()> then) override {
    if (joined_) take(event::Left{kSelf, wire::Leave{why, std::string(sentence)}});
    delivery_.then(std::move(then));
  }

 private:
  void take(const CoordinatorEvent& event) {
    auto next = step(config_, std::move(state_), event, EventLoop::now());
    state_ = std::move(next.state);
    for (auto& action : next.actions) {
      if (auto* send = std::get_if<action::Send>(&action)) receive(std::move(send->message));
    }
    wake_ = next.wake_at == Time::max() ? EventLoop::Timer{}
                                        : loop_.at(next.wake_at, [this] { take(event::Tick{}); });
  }

  void receive(wire::Message message) {
    if (auto* m = std::get_if<wire::Start>(&message)) delivery_.add(Started{m->world, std::move(m->admit)});
    if (auto* m = std::get_if<wire::Stop>(&message)) delivery_.add(Stopped{m->round, m->reason, m->cause});
    if (auto* m = std::get_if<wire::Notice>(&message)) delivery_.add(Waiting{std::move(m->sentence)});
    if (auto* m = std::get_if<wire::Close>(&message)) {
      delivery_.add(Closed{m->outcome, m->exit_code, m->reason, m->root_cause, m->no_restart});
    }
  }

  EventLoop& loop_;
  CoordinatorConfig config_;
  Delivery delivery_;
  wire::Hello hello_;
  CoordinatorState state_;
  bool joined_ = false;
  EventLoop::Timer wake_;
};

}  // namespace

std::unique_ptr<Member> make_local_member(EventLoop& loop, Config config,
                                          std::function<void(MemberEvent)> on_event) {
  config.nnodes_min = config.nnodes_max = 1;
  return std::make_unique<LocalMember>(loop, config, std::move(on_event));
}

}  // namespace cxxrun::rendezvous
