// SPDX-License-Identifier: Apache-2.0
// How connections come: accept, adoption, admission, and the time that a handshake may take.
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "store/daemon.hpp"

namespace cxxrun::store {
namespace {

constexpr int kAcceptsPerTurnMax = 64;  // those that are accepted get served before the next come
constexpr std::size_t kReportedMax = 1'024;

}  // namespace

UniqueFd Daemon::open_spare() { return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

bool Daemon::watch_new(int fd, std::uint32_t events, std::uint64_t id) {
  epoll_event event{.events = events, .data = {.u64 = id}};
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

void Daemon::on_accept() {
  for (int i = 0; i < kAcceptsPerTurnMax; ++i) {
    UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket) {
      // A client that comes after admit() has returned meets that list, whatever epoll reports first.
      if (commands_.has_mail()) on_commands();
      adopt(std::move(socket), {});  // the options of the listener were inherited
    } else if (errno == EMFILE || errno == ENFILE) {
      shed_connection();
    } else if (errno != EINTR && errno != ECONNABORTED) {
      return;
    }
  }
}

/// Without this a client that cannot be accepted would wait for ever, and we would spin. Closed, it tries
/// again.
void Daemon::shed_connection() {
  spare_.reset();
  const UniqueFd shed(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  spare_ = open_spare();
}

void Daemon::adopt(UniqueFd socket, std::string_view first) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getpeername(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return;  // gone already
  const auto peer = address_bytes(address);
  if (!peer) return;
  if (free_ids_.empty()) {
    free_ids_.push_back(static_cast<ClientId>(connections_.size()));
    connections_.emplace_back();
  }
  const ClientId id = free_ids_.back();
  auto connection = std::make_unique<Connection>();
  connection->id = id;
  connection->serial = ++serial_;
  connection->peer = *peer;
  connection->socket = std::move(socket);
  if (!watch_new(connection->socket.get(), 0, id)) return;
  free_ids_.pop_back();
  Connection& c = *(connections_[id] = std::move(connection));
  c.input.append(first);
  if (!account(c)) return;
  if (admitted(c)) {
    begin(c);
  } else if (!admission_ && held_.size() < options_.held_max) {
    c.stage = Stage::Held;
    held_.push_back(id);
  } else {
    refuse(c);
  }
}

/// Whoever speaks from an address of this host is on this host.
bool Daemon::admitted(const Connection& c) const {
  if (admission_ ? admission_->allows(c.peer) : Admission().allows(c.peer)) return true;
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(c.socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return false;
  return address_bytes(address) == c.peer;
}

void Daemon::admit(const Admission& admission) {
  admission_ = admission;
  for (const ClientId id : std::exchange(held_, {})) {
    Connection& c = *connections_[id];
    if (admitted(c)) {
      begin(c);
    } else {
      refuse(c);
    }
  }
}

void Daemon::refuse(Connection& c) {
  if (reported_.size() < kReportedMax && reported_.insert(c.peer).second) refused_.put(text(c.peer));
  close(c);
}

void Daemon::begin(Connection& c) {
  c.stage = Stage::Handshake;
  ++handshaking_;
  handshakes_.push_back({std::chrono::steady_clock::now() + options_.handshake_timeout, c.id, c.serial});
  while (handshaking_ > options_.handshakes_max) {
    if (!is_over(handshakes_.front())) close(*connections_[handshakes_.front().id]);
    handshakes_.pop_front();
  }
  if (c.stage == Stage::Closed) return;
  watch(c);
  if (!c.input.empty()) serve(c, c.input.bytes());
}

bool Daemon::is_over(const Deadline& deadline) const {
  const auto& connection = connections_[deadline.id];
  return connection == nullptr || connection->serial != deadline.serial ||
         connection->stage != Stage::Handshake;
}

void Daemon::expire_handshakes(Time now) {
  while (!handshakes_.empty()) {
    const Deadline& oldest = handshakes_.front();
    if (!is_over(oldest)) {
      if (oldest.when > now) return;
      close(*connections_[oldest.id]);
    }
    handshakes_.pop_front();
  }
}

int Daemon::wait_ms() const {
  if (handshakes_.empty()) return -1;
  const auto left = handshakes_.front().when - std::chrono::steady_clock::now();
  return static_cast<int>(
      std::max<std::int64_t>(0, std::chrono::ceil<std::chrono::milliseconds>(left).count()));
}

}  // namespace cxxrun::store
