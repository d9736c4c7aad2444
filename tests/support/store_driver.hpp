// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/event_loop.hpp"
#include "store/core.hpp"
#include "store/mailbox.hpp"
#include "store/server.hpp"
#include "tests/support/store_requests.hpp"

/// Two ways to talk to a store: its pure core in this thread, and the real server over sockets.
namespace cxxrun::store::test {

using namespace std::chrono_literals;
inline constexpr auto kPatience = 60s;

/// A store that tests talk to in bytes. Clients are small numbers and exist when first named.
class Driver {
 public:
  virtual ~Driver() = default;
  /// Sends bytes as one client and returns all that this client got since its last turn; the server has then
  /// done what was asked.
  virtual std::string talk(int client, std::string_view bytes) = 0;
  virtual bool closed(int client) = 0;
  virtual void hang_up(int client) = 0;
};

/// Parser and core, glued together as the server does it.
class PureDriver final : public Driver {
 public:
  explicit PureDriver(CoreLimits limits = {}, WireLimits wire = {}) : wire_(wire), core_(limits, 7) {}

  std::string talk(int client, std::string_view bytes) override {
    Peer& peer = peers_[client];
    peer.input.append(bytes);
    std::size_t at = 0;
    while (!peer.closed && at < peer.input.size()) {
      const auto status = peer.parser.parse(std::string_view(peer.input).substr(at), wire_);
      if (status == RequestParser::Status::NeedMore) break;
      if (status == RequestParser::Status::Bad ||
          core_.apply(static_cast<ClientId>(client), peer.parser.request(), peer.output) ==
              Core::Verdict::Close) {
        hang_up(client);
        break;
      }
      peer.output.append(core_.borrowed());
      for (const ClientId woken : core_.woken())
        peers_[static_cast<int>(woken)].output.push_back(kStopWaiting);
      core_.woken().clear();
      at += peer.parser.size();
    }
    peer.input.erase(0, at);
    return std::exchange(peer.output, {});
  }
  bool closed(int client) override { return peers_[client].closed; }
  void hang_up(int client) override {
    peers_[client].closed = true;
    core_.forget(static_cast<ClientId>(client));
  }
  Core& core() { return core_; }

 private:
  struct Peer {
    RequestParser parser;
    std::string input, output;
    bool closed = false;
  };
  WireLimits wire_;
  Core core_;
  std::map<int, Peer> peers_;
};

/// A blocking test socket. Every wait ends after kPatience.
class Socket {
 public:
  /// `from`: the address to speak from, one of this host; null: the system's choice.
  explicit Socket(std::uint16_t port, const char* host = "127.0.0.1", const char* from = nullptr)
      : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    if (from != nullptr) {
      ::inet_pton(AF_INET, from, &address.sin_addr);
      ::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
    }
    address.sin_port = htons(port);
    ::inet_pton(AF_INET, host, &address.sin_addr);
    if (::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) fd_.reset();
  }
  explicit operator bool() const { return static_cast<bool>(fd_); }
  [[nodiscard]] int fd() const { return fd_.get(); }
  void hang_up() { fd_.reset(); }
  /// Closes with a reset instead of a farewell.
  void reset() {
    const linger now{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
    fd_.reset();
  }

  /// False when the peer has closed.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t went = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (went < 0 && errno == EINTR) continue;
      if (went <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(went));
    }
    return true;
  }
  /// What is there, after waiting for it; up to `bytes_max`. Empty when the peer closed or patience ended.
  std::string read_some(std::size_t bytes_max) {
    if (!wait_readable()) return {};
    std::string got(std::min(bytes_max, std::size_t{1} << 20), '\0');
    const ssize_t n = ::recv(fd_.get(), got.data(), got.size(), 0);
    ended_ = n <= 0;
    got.resize(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    return got;
  }
  /// Exactly that many bytes; fewer when the peer closed or patience ended.
  std::string read(std::size_t bytes) {
    std::string got;
    while (got.size() < bytes) {
      const std::string more = read_some(bytes - got.size());
      if (more.empty()) break;
      got += more;
    }
    return got;
  }
  /// True when the peer closes (or resets) without another byte.
  bool ends() { return read(1).empty() && ended_; }
  [[nodiscard]] bool ended() const { return ended_; }

 private:
  bool wait_readable() {
    pollfd poll_fd{.fd = fd_.get(), .events = POLLIN, .revents = 0};
    return ::poll(&poll_fd, 1, static_cast<int>(std::chrono::milliseconds(kPatience).count())) > 0;
  }
  UniqueFd fd_;
  bool ended_ = false;
};

