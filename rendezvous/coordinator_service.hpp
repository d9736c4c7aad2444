// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/event_loop.hpp"
#include "net/connection.hpp"
#include "net/socket.hpp"
#include "rendezvous/coordinator_server.hpp"
#include "rendezvous/line_limiter.hpp"

namespace cxxrun::rendezvous {

/// Datagrams between the server's thread and its owner, who live in one process.
namespace mail {
enum class Kind : std::uint32_t { Serve, End, StoreClient, Note };
struct Letter {
  Kind kind = Kind::End;
  int fd = -1;  ///< StoreClient: the socket, which changes hands
  std::uint32_t size = 0;
  std::array<char, 4096> bytes{};  ///< StoreClient: what was read from it; Note: the text
};
inline constexpr std::size_t kHeaderBytes = offsetof(Letter, bytes);
}  // namespace mail

/// What runs on the server's thread: sockets in, the coordinator's decisions, frames out.
class CoordinatorService {
 public:
  CoordinatorService(std::string id, UniqueFd mailbox, std::vector<net::Listener> listeners,
                     CoordinatorServer::Options options);
  CoordinatorService(const CoordinatorService&) = delete;
  /// Until the owner says End and all are told.
  void run();

 private:
  using SessionId = std::uint64_t;
  struct Session {
    // First bytes, until it is known who calls.
    UniqueFd socket;
    EventLoop::Watch watch;
    std::string head;
    bool http = false;
    // An agent.
    std::unique_ptr<net::Connection> connection;
    std::string auth_client_nonce;
    std::string auth_server_nonce;
    std::string unproven;  ///< it was asked for the token and has not proved it yet: who it is
    bool authenticated = false;
    bool leaving = false;  ///< we said all; the peer's end is expected
    MemberId member = 0;   ///< 0: not yet
    Duration silence_max{0};
    event::LastMemory memory;
    EventLoop::Timer deadline;  ///< of the handshake, or of leaving
  };

  // coordinator_service.cpp: connections
  void watch_listeners();
  void on_connection(int listener);
  void on_mail();
  void admit(UniqueFd socket);
  void read_head(SessionId id);
  void decide_protocol(SessionId id);
  void answer_http(SessionId id);
  void hand_to_store(SessionId id);
  void become_agent(SessionId id);
  void complain(const std::string& what);  ///< about somebody who may be a stranger: bounded in rate
  void forget(SessionId id);
  void check_end();

  // coordinator_sessions.cpp: agents
  void on_frame(SessionId id, std::string_view body);
  void on_message(SessionId id, Session& session, const wire::Message& message);
  bool authenticate(SessionId id, Session& session, const wire::Message& message);
  void on_hello(SessionId id, Session& session, const wire::Hello& hello);
  void on_end(SessionId id, const net::End& end);
  void refuse(SessionId id, Session& session, int code, bool retry, std::string sentence);
  void let_go(SessionId id);
  void take(const CoordinatorEvent& event);
  void perform(action::Send& send);
  void perform(const action::Drop& drop);
  void perform(const action::Rename& rename);
  void perform(const action::Note& note);
  void sweep();
  static std::string caller(const Session& session);
  Link link_of(const Session& session, const wire::Hello& hello) const;

  std::string id_;
  UniqueFd mailbox_;
  std::vector<net::Listener> listeners_;
  CoordinatorServer::Options options_;
  EventLoop loop_;
  CoordinatorState state_;
  std::map<SessionId, Session> sessions_;
  std::map<MemberId, SessionId> by_member_;
  std::set<SessionId> handshaking_;
  SessionId serial_ = 0;
  bool ending_ = false;
  LineLimiter complaints_;
  std::vector<EventLoop::Watch> watches_;
  EventLoop::Watch mail_watch_;
  EventLoop::Timer tick_;
  EventLoop::Timer sweep_;
  EventLoop::Timer end_;
  EventLoop::Timer accept_again_;
};

}  // namespace cxxrun::rendezvous
