// SPDX-License-Identifier: Apache-2.0
#include "store/server.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>
#include <system_error>
#include <thread>

#include "store/daemon.hpp"

namespace cxxrun::store {
namespace {

/// A dead host is noticed after 60 + 4 x 15 s; its wait is dropped then.
constexpr int kKeepAliveIdleS = 60;
constexpr int kKeepAliveIntervalS = 15;
constexpr int kKeepAliveCount = 4;

/// Set on the listening socket: what it accepts inherits them.
void set_options(int fd) {
  const auto set = [fd](int level, int name, int value) {
    ::setsockopt(fd, level, name, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, kKeepAliveIdleS);
  set(IPPROTO_TCP, TCP_KEEPINTVL, kKeepAliveIntervalS);
  set(IPPROTO_TCP, TCP_KEEPCNT, kKeepAliveCount);
}

/// A listening socket for both families, or for IPv4 alone where the host has no IPv6. An errno otherwise.
UniqueFd listen_on(std::uint16_t port, int& error) {
  const int off = 0, on = 1;
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  for (const int family : {AF_INET6, AF_INET}) {
    UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd) {
      error = errno;
      continue;
    }
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (family == AF_INET6) ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    set_options(fd.get());
    const int bound = family == AF_INET6
                          ? ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&v6), sizeof v6)
                          : ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&v4), sizeof v4);
    if (bound == 0 && ::listen(fd.get(), SOMAXCONN) == 0) return fd;
    error = errno;
    if (error == EADDRINUSE) break;  // taken is taken, in every family
  }
  return {};
}

std::uint16_t port_of(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  sockaddr_in v4{};  // the port lies at the same place in both families
  std::memcpy(&v4, &address, sizeof v4);
  return ntohs(v4.sin_port);
}

class ThreadedServer final : public Server {
 public:
  ThreadedServer(EventLoop& loop, const ServerOptions& options, OnRefused on_refused, UniqueFd listener)
      : loop_(loop), on_refused_(std::move(on_refused)), listener_(std::move(listener)) {
    daemon_options_.wire.value_bytes_max = options.value_bytes_max;
    // One COMPARE_SET of the longest values must fit; offsets within a request are 32 bit.
    daemon_options_.wire.request_bytes_max = std::min<std::size_t>(
        std::max(daemon_options_.wire.request_bytes_max, 2 * options.value_bytes_max + (64u << 10)),
        0xffffffffu);
    daemon_options_.core.bytes_max = options.bytes_max;
    daemon_options_.core.reply_bytes_max = options.bytes_max;
    daemon_options_.buffered_bytes_max = options.bytes_max;
    daemon_options_.handshake_timeout = options.handshake_timeout;
    if (!listener_) return;
    port_ = port_of(listener_.get());
    first_connection_ = loop_.watch(listener_.get(), EPOLLIN, [this](std::uint32_t) { start(); });
  }

  ~ThreadedServer() override {
    if (!running_) return;
    running_->refused_watch.reset();
    running_->commands.put(Stop{});
    running_->thread.join();
  }

  [[nodiscard]] std::uint16_t port() const override { return port_; }

  void admit(std::vector<std::string> addresses) override {
    Admission admission;
    for (const std::string& address : addresses) {
      if (auto added = admission.add(address); !added) on_refused_(added.error().message);
    }
    if (running_) {
      running_->commands.put(admission);
    } else {
      admission_ = admission;
    }
  }

  void adopt(UniqueFd socket, std::vector<std::uint8_t> first) override {
    const int flags = ::fcntl(socket.get(), F_GETFL);
    ::fcntl(socket.get(), F_SETFL, flags | O_NONBLOCK);
    set_options(socket.get());
    if (!running_) start();
    if (running_) running_->commands.put(Adopt{std::move(socket), std::move(first)});
  }

 private:
  /// What exists only once somebody came. The thread owns the daemon; the mailboxes outlive it.
  struct Running {
    Mailbox<Command> commands;
    Mailbox<std::string> refused;
    std::unique_ptr<Daemon> daemon;
    EventLoop::Watch refused_watch;
    std::thread thread;
  };

  /// Without descriptors or memory for a thread the store cannot serve: it stops listening, clients see
  /// "refused".
  void start() {
    first_connection_.reset();
    auto running = std::make_unique<Running>();
    if (!running->commands.ok() || !running->refused.ok()) return listener_.reset();
    running->daemon =
        std::make_unique<Daemon>(std::move(listener_), daemon_options_, running->commands, running->refused);
    if (!running->daemon->ok() || !start_thread(*running)) return;
    running_ = std::move(running);
    running_->refused_watch = loop_.watch(running_->refused.fd(), EPOLLIN, [this](std::uint32_t) {
      for (const std::string& address : running_->refused.take()) on_refused_(address);
    });
    if (admission_) running_->commands.put(*admission_);
  }

  /// Signals are the owner's: the new thread has all of them blocked.
  static bool start_thread(Running& running) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = true;
    try {
      running.thread = std::thread([daemon = running.daemon.get()] { daemon->run(); });
      pthread_setname_np(running.thread.native_handle(), "cxxrun-store");
    } catch (const std::system_error&) {
      started = false;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return started;
  }

  EventLoop& loop_;
  OnRefused on_refused_;
  DaemonOptions daemon_options_;
  UniqueFd listener_;
  std::uint16_t port_ = 0;
  std::optional<Admission> admission_;
  EventLoop::Watch first_connection_;
  std::unique_ptr<Running> running_;
};

}  // namespace

Result<std::unique_ptr<Server>> Server::listen(EventLoop& loop, const ServerOptions& options,
                                               OnRefused on_refused) {
  UniqueFd listener;
  if (options.listening) {
    int error = 0;
    for (std::uint32_t port = options.port_first; port <= options.port_last && !listener; ++port) {
      if (port != 0 && port == options.port_skip) continue;
      listener = listen_on(static_cast<std::uint16_t>(port), error);
    }
    if (!listener) {
      const std::string ports =
          options.port_first == options.port_last
              ? "port " + std::to_string(options.port_first)
              : "ports " + std::to_string(options.port_first) + "-" + std::to_string(options.port_last);
      return errno_error(error != 0 ? error : EINVAL, "worker store: cannot listen on " + ports);
    }
  }
  return std::unique_ptr<Server>(
      std::make_unique<ThreadedServer>(loop, options, std::move(on_refused), std::move(listener)));
}

Result<> check_admission(const std::string& rule) { return Admission().add(rule); }

}  // namespace cxxrun::store
