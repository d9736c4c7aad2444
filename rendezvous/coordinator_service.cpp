// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator_service.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/limits.hpp"
#include "rendezvous/status_page.hpp"

namespace cxxrun::rendezvous {
namespace {

constexpr Duration kAcceptPause = 100ms;  // out of descriptors: some may be free again by then
constexpr Duration kComplainGap = 60s;
constexpr std::size_t kComplaintsMax = 12;  // of different lines in that time
constexpr Duration kFlushLimit = 500ms;     // not closed, and our owner ends: what was said still goes out
constexpr int kAcceptsPerTurnMax = 64;
constexpr unsigned char kTlsHandshake = 0x16;
constexpr unsigned char kStoreOpcodeMax = 0x0f;  // TCPStore begins with an opcode: 0 in today's dialect

}  // namespace

CoordinatorService::CoordinatorService(std::string id, UniqueFd mailbox, std::vector<net::Listener> listeners,
                                       CoordinatorServer::Options options)
    : id_(std::move(id)),
      mailbox_(std::move(mailbox)),
      listeners_(std::move(listeners)),
      options_(std::move(options)),
      complaints_(kComplainGap, kComplaintsMax) {
  mail_watch_ = loop_.watch(mailbox_.get(), EPOLLIN, [this](std::uint32_t) { on_mail(); });
  watch_listeners();
}

void CoordinatorService::run() { loop_.run(); }

void CoordinatorService::watch_listeners() {
  watches_.clear();
  for (const auto& listener : listeners_) {
    const int fd = listener.fd.get();
    watches_.push_back(loop_.watch(fd, EPOLLIN, [this, fd](std::uint32_t) { on_connection(fd); }));
  }
}

void CoordinatorService::on_mail() {
  mail::Letter letter;
  const ssize_t n = ::recv(mailbox_.get(), &letter, sizeof letter, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n >= static_cast<ssize_t>(mail::kHeaderBytes) && letter.kind == mail::Kind::Serve) {
    options_.serving = true;
    return;
  }
  ending_ = true;
  mail_watch_.reset();
  const Duration limit = state_.phase == Phase::Closed ? Duration(options_.core.timeouts.close) : kFlushLimit;
  end_ = loop_.after(limit, [this] { loop_.stop(); });
  check_end();
}

/// Our owner is gone: all were told, or nothing more can be said.
void CoordinatorService::check_end() {
  if (!ending_) return;
  const bool told = state_.phase == Phase::Closed
                        ? by_member_.empty()
                        : std::all_of(sessions_.begin(), sessions_.end(), [](const auto& s) {
                            return !s.second.connection || s.second.connection->all_sent();
                          });
  if (told) loop_.stop();
}

void CoordinatorService::on_connection(int listener) {
  for (int i = 0; i < kAcceptsPerTurnMax; ++i) {
    auto socket = net::accept(listener);
    if (!socket) {
      complain("cannot take more connections: " + socket.error().message);
      watches_.clear();
      accept_again_ = loop_.after(kAcceptPause, [this] { watch_listeners(); });
      return;
    }
    if (!*socket) return;
    admit(std::move(**socket));
  }
}

void CoordinatorService::admit(UniqueFd socket) {
  if (handshaking_.size() >= limits::kHandshakingConnectionsMax) {
    complain("too many connections that say nothing; the oldest is closed");
    forget(*handshaking_.begin());
  }
  const SessionId id = ++serial_;
  Session& session = sessions_[id];
  session.socket = std::move(socket);
  session.deadline = loop_.after(limits::kHelloTimeout, [this, id] { forget(id); });
  session.watch = loop_.watch(session.socket.get(), EPOLLIN, [this, id](std::uint32_t) { read_head(id); });
  handshaking_.insert(id);
  read_head(id);  // most clients have spoken by now
}

void CoordinatorService::forget(SessionId id) {
  handshaking_.erase(id);
  sessions_.erase(id);
}

void CoordinatorService::read_head(SessionId id) {
  Session& session = sessions_.at(id);
  std::array<char, 2048> buffer;
  const ssize_t n = ::recv(session.socket.get(), buffer.data(), buffer.size(), 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) return forget(id);
  session.head.append(buffer.data(), static_cast<std::size_t>(n));
  session.http ? answer_http(id) : decide_protocol(id);
}

void CoordinatorService::decide_protocol(SessionId id) {
  Session& session = sessions_.at(id);
  const auto first = static_cast<unsigned char>(session.head.front());
  const std::string_view magic = wire::kMagic.substr(0, std::min(session.head.size(), wire::kMagic.size()));
  if (session.head.starts_with(magic)) {
    if (session.head.size() >= wire::kMagic.size()) become_agent(id);
  } else if (first <= kStoreOpcodeMax) {
    hand_to_store(id);
  } else if (first == kTlsHandshake) {
    complain(caller(session) + " speaks TLS to the rendezvous port, which does not; closed");
    forget(id);
  } else if (first >= 'A' && first <= 'Z') {
    session.http = true;
    answer_http(id);
  } else {
    complain(caller(session) + " sent bytes to the rendezvous port that are no protocol of it; closed");
    forget(id);
  }
}

void CoordinatorService::answer_http(SessionId id) {
  Session& session = sessions_.at(id);
  const auto end = session.head.find("\r\n\r\n");
  if (end == std::string::npos && session.head.size() < limits::kHttpHeadBytesMax) return;
  const std::string answer = end == std::string::npos
                                 ? "HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\n\r\n"
                                 : http_answer(std::string_view(session.head).substr(0, end), options_.token,
                                               options_.core, state_, EventLoop::now());
  // The connection sends what the kernel does not take at once; requests after the first are ignored.
  session.watch.reset();
  session.leaving = true;
  session.connection = std::make_unique<net::Connection>(
      loop_, std::move(session.socket), 0,
      net::Connection::Handlers{[](std::string_view) {}, [this, id](const net::End&) { forget(id); }});
  session.connection->send_raw(answer);
  session.connection->finish();
}

void CoordinatorService::hand_to_store(SessionId id) {
  Session& session = sessions_.at(id);
  mail::Letter letter;
  letter.kind = mail::Kind::StoreClient;
  letter.fd = session.socket.get();
  letter.size = static_cast<std::uint32_t>(std::min(session.head.size(), letter.bytes.size()));
  std::memcpy(letter.bytes.data(), session.head.data(), letter.size);
  session.watch.reset();
  if (!options_.store_clients) {
    complain(
        caller(session) +
        " came to the rendezvous port as a worker store client; the store is at MASTER_ADDR:MASTER_PORT");
  } else if (::send(mailbox_.get(), &letter, mail::kHeaderBytes + letter.size, MSG_NOSIGNAL | MSG_DONTWAIT) >
             0) {
    (void)session.socket.release();
  }
  forget(id);
}

void CoordinatorService::become_agent(SessionId id) {
  Session& session = sessions_.at(id);
  session.watch.reset();
  session.connection = std::make_unique<net::Connection>(
      loop_, std::move(session.socket), limits::kHelloBytesMax,
      net::Connection::Handlers{[this, id](std::string_view body) { on_frame(id, body); },
                                [this, id](const net::End& end) { on_end(id, end); }});
  session.connection->cork();  // until the first answer
  session.connection->send_raw(wire::kMagic);
  session.connection->feed(std::string_view(session.head).substr(wire::kMagic.size()));
  session.head.clear();
}

/// "a client at 10.77.0.254".
std::string CoordinatorService::caller(const Session& session) {
  const auto ends = net::ends(session.connection ? session.connection->fd() : session.socket.get());
  return ends ? "a client at " + net::text(ends->remote) : "a client";
}

void CoordinatorService::complain(const std::string& what) { perform(action::Note{what, false, true}); }

}  // namespace cxxrun::rendezvous
