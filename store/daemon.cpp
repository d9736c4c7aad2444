// SPDX-License-Identifier: Apache-2.0
#include "store/daemon.hpp"

#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace cxxrun::store {
namespace {

constexpr std::size_t kSharedBytes = std::size_t{64} << 10;
constexpr std::size_t kReplyBatchBytes = std::size_t{64} << 10;  // of replies to pipelined requests
constexpr std::size_t kReplyBytesKept = std::size_t{1} << 20;
constexpr std::size_t kSpareBytesMax = limits::kStoreValueBytesMax + kSharedBytes;
constexpr int kLargeReadsPerTurnMax = 16;
constexpr int kEventsPerTurnMax = 256;

// Names of the two descriptors that are no connection.
constexpr std::uint64_t kListenerId = ~std::uint64_t{0};
constexpr std::uint64_t kCommandsId = ~std::uint64_t{0} - 1;

std::uint64_t random_seed() {
  std::uint64_t seed = 0;
  if (::getrandom(&seed, sizeof seed, GRND_NONBLOCK) != sizeof seed) {
    seed = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  }
  return seed;
}

}  // namespace

Daemon::Daemon(UniqueFd listener, const DaemonOptions& options, Mailbox<Command>& commands,
               Mailbox<std::string>& refused)
    : options_(options),
      commands_(commands),
      refused_(refused),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      listener_(std::move(listener)),
      spare_(open_spare()),
      core_(options.core, random_seed()),
      shared_(std::make_unique_for_overwrite<char[]>(kSharedBytes)) {
  if (!epoll_) return;
  const bool watched = watch_new(commands_.fd(), EPOLLIN, kCommandsId) &&
                       (!listener_ || watch_new(listener_.get(), EPOLLIN, kListenerId));
  if (!watched) epoll_.reset();
}

Daemon::~Daemon() = default;

void Daemon::run() {
  while (!stopped_) turn();
}

void Daemon::turn() {
  std::array<epoll_event, kEventsPerTurnMax> events;
  const int ready = ::epoll_wait(epoll_.get(), events.data(), kEventsPerTurnMax, wait_ms());
  for (int i = 0; i < ready && !stopped_; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    if (event.data.u64 == kCommandsId) {
      on_commands();
    } else if (event.data.u64 == kListenerId) {
      on_accept();
    } else {
      on_ready(*connections_[event.data.u64], event.events);
    }
  }
  if (!handshakes_.empty()) expire_handshakes(std::chrono::steady_clock::now());
  free_closed();
}

void Daemon::on_commands() {
  for (Command& command : commands_.take()) {
    if (auto* admission = std::get_if<Admission>(&command)) {
      admit(*admission);
    } else if (auto* connection = std::get_if<Adopt>(&command)) {
      adopt(std::move(connection->socket),
            {reinterpret_cast<const char*>(connection->first.data()), connection->first.size()});
    } else {
      stopped_ = true;
    }
  }
}

void Daemon::on_ready(Connection& c, std::uint32_t events) {
  if (c.stage == Stage::Closed) return;
  if ((events & EPOLLOUT) != 0) on_writable(c);
  if (c.stage == Stage::Closed) return;
  const bool ended = (events & (EPOLLERR | EPOLLHUP)) != 0;
  if (ended && (c.paused || c.stage == Stage::Held)) return close(c);
  if (!c.paused && (ended || (events & EPOLLIN) != 0)) on_readable(c);
}

/// Most requests come whole in one segment: read and parsed in a buffer that all connections share, kept
/// nowhere.
void Daemon::on_readable(Connection& c) {
  const std::size_t wanted =
      c.input.empty() ? 0 : c.parser.needed() - std::min(c.parser.needed(), c.input.bytes().size());
  if (wanted > kSharedBytes) return read_large(c);
  const ssize_t got = ::recv(c.socket.get(), shared_.get(), kSharedBytes, 0);
  if (got <= 0) {
    if (got == 0 || (errno != EAGAIN && errno != EINTR)) close(c);
    return;
  }
  const std::string_view bytes(shared_.get(), static_cast<std::size_t>(got));
  if (c.input.empty()) return serve(c, bytes);
  c.input.append(bytes);
  serve(c, c.input.bytes());
}

