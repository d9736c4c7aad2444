// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/local_member.hpp"

#include <deque>
#include <utility>

#include "rendezvous/coordinator.hpp"

namespace cxxrun::rendezvous {
namespace {

constexpr MemberId kSelf = 1;

class LocalMember final : public Member {
 public:
  LocalMember(EventLoop& loop, const Config& config, std::function<void(MemberEvent)> on_event)
      : loop_(loop), config_(coordinator_config(config)), on_event_(std::move(on_event)) {
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

  void leave(Leaving why, std::string_view sentence, Duration, std::function<void()> then) override {
    if (joined_) take(event::Left{kSelf, wire::Leave{why, std::string(sentence)}});
    after_goodbye_ = std::move(then);
    if (!delivery_) delivery_ = loop_.after(Duration::zero(), [this] { deliver(); });
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
    if (!waiting_.empty() && !delivery_) delivery_ = loop_.after(Duration::zero(), [this] { deliver(); });
  }

  void receive(wire::Message message) {
    if (auto* m = std::get_if<wire::Start>(&message))
      waiting_.push_back(Started{m->world, std::move(m->admit)});
    if (auto* m = std::get_if<wire::Stop>(&message))
      waiting_.push_back(Stopped{m->round, m->reason, m->cause});
    if (auto* m = std::get_if<wire::Notice>(&message)) waiting_.push_back(Waiting{std::move(m->sentence)});
    if (auto* m = std::get_if<wire::Close>(&message)) {
      waiting_.push_back(Closed{m->outcome, m->exit_code, m->reason, m->root_cause});
    }
  }

  /// The handler may destroy this object, so it is the last thing that a turn does.
  void deliver() {
    if (waiting_.empty()) {
      if (after_goodbye_) std::exchange(after_goodbye_, nullptr)();
      return;
    }
    MemberEvent event = std::move(waiting_.front());
    waiting_.pop_front();
    if (!waiting_.empty() || after_goodbye_) delivery_ = loop_.after(Duration::zero(), [this] { deliver(); });
    const auto handler = on_event_;
    handler(std::move(event));
  }

  EventLoop& loop_;
  CoordinatorConfig config_;
  std::function<void(MemberEvent)> on_event_;
  wire::Hello hello_;
  CoordinatorState state_;
  bool joined_ = false;
  std::deque<MemberEvent> waiting_;
  std::function<void()> after_goodbye_;
  EventLoop::Timer delivery_;
  EventLoop::Timer wake_;
};

}  // namespace

std::unique_ptr<Member> make_local_member(EventLoop& loop, Config config,
                                          std::function<void(MemberEvent)> on_event) {
  config.nnodes_min = config.nnodes_max = 1;
  return std::make_unique<LocalMember>(loop, config, std::move(on_event));
}

}  // namespace cxxrun::rendezvous
