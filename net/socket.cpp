// SPDX-License-Identifier: Apache-2.0
#include "net/socket.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <cerrno>

namespace cxxrun::net {
namespace {

constexpr int kBacklog = 4096;  // a whole large job may connect at once; the kernel caps it

void set_option(int fd, int level, int name, int value) {
  ::setsockopt(fd, level, name, &value, sizeof value);
}

UniqueFd tcp_socket(bool v6) {
  return UniqueFd(::socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
}

std::uint16_t bound_port(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  std::uint16_t port = 0;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size) == 0) {
    (void)address_of(reinterpret_cast<const sockaddr*>(&storage), &port);
  }
  return port;
}

Result<Listener> listen_once(const Address& address, bool dual, std::uint16_t port) {
  const auto doing =
      "listen on " + (dual || address.unspecified() ? "port " + std::to_string(port) : text(address, port));
  UniqueFd fd = tcp_socket(address.v6);
  if (!fd) return errno_error(errno, doing);
  set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.v6) set_option(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, dual ? 0 : 1);
  const auto to = socket_address(address, port);
  if (::bind(fd.get(), to.get(), to.size) != 0 || ::listen(fd.get(), kBacklog) != 0)
    return errno_error(errno, doing);
  const std::uint16_t got = bound_port(fd.get());
  return Listener{std::move(fd), got};
}

Result<Listener> listen_any(std::uint16_t port) {
  Address any6;
  any6.v6 = true;
  auto dual = listen_once(any6, true, port);
  const bool no_v6 =
      !dual && (dual.error().code.value() == EAFNOSUPPORT || dual.error().code.value() == EADDRNOTAVAIL);
  return no_v6 ? listen_once(Address{}, false, port) : std::move(dual);
}

}  // namespace

Result<Listener> listen(const std::optional<Address>& address, std::uint16_t first, std::uint16_t last) {
  const auto once = [&](std::uint16_t port) {
    return address ? listen_once(*address, false, port) : listen_any(port);
  };
  if (last == 0 || last <= first) return once(first);
  for (unsigned port = first; port <= last; ++port) {
    auto got = once(static_cast<std::uint16_t>(port));
    if (got || got.error().code.value() != EADDRINUSE) return got;
  }
  return errno_error(EADDRINUSE, "no free port in " + std::to_string(first) + "-" + std::to_string(last));
}

Result<std::optional<UniqueFd>> accept(int listener) {
  for (;;) {
    UniqueFd fd(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd) {
      set_option(fd.get(), IPPROTO_TCP, TCP_NODELAY, 1);
      return std::optional<UniqueFd>(std::move(fd));
    }
    switch (errno) {
      case EMFILE:
      case ENFILE:
      case ENOBUFS:
      case ENOMEM: return errno_error(errno, "accept");
      case EINTR:
      case ECONNABORTED:
      case EPROTO: continue;  // that one is gone, the next may wait
      default: return std::optional<UniqueFd>();
    }
  }
}

std::optional<Ends> ends(int socket) {
  Ends out;
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return std::nullopt;
  const auto local = address_of(reinterpret_cast<const sockaddr*>(&storage), &out.local_port);
  size = sizeof storage;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return std::nullopt;
  const auto remote = address_of(reinterpret_cast<const sockaddr*>(&storage), &out.remote_port);
  if (!local || !remote) return std::nullopt;
  out.local = *local;
  out.remote = *remote;
  return out;
}

Connect::Connect(EventLoop& loop, const Address& to, std::uint16_t port, Duration limit,
                 const std::optional<Address>& from, Done done)
    : fd_(tcp_socket(to.v6)), done_(std::move(done)) {
  if (const int error = begin(to, port, from); error != 0) {
    timer_ = loop.after(Duration::zero(), [this, error] { finish(errno_error(error, "connect")); });
    return;
  }
  watch_ = loop.watch(fd_.get(), EPOLLOUT, [this](std::uint32_t) {
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return finish(errno_error(error, "connect"));
    watch_.reset();
    finish(std::move(fd_));
  });
  timer_ = loop.after(limit, [this] { finish(errno_error(ETIMEDOUT, "connect")); });
}

/// 0, or the errno of the step that failed.
int Connect::begin(const Address& to, std::uint16_t port, const std::optional<Address>& from) {
  if (!fd_) return errno;
  set_option(fd_.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  if (from) {
    const auto own = socket_address(*from, 0);
    if (::bind(fd_.get(), own.get(), own.size) != 0) return errno;
  }
  const auto peer = socket_address(to, port);
  return ::connect(fd_.get(), peer.get(), peer.size) != 0 && errno != EINPROGRESS ? errno : 0;
}

void Connect::finish(Result<UniqueFd> result) {
  watch_.reset();
  timer_.reset();
  const Done done = std::exchange(done_, nullptr);
  done(std::move(result));  // may destroy this
}

std::string connect_failure_text(int errno_value) {
  switch (errno_value) {
    case ECONNREFUSED: return "refused (nothing listens there yet)";
    case ETIMEDOUT: return "no answer";
    case EHOSTUNREACH:
    case ENETUNREACH: return "unreachable";
    default: return std::error_code(errno_value, std::generic_category()).message();
  }
}

}  // namespace cxxrun::net