/// Room grows with what has really come (at most twofold), not with what a length promises; memory that we
/// have anyway may be larger. Reads on while there is more, so that few large requests are under way at once.
void Daemon::read_large(Connection& c) {
  for (int i = 0; i < kLargeReadsPerTurnMax; ++i) {
    const std::size_t have = c.input.bytes().size();
    if (have >= c.parser.needed()) return serve(c, c.input.bytes());
    if (c.input.capacity() < c.parser.needed() && spare_input_.capacity() >= c.parser.needed()) {
      spare_input_.append(c.input.bytes());
      spare_input_.swap(c.input);
      spare_input_.release();
    }
    if (c.input.room() == 0)
      c.input.reserve(std::min(c.parser.needed() - have, std::max(have, kSharedBytes)));
    if (!account(c)) return;
    const std::size_t wanted = std::min(c.input.room(), c.parser.needed() - have);
    const ssize_t got = ::recv(c.socket.get(), c.input.tail(), wanted, 0);
    if (got <= 0) {
      if (got == 0 || (errno != EAGAIN && errno != EINTR)) close(c);
      return;
    }
    c.input.grew(static_cast<std::size_t>(got));
  }
  if (c.input.bytes().size() >= c.parser.needed()) serve(c, c.input.bytes());
}

void Daemon::serve(Connection& c, std::string_view bytes) {
  std::size_t served = 0;
  reply_.clear();
  while (served < bytes.size()) {
    if (pause_if_slow(c)) break;
    if (c.stage == Stage::Closed) return;
    const auto status = c.parser.parse(bytes.substr(served), options_.wire);
    if (status == RequestParser::Status::NeedMore) break;
    if (status == RequestParser::Status::Bad || !serve_one(c)) {
      // What was asked before is answered before the door is shut.
      if (send_replies(c)) close(c);
      return;
    }
    served += c.parser.size();
  }
  keep_rest(c, bytes, served);
  if (send_replies(c)) watch(c);
}

/// A client that does not read its replies is not served further. Its requests wait, here and in its own
/// kernel.
bool Daemon::pause_if_slow(Connection& c) {
  if (c.stage == Stage::Closed) return false;
  if (reply_.size() >= kReplyBatchBytes && !send_replies(c)) return false;
  c.paused = unsent(c) > options_.unsent_pause;
  return c.paused;
}

bool Daemon::serve_one(Connection& c) {
  const Request& request = c.parser.request();
  if (request.op == Op::Validate) {
    c.stage = Stage::Open;
    --handshaking_;
    return true;
  }
  if (core_.apply(c.id, request, reply_) == Core::Verdict::Close) return false;
  if (!core_.borrowed().empty() && !send_with(c, core_.borrowed()))
    return true;  // closed, which serve() sees
  if (!core_.woken().empty()) send_wakes(c);
  return true;
}

void Daemon::keep_rest(Connection& c, std::string_view bytes, std::size_t served) {
  if (!c.input.empty()) {
    c.input.consume(served);  // `bytes` is the input itself
    if (c.input.empty()) give_up_input(c);
  } else if (served < bytes.size()) {
    c.input.append(bytes.substr(served));
  } else {
    return;
  }
  account(c);
}

/// A connection between requests holds no memory for them.
void Daemon::give_up_input(Connection& c) {
  const std::size_t capacity = c.input.capacity();
  if (capacity > kSharedBytes && capacity <= kSpareBytesMax && capacity > spare_input_.capacity()) {
    spare_input_.swap(c.input);
  }
  c.input.release();
}

/// Wakes come before the reply to the request that caused them: those who wait have waited longer.
void Daemon::send_wakes(const Connection& serving) {
  for (const ClientId id : core_.woken()) {
    if (id == serving.id) {
      reply_.push_back(kStopWaiting);  // behind the replies to its earlier requests
    } else {
      wake(*connections_[id]);
    }
  }
  core_.woken().clear();
}

