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

/// Owns the listening sockets until somebody connects: only then there is a thread, which takes them over
/// with whoever waits in them.
class HostedServer final : public CoordinatorServer {
 public:
  HostedServer(EventLoop& loop, UniqueFd ours, UniqueFd theirs, std::vector<net::Listener> listeners,
               Options options, Handlers handlers)
      : mailbox_(std::move(ours)),
        service_mailbox_(std::move(theirs)),
        listeners_(std::move(listeners)),
        options_(std::move(options)),
        id_(random_hex(16)),
        port_(listeners_.front().port),
        handlers_(std::move(handlers)) {
    watch_ = loop.watch(mailbox_.get(), EPOLLIN, [this](std::uint32_t) { read_mail(); });
    for (const auto& listener : listeners_) {
      callers_.push_back(loop.watch(listener.fd.get(), EPOLLIN, [this](std::uint32_t) { start_thread(); }));
    }
  }
  ~HostedServer() override {
    watch_.reset();
    callers_.clear();
    if (!thread_.joinable()) return;
    post(mail::Kind::End);
    thread_.join();
    drain();
  }

  const std::string& id() const override { return id_; }
  std::uint16_t port() const override { return port_; }
  void serve() override {
    options_.serving = true;
    if (thread_.joinable()) post(mail::Kind::Serve);
  }

 private:
  void start_thread() {
    callers_.clear();
    // Signals belong to the owner's thread.
    sigset_t all, before;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    std::error_code failed;
    try {
      thread_ = std::thread([id = id_, mailbox = std::move(service_mailbox_), sockets = std::move(listeners_),
                             settings = options_]() mutable {
        CoordinatorService(id, std::move(mailbox), std::move(sockets), std::move(settings)).run();
      });
    } catch (const std::system_error& error) {
      failed = error.code();
    }
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (failed) handlers_.on_failed(Error{failed, "start the rendezvous thread: " + failed.message()});
  }
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
  UniqueFd service_mailbox_;              ///< until the thread has it
  std::vector<net::Listener> listeners_;  ///< the same
  Options options_;
  std::string id_;
  std::uint16_t port_;
  Handlers handlers_;
  std::thread thread_;
  EventLoop::Watch watch_;
  std::vector<EventLoop::Watch> callers_;
};

}  // namespace

Result<std::unique_ptr<CoordinatorServer>> CoordinatorServer::start(EventLoop& loop,
                                                                    std::vector<net::Listener> listeners,
                                                                    Options options, Handlers handlers) {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
    return errno_error(errno, "socketpair");
  UniqueFd ours(pair[0]), theirs(pair[1]);
  return std::unique_ptr<CoordinatorServer>(
      std::make_unique<HostedServer>(loop, std::move(ours), std::move(theirs), std::move(listeners),
                                     std::move(options), std::move(handlers)));
}

}  // namespace cxxrun::rendezvous
