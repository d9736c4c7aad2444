// SPDX-License-Identifier: Apache-2.0
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "base/limits.hpp"
#include "rendezvous/coordinator_service.hpp"
#include "rendezvous/secret.hpp"

namespace cxxrun::rendezvous {
namespace {

constexpr Duration kGoodbyeLimit = 2s;  // for a peer that does not close its side
constexpr int kRefused = 69;
constexpr std::size_t kKeepAlivesPerSecondMax = 500;

std::string view(const net::Address& address, std::uint16_t port) {
  return net::text(address) + " " + std::to_string(port);
}

}  // namespace

void CoordinatorService::on_frame(SessionId id, std::string_view body) {
  Session& session = sessions_.at(id);
  if (session.leaving) return;
  auto message = wire::decode(body);
  if (!message) {
    complain(caller(session) + " sent a bad message (" + message.error().message + "); closed");
    return refuse(id, session, kRefused, false, "bad message: " + message.error().message);
  }
  if (!*message) return;  // of a later version
  session.connection->cork();
  on_message(id, session, **message);
  if (const auto it = sessions_.find(id); it != sessions_.end()) it->second.connection->uncork();
}

void CoordinatorService::on_message(SessionId id, Session& session, const wire::Message& message) {
  if (session.member != 0) {
    const MemberId member = session.member;
    if (const auto* alive = std::get_if<wire::KeepAlive>(&message)) {
      session.memory = {alive->memory, EventLoop::now()};
      return session.connection->send(wire::encode(wire::KeepAlive{}));
    }
    if (const auto* m = std::get_if<wire::Ready>(&message)) return take(event::Ready{member, *m});
    if (const auto* m = std::get_if<wire::Failed>(&message)) return take(event::Failed{member, m->failure});
    if (const auto* m = std::get_if<wire::Done>(&message)) return take(event::Done{member, m->round});
    if (const auto* m = std::get_if<wire::Leave>(&message)) return take(event::Left{member, *m});
    if (const auto* m = std::get_if<wire::GoingAway>(&message)) return take(event::GoingAway{member, *m});
    if (const auto* m = std::get_if<wire::Fence>(&message)) return take(event::FencePart{member, *m});
    if (const auto* m = std::get_if<wire::Suspended>(&message))
      return take(event::Suspended{member, m->suspended});
    return;
  }
  if (!options_.token.empty() && !session.authenticated && !authenticate(id, session, message)) return;
  if (std::holds_alternative<wire::AuthBegin>(message) && options_.token.empty()) {
    complain(caller(session) + " is refused: it has a token, the job has none");
    return refuse(id, session, kRefused, false,
                  "wrong token: this node has one, the job has none (CXXRUN_TOKEN)");
  }
  if (std::holds_alternative<wire::Probe>(message)) {
    return session.connection->send(wire::encode(wire::Probed{id_, options_.serving}));
  }
  if (const auto* hello = std::get_if<wire::Hello>(&message)) on_hello(id, session, *hello);
}

/// True when the conversation may go on with this message.
bool CoordinatorService::authenticate(SessionId id, Session& session, const wire::Message& message) {
  if (const auto* begin = std::get_if<wire::AuthBegin>(&message)) {
    session.unproven = caller(session);
    session.auth_client_nonce = begin->nonce;
    session.auth_server_nonce = random_hex(16);
    const auto proof = server_proof(options_.token, begin->nonce, session.auth_server_nonce);
    session.connection->send(wire::encode(wire::Challenge{session.auth_server_nonce, proof}));
    return false;
  }
  if (const auto* answer = std::get_if<wire::Proof>(&message);
      answer != nullptr && !session.auth_server_nonce.empty()) {
    const auto wanted = client_proof(options_.token, session.auth_client_nonce, session.auth_server_nonce);
    if (equal_secret(wanted, answer->proof)) {
      session.authenticated = true;
      session.unproven.clear();
      return false;
    }
  }
  complain(caller(session) + " is refused: wrong token, or none (CXXRUN_TOKEN)");
  refuse(id, session, kRefused, false,
         "wrong token: the job has another one, or this node has none (CXXRUN_TOKEN)");
  return false;
}

Link CoordinatorService::link_of(const Session& session, const wire::Hello& hello) const {
  Link link;
  const auto ends = net::ends(session.connection->fd());
  if (!ends) {
    link.direct = false;
    return link;
  }
  link.member_address = net::text(ends->remote);
  link.server_address = net::text(ends->local);
  link.direct = hello.own_local == view(ends->remote, ends->remote_port) &&
                hello.own_remote == view(ends->local, ends->local_port);
  link.host = !options_.host_incarnation.empty() && hello.incarnation == options_.host_incarnation;
  return link;
}

void CoordinatorService::on_hello(SessionId id, Session& session, const wire::Hello& hello) {
  if (!options_.serving)
    return refuse(id, session, kRefused, true, "this node does not know yet whether it is the host");
  const auto& t = options_.core.timeouts;
  // All members together must not send more than the host can take.
  const auto fair = std::chrono::milliseconds(by_member_.size() * 1000 / kKeepAlivesPerSecondMax);
  const auto interval = std::max(t.keep_alive_interval, fair);
  wire::Welcome welcome;
  welcome.coordinator = id_;
  welcome.hosted = options_.core.hosted;
  welcome.keep_alive_interval_ms = interval.count();
  welcome.keep_alive_max_attempt = t.keep_alive_max_attempt;
  const Link link = link_of(session, hello);
  welcome.direct = link.direct && !hello.proxied;
  session.connection->send(wire::encode(welcome));
  session.member = id;
  session.silence_max = interval * t.keep_alive_max_attempt;
  session.deadline.reset();
  session.connection->set_frame_bytes_max(limits::kFrameBytesMax);
  handshaking_.erase(id);
  by_member_[id] = id;
  if (!sweep_) sweep_ = loop_.after(t.keep_alive_interval, [this] { sweep(); });
  take(event::Joined{id, hello, link});
}

void CoordinatorService::on_end(SessionId id, const net::End& end) {
  const auto it = sessions_.find(id);
  const MemberId member = it->second.leaving ? 0 : it->second.member;
  // A node whose token is another one sees so first, in our proof, and goes without a word.
  if (!it->second.leaving && !it->second.unproven.empty())
    complain(it->second.unproven +
             " went when it was asked for the token: it has another one? (CXXRUN_TOKEN)");
  const event::LastMemory memory = it->second.memory;
  forget(id);
  if (member != 0) {
    by_member_.erase(member);
    const bool peer_ended = end.kind == net::EndKind::Fin || end.kind == net::EndKind::Reset;
    peer_ended ? take(event::Cut{member, memory}) : take(event::Silent{member, memory});
  }
  check_end();
}

void CoordinatorService::refuse(SessionId id, Session& session, int code, bool retry, std::string sentence) {
  session.connection->send(wire::encode(wire::Refused{code, retry, std::move(sentence)}));
  let_go(id);
}

/// All is said: the peer closes when it has read it.
void CoordinatorService::let_go(SessionId id) {
  Session& session = sessions_.at(id);
  if (session.member != 0) by_member_.erase(session.member);
  session.leaving = true;
  session.connection->finish();
  session.deadline = loop_.after(kGoodbyeLimit, [this, id] {
    forget(id);
    check_end();
  });
}

void CoordinatorService::take(const CoordinatorEvent& event) {
  auto next = step(options_.core, std::move(state_), event, EventLoop::now());
  state_ = std::move(next.state);
  tick_ = next.wake_at == Time::max() ? EventLoop::Timer{}
                                      : loop_.at(next.wake_at, [this] { take(event::Tick{}); });
  for (auto& action : next.actions) std::visit([&](auto& a) { perform(a); }, action);
  check_end();
}

void CoordinatorService::perform(action::Send& send) {
  const auto it = by_member_.find(send.to);
  if (it != by_member_.end()) sessions_.at(it->second).connection->send(wire::encode(send.message));
}

void CoordinatorService::perform(const action::Drop& drop) {
  if (const auto it = by_member_.find(drop.id); it != by_member_.end()) let_go(it->second);
}

void CoordinatorService::perform(const action::Rename& rename) {
  const auto it = by_member_.find(rename.connection);
  if (it == by_member_.end()) return;
  const SessionId session = it->second;
  by_member_.erase(it);
  by_member_[rename.id] = session;
  sessions_.at(session).member = rename.id;
}

void CoordinatorService::perform(const action::Note& note) {
  if (note.told || (note.stranger && !complaints_.may_say(note.sentence, EventLoop::now()))) return;
  mail::Letter letter;
  letter.kind = mail::Kind::Note;
  letter.size = static_cast<std::uint32_t>(std::min(note.sentence.size(), letter.bytes.size()));
  std::memcpy(letter.bytes.data(), note.sentence.data(), letter.size);
  // An owner that does not read loses notes, nothing else.
  (void)!::send(mailbox_.get(), &letter, mail::kHeaderBytes + letter.size, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/// Whoever said nothing for too long is lost. One timer for all.
void CoordinatorService::sweep() {
  const Time now = EventLoop::now();
  std::vector<MemberId> silent;
  for (const auto& [member, session] : by_member_) {
    const Session& s = sessions_.at(session);
    const auto known = state_.members.find(member);
    const bool suspended = known != state_.members.end() && known->second.suspended;
    if (!suspended && now - s.connection->last_heard() >= s.silence_max) silent.push_back(member);
  }
  for (const MemberId member : silent) {
    const auto known = by_member_.find(member);
    take(event::Silent{member,
                       known == by_member_.end() ? event::LastMemory{} : sessions_.at(known->second).memory});
    if (const auto it = by_member_.find(member); it != by_member_.end())
      let_go(it->second);  // e.g. after the end
  }
  if (!by_member_.empty())
    sweep_ = loop_.after(options_.core.timeouts.keep_alive_interval, [this] { sweep(); });
}

}  // namespace cxxrun::rendezvous