void Daemon::wake(Connection& c) {
  if (unsent(c) == 0) {
    if (::send(c.socket.get(), &kStopWaiting, 1, MSG_NOSIGNAL) == 1) return;
    if (errno != EAGAIN && errno != EINTR) return close(c);
  }
  c.unsent.push_back(kStopWaiting);
  if (account(c)) watch(c);
}

/// Sends `reply_`, keeps what does not go. False when the connection is closed now.
bool Daemon::send_replies(Connection& c) {
  if (c.stage == Stage::Closed) return false;
  if (reply_.empty()) return true;
  std::size_t sent = 0;
  if (unsent(c) == 0) {
    const ssize_t went = ::send(c.socket.get(), reply_.data(), reply_.size(), MSG_NOSIGNAL);
    if (went < 0 && errno != EAGAIN && errno != EINTR) {
      close(c);
      return false;
    }
    sent = went > 0 ? static_cast<std::size_t>(went) : 0;
  }
  if (sent < reply_.size()) {
    c.unsent.append(reply_, sent);
    if (!account(c)) return false;
    watch(c);
  }
  reply_.clear();
  if (reply_.capacity() > kReplyBytesKept) std::string().swap(reply_);
  return true;
}

/// Sends `reply_` and behind it a value that lies in the map, without a copy of what goes at once.
bool Daemon::send_with(Connection& c, std::string_view value) {
  if (unsent(c) > 0) {
    reply_.append(value);
    return send_replies(c);
  }
  iovec parts[2] = {{reply_.data(), reply_.size()}, {const_cast<char*>(value.data()), value.size()}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  const ssize_t went = ::sendmsg(c.socket.get(), &message, MSG_NOSIGNAL);
  if (went < 0 && errno != EAGAIN && errno != EINTR) {
    close(c);
    return false;
  }
  const auto sent = static_cast<std::size_t>(std::max<ssize_t>(went, 0));
  if (sent < reply_.size()) {
    c.unsent.append(reply_, sent);
    c.unsent.append(value);
  } else {
    c.unsent.append(value.substr(sent - reply_.size()));
  }
  reply_.clear();
  if (!account(c)) return false;
  watch(c);
  return true;
}

void Daemon::on_writable(Connection& c) {
  const ssize_t went = ::send(c.socket.get(), c.unsent.data() + c.sent, unsent(c), MSG_NOSIGNAL);
  if (went < 0) {
    if (errno != EAGAIN && errno != EINTR) close(c);
    return;
  }
  c.sent += static_cast<std::size_t>(went);
  if (unsent(c) > 0) return;
  std::string().swap(c.unsent);
  c.sent = 0;
  account(c);
  const bool was_paused = std::exchange(c.paused, false);
  watch(c);
  if (was_paused && !c.input.empty()) serve(c, c.input.bytes());
}

/// Keeps `buffered_`. False when all clients together hold too much: then the one that asked for more is
/// closed.
bool Daemon::account(Connection& c) {
  if (c.stage == Stage::Closed) return false;
  const std::size_t holds = c.input.capacity() + c.unsent.size();
  buffered_ += holds;
  buffered_ -= c.counted;
  const bool grew = holds > c.counted;
  c.counted = holds;
  if (!grew || buffered_ <= options_.buffered_bytes_max) return true;
  close(c);
  return false;
}

void Daemon::watch(Connection& c) {
  if (c.stage == Stage::Closed || c.stage == Stage::Held) return;
  const std::uint32_t events = (c.paused ? 0u : EPOLLIN) | (unsent(c) > 0 ? EPOLLOUT : 0u);
  if (events == c.events) return;
  c.events = events;
  epoll_event event{.events = events, .data = {.u64 = c.id}};
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, c.socket.get(), &event);
}

void Daemon::close(Connection& c) {
  if (c.stage == Stage::Closed) return;
  if (c.stage == Stage::Handshake) --handshaking_;
  if (c.stage == Stage::Held) std::erase(held_, c.id);
  c.stage = Stage::Closed;
  core_.forget(c.id);
  buffered_ -= c.counted;
  c.socket.reset();
  closed_.push_back(c.id);
}

void Daemon::free_closed() {
  for (const ClientId id : closed_) {
    connections_[id].reset();
    free_ids_.push_back(id);
  }
  closed_.clear();
}

}  // namespace cxxrun::store
