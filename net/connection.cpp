// SPDX-License-Identifier: Apache-2.0
#include "net/connection.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

namespace cxxrun::net {
namespace {
constexpr std::size_t kReadBytes = 32u << 10;
constexpr int kReadsPerTurnMax = 8;  // one busy peer must not starve the others

/// ", HTTP?", from the first bytes of a peer that is none of us; empty: cannot tell.
std::string looks_like(std::string_view bytes) {
  static constexpr std::pair<std::string_view, std::string_view> kProtocols[] = {
      {"HTTP/", "HTTP"},         {"<", "HTTP"},  {"SSH-", "SSH"}, {"220", "mail or FTP"}, {"\x15\x03", "TLS"},
      {"-ERR", "redis or POP3"}, {"RFB ", "VNC"}};
  for (const auto& [first, name] : kProtocols) {
    if (bytes.starts_with(first)) return ", " + std::string(name) + "?";
  }
  return {};
}
}  // namespace

Connection::Connection(EventLoop& loop, UniqueFd socket, std::size_t frame_bytes_max, Handlers handlers)
    : loop_(loop),
      socket_(std::move(socket)),
      reader_(frame_bytes_max),
      handlers_(std::move(handlers)),
      last_heard_(EventLoop::now()) {
  watch_ = loop_.watch(socket_.get(), EPOLLIN, [this](std::uint32_t events) { on_ready(events); });
}

Connection::~Connection() { *gone_ = true; }

void Connection::feed(std::string_view bytes) {
  early_ = bytes;
  soon_ = loop_.after(Duration::zero(), [this] {
    const auto gone = gone_;
    take(std::exchange(early_, {}), *gone);
  });
}

void Connection::on_ready(std::uint32_t events) {
  if ((events & EPOLLOUT) != 0) flush();
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) read_some();
}

void Connection::read_some() {
  if (!early_.empty()) return;  // in order: what was read before comes first, in this very turn
  std::array<char, kReadBytes> buffer;
  const auto gone = gone_;
  for (int reads = 0; reads < kReadsPerTurnMax && !*gone && !ended_; ++reads) {
    const ssize_t n = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (n > 0) {
      last_heard_ = EventLoop::now();
      take({buffer.data(), static_cast<std::size_t>(n)}, *gone);
      if (static_cast<std::size_t>(n) < buffer.size()) continue;  // most likely EAGAIN or the end next
    } else if (n == 0) {
      end(EndKind::Fin, "closed by the other side");
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      const bool reset = errno == ECONNRESET || errno == EPIPE;
      end(reset ? EndKind::Reset : EndKind::TimedOut,
          std::error_code(errno, std::generic_category()).message());
    }
  }
}

void Connection::take(std::string_view bytes, const bool& gone) {
  while (!magic_.empty() && !bytes.empty()) {
    if (bytes.front() != magic_.front())
      return end(EndKind::BadFrame, "other first bytes than a rendezvous has" + looks_like(bytes));
    magic_.erase(0, 1);
    bytes.remove_prefix(1);
  }
  if (bytes.empty()) return;
  reader_.feed(bytes);
  const auto on_frame = handlers_.on_frame;  // must outlive a handler that destroys this
  while (!gone && !ended_) {
    const auto body = reader_.next();
    if (!body) return end(EndKind::BadFrame, body.error().message);
    if (!*body) return;
    on_frame(**body);
  }
}

void Connection::send_raw(std::string_view bytes) {
  if (write_broken_ || ended_ || finishing_) return;
  if (queue_.empty() && !corked_) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno != EAGAIN) write_broken_ = true;  // reading will tell how it ended
      if (n <= 0) break;
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    if (bytes.empty() || write_broken_) return;
  }
  if (queue_.size() + bytes.size() > limits::kSendQueueBytesMax) {
    write_broken_ = true;
    soon_ = loop_.after(Duration::zero(), [this] { end(EndKind::TooSlow, "does not read what it is sent"); });
    return;
  }
  queue_ += bytes;
  if (!corked_) want();
}

void Connection::uncork() {
  corked_ = false;
  if (!queue_.empty()) flush();
}

void Connection::flush() {
  while (!queue_.empty()) {
    const ssize_t n = ::send(socket_.get(), queue_.data(), queue_.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return want();
    if (n < 0) {
      write_broken_ = true;
      queue_.clear();
      break;
    }
    queue_.erase(0, static_cast<std::size_t>(n));
  }
  want();
  if (finishing_) ::shutdown(socket_.get(), SHUT_WR);
}

void Connection::finish() {
  if (finishing_) return;
  finishing_ = true;
  if (corked_) return uncork();
  if (queue_.empty()) ::shutdown(socket_.get(), SHUT_WR);
}

void Connection::want() { watch_.want(queue_.empty() ? EPOLLIN : EPOLLIN | EPOLLOUT); }

void Connection::end(EndKind kind, std::string text) {
  if (ended_) return;
  ended_ = true;
  watch_.reset();
  const auto on_end = handlers_.on_end;
  on_end(End{kind, std::move(text)});  // may destroy this
}

}  // namespace cxxrun::net
