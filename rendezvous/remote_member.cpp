// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/remote_member.hpp"

#include <utility>

#include "rendezvous/delivery.hpp"
#include "rendezvous/finder.hpp"
#include "rendezvous/member_core.hpp"
#include "rendezvous/secret.hpp"

namespace cxxrun::rendezvous {
namespace {

MemberConfig member_config(const Config& config) {
  const CoordinatorConfig job = coordinator_config(config);
  MemberConfig out;
  wire::Hello& h = out.hello;
  h.run_id = job.run_id;
  h.incarnation = random_hex(16);
  h.host_name = config.host_name;
  h.role = config.role;
  h.nnodes_min = job.nnodes_min;
  h.nnodes_max = job.nnodes_max;
  h.local_world_size = config.local_world_size;
  h.max_restarts = job.max_restarts;
  h.exact_rank = job.exact_ranks;
  h.agent_store = job.agent_store;
  h.node_rank = config.node_rank;
  h.proxied = config.proxied;
  h.capabilities = {"fence", "suspend"};
  out.timeouts = config.timeouts;
  out.max_restarts = config.max_restarts;
  out.endpoint = net::endpoint_text(config.endpoint.host, coordinator_port(config));
  return out;
}

/// The shell around the member's decisions: carries out actions, turns what happens into events.
class RemoteMember final : public Member {
 public:
  RemoteMember(EventLoop& loop, Config config, std::function<void(MemberEvent)> on_event)
      : loop_(loop),
        delivery_(loop, std::move(on_event)),
        core_(member_config(config)),
        memory_use_(config.memory_use),
        static_(config.backend == BackendKind::Static) {
    Finder::Handlers handlers;
    handlers.on_found = [this](Finder::Found found) { found_it(std::move(found)); };
    handlers.on_failed = [this](Finder::Failure failure) {
      take(member_event::AttemptFailed{std::move(failure.sentence), failure.exit_code});
    };
    handlers.on_frame = [this](std::string_view body) { on_frame(body); };
    handlers.on_end = [this](const net::End& end) { on_end(end); };
    handlers.on_store_client = [this](UniqueFd socket, std::vector<std::uint8_t> first) {
      on_store_client(std::move(socket), std::move(first));
    };
    handlers.on_word = [this](std::string sentence) { enqueue(Waiting{std::move(sentence)}); };
    finder_ =
        std::make_unique<Finder>(loop_, std::move(config), core_.hello.incarnation, std::move(handlers));
  }

  void ready(std::uint16_t store_port) override { take(member_event::AgentReady{store_port}); }
  void failed(const Failure& failure) override { take(member_event::AgentFailed{failure}); }
  void done(std::int64_t round) override { take(member_event::AgentDone{round}); }
  void announce_leaving(std::string_view sentence) override {
    take(member_event::AgentGoesAway{std::string(sentence)});
  }
  void suspended(bool suspended) override { take(member_event::AgentSuspended{suspended}); }
  Result<> fence(std::string_view name, std::string_view blob) override {
    auto possible = fence_possible(state_.running, name, blob);
    if (possible) take(member_event::AgentFences{std::string(name), std::string(blob)});
    return possible;
  }
  void leave(Leaving why, std::string_view sentence, Duration limit, std::function<void()> then) override {
    after_goodbye_ = std::move(then);
    if (state_.phase == MemberPhase::Ended) {
      perform(member_action::Left{});
    } else {
      take(member_event::AgentLeaves{why, std::string(sentence), limit});
    }
  }

 private:
  void take(const MemberCoreEvent& event) {
    auto next = step(core_, std::move(state_), event, EventLoop::now());
    state_ = std::move(next.state);
    wake_ = next.wake_at == Time::max() ? EventLoop::Timer{}
                                        : loop_.at(next.wake_at, [this] { take(member_event::Tick{}); });
    for (auto& action : next.actions) std::visit([&](auto& a) { perform(std::move(a)); }, action);
  }

  void perform(member_action::Attempt) { finder_->attempt(); }
  void perform(member_action::Send a) {
    if (auto* alive = std::get_if<wire::KeepAlive>(&a.message); alive != nullptr && memory_use_)
      alive->memory = memory_use_();
    finder_->send(wire::encode(a.message));
  }
  void perform(member_action::HangUp) {
    finder_->hang_up(state_.phase == MemberPhase::Looking && !answered_);
    answered_ = true;
  }
  void perform(member_action::Deliver a) { enqueue(std::move(a.event)); }
  void perform(member_action::Left) {
    if (after_goodbye_) delivery_.then(std::exchange(after_goodbye_, nullptr));
  }

  void found_it(Finder::Found found) {
    answered_ = false;
    take(member_event::Connected{std::move(found.own_local), std::move(found.own_remote),
                                 std::move(found.advertise), std::move(found.interface_addresses)});
  }

  void on_frame(std::string_view body) {
    auto message = wire::decode(body);
    if (!message) {
      finder_->hang_up(false);
      return take(
          member_event::Disconnected{false, "the rendezvous sent a bad message: " + message.error().message});
    }
    answered_ = true;
    if (*message) take(member_event::Received{std::move(**message)});
  }

  void on_end(const net::End& end) {
    const bool proven = end.kind == net::EndKind::Fin || end.kind == net::EndKind::Reset;
    take(member_event::Disconnected{proven, core_.endpoint + ": " + end.text});
  }

  void on_store_client(UniqueFd socket, std::vector<std::uint8_t> first) {
    if (static_ || serves_store_) enqueue(StoreClient{std::move(socket), std::move(first)});
  }

  void enqueue(MemberEvent event) {
    if (const auto* started = std::get_if<Started>(&event)) {
      serves_store_ = started->world.group_rank == 0 && started->world.agent_store;
    }
    delivery_.add(std::move(event));
  }

  EventLoop& loop_;
  Delivery delivery_;
  MemberConfig core_;
  std::function<MemoryUse()> memory_use_;  ///< may be empty
  bool static_;
  MemberState state_;
  std::unique_ptr<Finder> finder_;
  bool answered_ = true;  ///< the other side of this connection said something that we understand
  bool serves_store_ = false;
  std::function<void()> after_goodbye_;
  EventLoop::Timer wake_;
};

}  // namespace

std::unique_ptr<Member> make_remote_member(EventLoop& loop, Config config,
                                           std::function<void(MemberEvent)> on_event) {
  return std::make_unique<RemoteMember>(loop, std::move(config), std::move(on_event));
}

}  // namespace cxxrun::rendezvous
