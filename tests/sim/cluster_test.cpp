// SPDX-License-Identifier: Apache-2.0
#include "cluster.hpp"

#include <algorithm>

namespace cxxrun::sim {

using namespace rendezvous;

namespace {
constexpr Duration kStopMax = 900ms;  // the launcher's grace in this world
constexpr std::size_t kStoryBytes = 6000;

/// A MemberEvent may own a socket, so it has no copy of its own; none of these does.
MemberEvent copy_event(const MemberEvent& event) {
  if (const auto* e = std::get_if<Started>(&event)) return *e;
  if (const auto* e = std::get_if<Stopped>(&event)) return *e;
  if (const auto* e = std::get_if<Closed>(&event)) return *e;
  if (const auto* e = std::get_if<Waiting>(&event)) return *e;
  if (const auto* e = std::get_if<Fenced>(&event)) return *e;
  return Waiting{};
}
}  // namespace

Cluster::Cluster(std::uint64_t seed) : world_(seed) {
  static constexpr int kSizes[][2] = {{5, 5}, {3, 5}, {1, 5}, {2, 4}, {4, 4}};
  const auto& sizes = kSizes[world_.roll(5)];
  job_.run_id = "sim";
  job_.nnodes_min = sizes[0];
  job_.nnodes_max = sizes[1];
  job_.max_restarts = static_cast<int>(world_.roll(4));
  job_.timeouts.join = 120s;
  job_.timeouts.last_call = 5s;
  direct_ = world_.roll(4) != 0;
  fail_percent_ = world_.roll(3) * 20;
  for (NodeId id = 0; id < kNodes; ++id)
    world_.after(world_.between(0ms, 3s), [this, id] { start_agent(id); });
}

void Cluster::note(const std::string& what) {
  const auto at =
      std::chrono::duration_cast<std::chrono::microseconds>(world_.now().time_since_epoch()).count();
  const std::string line = std::to_string(at) + " " + what + "\n";
  for (const char c : line) trace_ = (trace_ ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  story_ += line;
  if (story_.size() > 2 * kStoryBytes) story_.erase(0, kStoryBytes);
}

void Cluster::violate(const std::string& what) {
  note("VIOLATION " + what);
  if (violation_.empty()) violation_ = what;
}

// --- agents ---

void Cluster::start_agent(NodeId id) {
  Agent& a = agents_[static_cast<std::size_t>(id)];
  if (a.process != 0 || a.retired) return;
  a = Agent{};
  a.process = ++process_serial_;
  note("agent " + std::to_string(id) + " starts");
  auto& hello = a.config.hello;
  hello.run_id = job_.run_id;
  hello.incarnation = std::to_string(a.process);
  hello.host_name = "n" + std::to_string(id);
  hello.role = "default";
  hello.nnodes_min = job_.nnodes_min;
  hello.nnodes_max = job_.nnodes_max;
  hello.max_restarts = job_.max_restarts;
  a.config.timeouts = job_.timeouts;
  a.config.max_restarts = job_.max_restarts;
  a.config.endpoint = "n0:1";
  take(id, member_event::AgentReady{1});
}

/// `silently`: power loss, no packet leaves. Else the kernel closes what the process had open.
void Cluster::end_agent(NodeId id, bool silently) {
  Agent& a = agents_[static_cast<std::size_t>(id)];
  if (a.process == 0) return;
  note("agent " + std::to_string(id) + (silently ? " loses power" : " ends"));
  if (silently) {
    if (auto it = links_.find(a.link); it != links_.end()) it->second.agent_open = false;
  } else {
    hang_up(id);
  }
  const bool retired = a.retired;
  a = Agent{};
  a.retired = retired;
  if (id != 0 || server_.process == 0) return;
  for (auto& [link_id, link] : links_) {
    if (!link.server_open) continue;
    silently ? static_cast<void>(link.server_open = false) : server_closes(link_id);
  }
  server_ = Server{};
}

void Cluster::take(NodeId id, const MemberCoreEvent& event) {
  Agent& a = agents_[static_cast<std::size_t>(id)];
  if (a.process == 0) return;
  const auto process = a.process;
  auto next = step(a.config, std::move(a.state), event, world_.now());
  a.state = std::move(next.state);
  const auto wake = ++a.wake;
  if (next.wake_at != Time::max()) {
    world_.after(std::max(next.wake_at - world_.now(), Duration::zero()), [this, id, process, wake] {
      const Agent& now = agents_[static_cast<std::size_t>(id)];
      if (now.process == process && now.wake == wake) take(id, member_event::Tick{});
    });
  }
  for (const auto& action : next.actions) {
    if (agents_[static_cast<std::size_t>(id)].process == process) perform(id, action);
  }
}

void Cluster::perform(NodeId id, const MemberAction& action) {
  Agent& a = agents_[static_cast<std::size_t>(id)];
  if (std::holds_alternative<member_action::Attempt>(action)) return attempt(id);
  if (std::holds_alternative<member_action::HangUp>(action)) {
    ++a.attempt;
    return hang_up(id);
  }
  if (const auto* send = std::get_if<member_action::Send>(&action)) {
    const LinkId link = a.link;
    // Through the real encoding: what one side cannot say, the other must not hear.
    if (link != 0) {
      world_.send(id, 0, [this, link, bytes = wire::encode(send->message)] {
        const auto message = wire::decode(bytes);
        if (!message || !*message) return violate("a message that cannot be read: " + bytes);
        at_server(link, **message);
      });
    }
  }
  if (const auto* told = std::get_if<member_action::Deliver>(&action)) {
    const auto process = a.process;
    world_.after(10us, [this, id, process, event = std::make_shared<MemberEvent>(copy_event(told->event))] {
      if (agents_[static_cast<std::size_t>(id)].process == process) deliver(id, *event);
    });
  }
  if (std::holds_alternative<member_action::Left>(action)) {
    const auto process = a.process;
    world_.after(10us, [this, id, process] {
      if (agents_[static_cast<std::size_t>(id)].process == process) end_agent(id, false);
    });
  }
}

void Cluster::hang_up(NodeId id) {
  Agent& a = agents_[static_cast<std::size_t>(id)];
  const LinkId link_id = std::exchange(a.link, 0);
  const auto it = links_.find(link_id);
  if (it == links_.end() || !it->second.agent_open) return;
  it->second.agent_open = false;
  world_.send(id, 0, [this, link_id] {
    Link& link = links_.at(link_id);
    if (!link.server_open) return;
    link.server_open = false;
    if (link.server == server_.process && link.member != 0) serve(event::Cut{link.member});
  });
}

void Cluster::attempt(NodeId id) {
  Agent& a = agents_[static_cast<std::size_t>(id)];
  const auto process = a.process;
  const auto number = ++a.attempt;
  if (id == 0 && server_.process == 0) {
    server_ = Server{};
    server_.process = ++process_serial_;
    note("agent 0 hosts as " + std::to_string(server_.process));
    world_.after(job_.timeouts.keep_alive_interval, [this, s = server_.process] { sweep(s); });
  }
  const bool deaf = world_.is_cut(id, 0) || world_.is_cut(0, id);
  const Duration takes = deaf ? Duration(3s) : world_.between(50us, 5ms);
  world_.after(takes, [this, id, process, number] {
    Agent& now = agents_[static_cast<std::size_t>(id)];
    if (now.process != process || now.attempt != number) return;
    if (world_.is_cut(id, 0) || world_.is_cut(0, id))
      return take(id, member_event::AttemptFailed{"no answer", 0});
    if (server_.process == 0) return take(id, member_event::AttemptFailed{"refused", 0});
    now.link = ++link_serial_;
    Link link;
    link.node = id;
    link.agent = process;
    link.server = server_.process;
    links_[now.link] = link;
    now.server = link.server;
    take(id, member_event::Connected{"local " + std::to_string(now.link), "remote", "", {}});
  });
}

void Cluster::at_agent(LinkId link_id, const wire::Message& message) {
  const Link& link = links_.at(link_id);
  if (!link.agent_open || agents_[static_cast<std::size_t>(link.node)].process != link.agent) return;
  take(link.node, member_event::Received{message});
}

// --- workers ---

void Cluster::deliver(NodeId id, const MemberEvent& event) {
  if (const auto* e = std::get_if<Started>(&event)) on_started(id, e->world);
  if (std::holds_alternative<Stopped>(event)) on_stopped(id);
  if (const auto* e = std::get_if<Closed>(&event)) on_closed(id, *e);
  if (const auto* e = std::get_if<Fenced>(&event)) on_fenced(id, *e);
}

void Cluster::on_started(NodeId id, const World& world) {
  Agent& a = agents_[static_cast<std::size_t>(id)];
  if (a.ended) return violate("started after the end");
  if (a.workers)
    violate("node " + std::to_string(id) + " started a round while workers of the last one live");
  if (world.round <= a.last_round) violate("rounds went back on node " + std::to_string(id));
  a.workers = true;
  a.world = world;
  a.world_of = a.server;
  a.last_round = world.round;
  ++rounds_started_;
  note("node " + std::to_string(id) + " runs round " + std::to_string(world.round) + " as " +
       std::to_string(world.group_rank) + "/" + std::to_string(world.group_world_size));
  check_start(id);
  const auto process = a.process;
  // Each node's part names it, by round and rank: what comes back must be everybody's of this round, in
  // order.
  world_.after(world_.between(0ms, 2s), [this, id, process, round = world.round] {
    const Agent& now = agents_[static_cast<std::size_t>(id)];
    if (now.process != process || now.world.round != round) return;
    take(id,
         member_event::AgentFences{"f", std::to_string(round) + " " + std::to_string(now.world.group_rank)});
  });
  world_.after(world_.between(1s, 60s),
               [this, id, process, round = world.round] { worker_happens(id, process, round); });
}

void Cluster::on_fenced(NodeId id, const Fenced& fenced) {
  const Agent& a = agents_[static_cast<std::size_t>(id)];
  if (!fenced.error.empty() || fenced.round != a.world.round) return;
  ++fences_;
  if (static_cast<int>(fenced.blobs.size()) != a.world.group_world_size)
    violate("a fence without some parts");
  for (std::size_t rank = 0; rank < fenced.blobs.size(); ++rank) {
    if (fenced.blobs[rank] != std::to_string(fenced.round) + " " + std::to_string(rank))
      violate("a fence's part " + std::to_string(rank) + " is '" + fenced.blobs[rank] + "'");
  }
}

/// Ctrl-Z: the workers sleep, the agent stays awake.
void Cluster::suspend(NodeId id) {
  Agent& a = agents_[static_cast<std::size_t>(id)];
  if (a.process == 0 || !a.workers || a.ended) return;
  note("node " + std::to_string(id) + " is suspended");
  a.suspended = true;
  take(id, member_event::AgentSuspended{true});
  world_.after(world_.between(1s, 60s), [this, id, process = a.process] {
    Agent& now = agents_[static_cast<std::size_t>(id)];
    if (now.process != process) return;
    now.suspended = false;
    take(id, member_event::AgentSuspended{false});
  });
}

/// SIGTERM: said at once, then the workers are stopped, then the agent says goodbye.
void Cluster::leave(NodeId id) {
  Agent& a = agents_[static_cast<std::size_t>(id)];
  if (a.process == 0 || a.ended) return;
  note("node " + std::to_string(id) + " is asked to leave");
  const auto process = a.process;
  if (a.workers) take(id, member_event::AgentGoesAway{"SIGTERM"});
  a.suspended = false;
  world_.after(world_.between(0ms, kStopMax), [this, id, process] {
    Agent& now = agents_[static_cast<std::size_t>(id)];
    if (now.process != process) return;
    now.workers = false;
    take(id, member_event::AgentLeaves{Leaving::Politely, "SIGTERM", 2s});
  });
  world_.after(world_.between(3s, 30s), [this, id] { start_agent(id); });
}

void Cluster::worker_happens(NodeId id, std::uint64_t process, std::int64_t round) {
  const Agent& a = agents_[static_cast<std::size_t>(id)];
  if (a.process == process && a.suspended && a.workers) {  // it sleeps: later
    world_.after(1s, [this, id, process, round] { worker_happens(id, process, round); });
    return;
  }
  if (a.process != process || !a.workers || a.world.round != round || !a.state.running || a.ended) return;
  if (!faults_ || world_.roll(100) >= fail_percent_) return take(id, member_event::AgentDone{round});
  Failure f;
  f.round = round;
  f.rank = a.world.base_rank;
  f.host = a.config.hello.host_name;
  f.status = Exited{1 + id};
  f.own_exception = world_.roll(2) == 0;
  f.age = std::chrono::milliseconds(world_.roll(100));
  note("node " + std::to_string(id) + " fails");
  take(id, member_event::AgentFailed{f});
}

void Cluster::on_stopped(NodeId id) {
  const auto process = agents_[static_cast<std::size_t>(id)].process;
  note("node " + std::to_string(id) + " is told to stop");
  world_.after(world_.between(0ms, kStopMax), [this, id, process] {
    Agent& a = agents_[static_cast<std::size_t>(id)];
    if (a.process != process || a.ended) return;
    a.workers = a.suspended = false;
    if (!a.state.going_away) take(id, member_event::AgentReady{1});
  });
}

void Cluster::on_closed(NodeId id, const Closed& closed) {
  Agent& a = agents_[static_cast<std::size_t>(id)];
  if (a.ended) return violate("closed twice");
  a.ended = true;
  a.retired = true;
  note("node " + std::to_string(id) + " ends with " + std::to_string(closed.exit_code) + ": " +
       closed.reason);
  const auto process = a.process;
  world_.after(world_.between(0ms, kStopMax), [this, id, process] {
    Agent& now = agents_[static_cast<std::size_t>(id)];
    if (now.process != process) return;
    now.workers = false;
    if (id != 0) return end_agent(id, false);
    // The host stays until all were told.
    const auto told = [this] {
      return std::none_of(links_.begin(), links_.end(), [this](const auto& entry) {
        return entry.second.server == server_.process && entry.second.server_open && entry.second.node != 0;
      });
    };
    if (server_.process == 0 || told()) return end_agent(id, false);
    world_.after(10s, [this, id, process] {
      if (agents_[static_cast<std::size_t>(id)].process == process) end_agent(id, false);
    });
  });
}

void Cluster::check_start(NodeId id) {
  const Agent& a = agents_[static_cast<std::size_t>(id)];
  const World& w = a.world;
  if (w.group_world_size < job_.nnodes_min || w.group_world_size > job_.nnodes_max)
    violate("size out of range");
  if (w.restart_count > job_.max_restarts) violate("more restarts than allowed");
  auto& known = worlds_[{a.world_of, w.round}];
  for (const auto& [rank, other] : known) {
    if (rank == w.group_rank) violate("two nodes with group rank " + std::to_string(rank));
    if (other.second.group_world_size != w.group_world_size ||
        other.second.restart_count != w.restart_count || other.second.master_port != w.master_port) {
      violate("nodes of one round disagree");
    }
  }
  known[w.group_rank] = {id, w};
  for (NodeId other = 0; other < kNodes; ++other) {
    const Agent& b = agents_[static_cast<std::size_t>(other)];
    const bool same = b.world_of == a.world_of && b.world.round == w.round;
    const bool older = b.world_of < a.world_of || (b.world_of == a.world_of && b.world.round < w.round);
    if (b.workers && !same && older && !b.ended) {
      violate("two worlds: node " + std::to_string(other) + " still runs round " +
              std::to_string(b.world.round));
    }
  }
}

// --- coordinator ---

Cluster::Link* Cluster::link_of_member(MemberId member, LinkId* id) {
  for (auto it = links_.rbegin(); it != links_.rend(); ++it) {
    Link& link = it->second;
    if (link.server == server_.process && link.member == member && link.server_open) {
      if (id != nullptr) *id = it->first;
      return &link;
    }
  }
  return nullptr;
}

void Cluster::serve(const CoordinatorEvent& event) {
  if (server_.process == 0) return;
  const auto process = server_.process;
  auto next = step(job_, std::move(server_.state), event, world_.now());
  server_.state = std::move(next.state);
  const auto wake = ++server_.wake;
  if (next.wake_at != Time::max()) {
    if (next.wake_at <= world_.now()) violate("the coordinator wants to wake up at once, for ever");
    world_.after(std::max(next.wake_at - world_.now(), Duration(1)), [this, process, wake] {
      if (server_.process == process && server_.wake == wake) serve(event::Tick{});
    });
  }
  for (const auto& action : next.actions) {
    if (const auto* n = std::get_if<action::Note>(&action)) note("coordinator: " + n->sentence);
    if (const auto* r = std::get_if<action::Rename>(&action)) {
      if (Link* link = link_of_member(r->connection)) link->member = r->id;
    }
    LinkId id = 0;
    if (const auto* send = std::get_if<action::Send>(&action);
        send != nullptr && link_of_member(send->to, &id)) {
      world_.send(0, links_.at(id).node, [this, id, bytes = wire::encode(send->message)] {
        const auto message = wire::decode(bytes);
        if (!message || !*message) return violate("a message that cannot be read: " + bytes);
        at_agent(id, **message);
      });
    }
    if (const auto* drop = std::get_if<action::Drop>(&action);
        drop != nullptr && link_of_member(drop->id, &id)) {
      server_closes(id);
    }
  }
}

void Cluster::server_closes(LinkId id) {
  Link& link = links_.at(id);
  link.server_open = false;
  world_.send(0, link.node, [this, id] {
    Link& now = links_.at(id);
    if (!now.agent_open) return;
    now.agent_open = false;
    Agent& a = agents_[static_cast<std::size_t>(now.node)];
    if (a.process != now.agent || a.link != id) return;
    a.link = 0;
    take(now.node, member_event::Disconnected{true, "closed by the other side"});
  });
}

void Cluster::at_server(LinkId id, const wire::Message& message) {
  Link& link = links_.at(id);
  if (!link.server_open || link.server != server_.process) return;
  link.heard = world_.now();
  if (const auto* hello = std::get_if<wire::Hello>(&message); hello != nullptr && link.member == 0) {
    link.member = id;
    wire::Welcome welcome;
    welcome.direct = direct_;
    world_.send(0, link.node, [this, id, welcome] { at_agent(id, welcome); });
    const std::string address = "10.0.0." + std::to_string(link.node + 1);
    return serve(event::Joined{id, *hello, rendezvous::Link{address, "10.0.0.1", direct_, link.node == 0}});
  }
  const MemberId member = link.member;
  if (member == 0) return;
  if (std::holds_alternative<wire::KeepAlive>(message)) {
    world_.send(0, link.node, [this, id] { at_agent(id, wire::KeepAlive{}); });
  }
  if (const auto* m = std::get_if<wire::Ready>(&message)) serve(event::Ready{member, *m});
  if (const auto* m = std::get_if<wire::Failed>(&message)) serve(event::Failed{member, m->failure});
  if (const auto* m = std::get_if<wire::Done>(&message)) serve(event::Done{member, m->round});
  if (const auto* m = std::get_if<wire::Leave>(&message)) serve(event::Left{member, *m});
  if (const auto* m = std::get_if<wire::GoingAway>(&message)) serve(event::GoingAway{member, *m});
  if (const auto* m = std::get_if<wire::Fence>(&message)) serve(event::FencePart{member, *m});
  if (const auto* m = std::get_if<wire::Suspended>(&message)) serve(event::Suspended{member, m->suspended});
}

void Cluster::sweep(std::uint64_t process) {
  if (server_.process != process) return;
  std::vector<MemberId> silent;
  for (const auto& [id, link] : links_) {
    const bool over = world_.now() - link.heard >= Duration(4s);
    if (link.server == process && link.server_open && link.member != 0 && over) silent.push_back(link.member);
  }
  for (const MemberId member : silent) {
    serve(event::Silent{member});
    LinkId id = 0;
    if (link_of_member(member, &id)) server_closes(id);
  }
  world_.after(1s, [this, process] { sweep(process); });
}

// --- faults ---

void Cluster::fault() {
  if (!faults_) return;
  const auto node = static_cast<NodeId>(world_.roll(kNodes));
  const auto kind = world_.roll(11);
  if (kind < 3) {
    end_agent(node, world_.roll(3) == 0);
    world_.after(world_.between(100ms, 40s), [this, node] { start_agent(node); });
  } else if (kind < 8 && node != 0) {
    const bool out = world_.roll(3) != 0;
    const bool in = !out || world_.roll(2) == 0;
    note("cut " + std::to_string(node) + (out ? " out" : "") + (in ? " in" : ""));
    if (out) world_.cut(node, 0);
    if (in) world_.cut(0, node);
    world_.after(world_.between(100ms, 20s), [this, node] {
      world_.heal(node, 0);
      world_.heal(0, node);
    });
  } else if (kind == 8) {
    leave(node);
  } else if (kind == 9) {
    suspend(node);
  }
  world_.after(world_.between(500ms, 40s), [this] { fault(); });
}

void Cluster::run_with_faults(Duration how_long) {
  world_.after(world_.between(1s, 10s), [this] { fault(); });
  world_.run(world_.now() + how_long, [this] { return !violation_.empty(); });
}

void Cluster::heal_and_run(Duration limit) {
  faults_ = false;
  note("healed");
  world_.heal_all();
  for (NodeId id = 0; id < kNodes; ++id) world_.after(1ms, [this, id] { start_agent(id); });
  world_.run(world_.now() + limit, [this] { return settled() || !violation_.empty(); });
}

bool Cluster::settled() const {
  return std::all_of(agents_.begin(), agents_.end(),
                     [](const Agent& a) { return a.retired && a.process == 0; });
}

}  // namespace cxxrun::sim
