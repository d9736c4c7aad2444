// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator_server.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <system_error>
#include <thread>

#include "rendezvous/coordinator_service.hpp"
#include "rendezvous/secret.hpp"

namespace cxxrun::rendezvous {
namespace {

class HostedServer final : public CoordinatorServer {
 public:
  HostedServer(EventLoop& loop, UniqueFd ours, std::string id, std::uint16_t port, Handlers handlers)
      : mailbox_(std::move(ours)), id_(std::move(id)), port_(port), handlers_(std::move(handlers)) {
    watch_ = loop.watch(mailbox_.get(), EPOLLIN, [this](std::uint32_t) { read_mail(); });
  }
  ~HostedServer() override {
    watch_.reset();
    post(mail::Kind::End);
    if (thread_.joinable()) thread_.join();
    drain();
  }
  void run(std::thread thread) { thread_ = std::move(thread); }

  const std::string& id() const override { return id_; }
  std::uint16_t port() const override { return port_; }
  void serve() override { post(mail::Kind::Serve); }

 private:
  void post(mail::Kind kind) {
    mail::Letter letter;
    letter.kind = kind;
    (void)!::send(mailbox_.get(), &letter, mail::kHeaderBytes, MSG_NOSIGNAL);
  }
  bool receive(mail::Letter& letter) {
    return ::recv(mailbox_.get(), &letter, sizeof letter, MSG_DONTWAIT) >=
           static_cast<ssize_t>(mail::kHeaderBytes);
  }
  /// One letter a turn: the handler may destroy this.
  void read_mail() {
    mail::Letter letter;
    if (!receive(letter)) return;
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(letter.bytes.data());
    if (letter.kind == mail::Kind::StoreClient) {
      handlers_.on_store_client(UniqueFd(letter.fd), std::vector<std::uint8_t>(bytes, bytes + letter.size));
    } else if (letter.kind == mail::Kind::Note) {
      handlers_.on_note(std::string(letter.bytes.data(), letter.size));
    }
  }
  /// Store clients that nobody took any more.
  void drain() {
    mail::Letter letter;
    while (receive(letter)) {
      if (letter.kind == mail::Kind::StoreClient) UniqueFd(letter.fd).reset();
    }
  }

  UniqueFd mailbox_;
  std::string id_;
  std::uint16_t port_;
  Handlers handlers_;
  std::thread thread_;
  EventLoop::Watch watch_;
};

}  // namespace

Result<std::unique_ptr<CoordinatorServer>> CoordinatorServer::start(EventLoop& loop,
                                                                    std::vector<net::Listener> listeners,
                                                                    Options options, Handlers handlers) {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
    return errno_error(errno, "socketpair");
  UniqueFd ours(pair[0]), theirs(pair[1]);
  const std::string id = random_hex(16);
  auto server =
      std::make_unique<HostedServer>(loop, std::move(ours), id, listeners.front().port, std::move(handlers));
  // Signals belong to the owner's thread.
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::error_code failed;
  try {
    server->run(std::thread([id, mailbox = std::move(theirs), sockets = std::move(listeners),
                             settings = std::move(options)]() mutable {
      CoordinatorService(id, std::move(mailbox), std::move(sockets), std::move(settings)).run();
    }));
  } catch (const std::system_error& error) {
    failed = error.code();
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (failed) return Error{failed, "start the rendezvous thread: " + failed.message()};
  return std::unique_ptr<CoordinatorServer>(std::move(server));
}

}  // namespace cxxrun::rendezvous
