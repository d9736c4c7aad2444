// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/coordinator.hpp"
#include "rendezvous/member_core.hpp"
#include "sim_world.hpp"

namespace cxxrun::sim {

/// Nodes with agents and workers, and the coordinator in the agent of node 0: the real decisions of both
/// sides, on a simulated network. Checks after each event what must always hold; a violation is kept as text.
class Cluster {
 public:
  static constexpr int kNodes = 5;

  explicit Cluster(std::uint64_t seed);

  void run_with_faults(Duration how_long);
  /// No faults from here on, every node runs; then time passes until all have ended, or `limit`.
  void heal_and_run(Duration limit);
  [[nodiscard]] bool settled() const;
  [[nodiscard]] const std::string& violation() const { return violation_; }
  [[nodiscard]] std::uint64_t trace() const { return trace_; }  ///< hash of everything that happened
  [[nodiscard]] int fences() const { return fences_; }          ///< answered
  [[nodiscard]] int rounds_started() const { return rounds_started_; }
  [[nodiscard]] const std::string& story() const { return story_; }  ///< last events, for a failure

 private:
  /// A connection from an agent to the coordinator. Ends are told apart by the process that holds them.
  struct Link {
    NodeId node = 0;
    std::uint64_t agent = 0;   ///< process number of the agent
    std::uint64_t server = 0;  ///< process number of the coordinator
    bool agent_open = true;
    bool server_open = true;
    rendezvous::MemberId member = 0;
    Time heard = Time::max();
  };
  using LinkId = std::uint64_t;

  struct Agent {
    std::uint64_t process = 0;  ///< 0: not running
    rendezvous::MemberConfig config;
    rendezvous::MemberState state;
    LinkId link = 0;
    std::uint64_t server = 0;   ///< coordinator process of its latest connection
    std::uint64_t wake = 0;     ///< number of the latest wake-up
    std::uint64_t attempt = 0;  ///< number of the latest attempt
    bool workers = false;       ///< alive, perhaps stopping
    World world;
    std::uint64_t world_of = 0;  ///< coordinator process of `world`
    bool ended = false;          ///< Closed was delivered
    bool retired = false;        ///< its job is over: nobody starts it again
    std::int64_t last_round = -1;
    bool suspended = false;  ///< its workers sleep
  };
  struct Server {
    std::uint64_t process = 0;  ///< 0: none
    rendezvous::CoordinatorState state;
    std::uint64_t wake = 0;
  };

  // agents
  void start_agent(NodeId id);
  void end_agent(NodeId id, bool silently);
  void take(NodeId id, const rendezvous::MemberCoreEvent& event);
  void perform(NodeId id, const rendezvous::MemberAction& action);
  void attempt(NodeId id);
  void deliver(NodeId id, const rendezvous::MemberEvent& event);
  void on_started(NodeId id, const World& world);
  void on_stopped(NodeId id);
  void on_closed(NodeId id, const rendezvous::Closed& closed);
  void on_fenced(NodeId id, const rendezvous::Fenced& fenced);
  void suspend(NodeId id);
  void leave(NodeId id);
  void worker_happens(NodeId id, std::uint64_t process, std::int64_t round);
  void hang_up(NodeId id);

  // coordinator
  void serve(const rendezvous::CoordinatorEvent& event);
  void at_server(LinkId link, const rendezvous::wire::Message& message);
  void at_agent(LinkId link, const rendezvous::wire::Message& message);
  void server_closes(LinkId link);
  void sweep(std::uint64_t process);
  Link* link_of_member(rendezvous::MemberId member, LinkId* id = nullptr);

  // faults and checks
  void fault();
  void check_start(NodeId id);
  void violate(const std::string& what);
  void note(const std::string& what);

  SimWorld world_;
  rendezvous::CoordinatorConfig job_;
  bool faults_ = true;
  bool direct_ = true;
  unsigned fail_percent_ = 20;
  std::vector<Agent> agents_{kNodes};
  Server server_;
  std::map<LinkId, Link> links_;
  LinkId link_serial_ = 0;
  std::uint64_t process_serial_ = 0;
  std::map<std::pair<std::uint64_t, std::int64_t>, std::map<int, std::pair<NodeId, World>>> worlds_;
  std::map<std::uint64_t, int> exit_codes_;  ///< by coordinator process
  std::string violation_;
  std::string story_;
  std::uint64_t trace_ = 1469598103934665603ull;
  int rounds_started_ = 0;
  int fences_ = 0;
};

}  // namespace cxxrun::sim