/// The real server with its owner's loop turned by a thread, so that tests may block.
class ServedStore {
 public:
  explicit ServedStore(ServerOptions options = {}, std::vector<std::string> admitted = {}) {
    ask([&] {
      auto made =
          Server::listen(*loop_, options, [this](const std::string& address) { on_refused(address); });
      if (made) server_ = *std::move(made);
      if (server_ && !admitted.empty()) server_->admit(admitted);
    });
  }
  ~ServedStore() {
    ask([&] { server_.reset(); });
    work_.put([this] { loop_->stop(); });
    thread_.join();
  }
  [[nodiscard]] std::uint16_t port() { return server_->port(); }
  /// Runs something on the owner's thread and waits for it.
  void ask(const std::function<void()>& work) {
    std::promise<void> done;
    work_.put([&] {
      work();
      done.set_value();
    });
    done.get_future().wait();
  }
  Server& server() { return *server_; }
  std::vector<std::string> refused() {
    std::vector<std::string> copy;
    ask([&] { copy = refused_; });
    return copy;
  }
  /// Waits until that many refusals were reported.
  bool wait_for_refused(std::size_t count) {
    std::promise<void> reached;
    ask([&] {
      refused_reached_ = [this, count, &reached] {
        if (refused_.size() == count) reached.set_value();
      };
      refused_reached_();
    });
    const bool in_time = reached.get_future().wait_for(kPatience) == std::future_status::ready;
    ask([&] { refused_reached_ = nullptr; });
    return in_time;
  }

 private:
  void on_refused(const std::string& address) {
    refused_.push_back(address);
    if (refused_reached_) refused_reached_();
  }
  void serve() {
    const auto watch = loop_->watch(work_.fd(), EPOLLIN, [this](std::uint32_t) {
      for (const auto& work : work_.take()) work();
    });
    loop_->run();
  }
  std::unique_ptr<EventLoop> loop_ = std::make_unique<EventLoop>();
  Mailbox<std::function<void()>> work_;
  std::vector<std::string> refused_;
  std::function<void()> refused_reached_;
  std::unique_ptr<Server> server_;
  std::thread thread_{[this] { serve(); }};
};

/// Over real sockets. A PING behind everything that is sent says when it was done; its echo is taken out
/// again.
class SocketDriver final : public Driver {
 public:
  std::string talk(int client, std::string_view bytes) override {
    Socket& socket = of(client);
    const std::string echo = u32(++nonce_);
    socket.send(std::string(bytes) + ping(nonce_));
    std::string got;
    while (!got.ends_with(echo)) {
      const std::string more = socket.read_some(std::size_t{1} << 20);
      if (more.empty()) return got;
      got += more;
    }
    got.resize(got.size() - echo.size());
    return got;
  }
  bool closed(int client) override { return of(client).ended(); }
  void hang_up(int client) override { of(client).hang_up(); }

 private:
  Socket& of(int client) {
    auto& socket = sockets_[client];
    if (!socket) socket = std::make_unique<Socket>(store_.port());
    return *socket;
  }
  ServedStore store_;
  std::map<int, std::unique_ptr<Socket>> sockets_;
  std::uint32_t nonce_ = 0xA5C30000u;
};

}  // namespace cxxrun::store::test
