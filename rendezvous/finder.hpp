// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/connection.hpp"
#include "net/resolver.hpp"
#include "net/socket.hpp"
#include "rendezvous/coordinator_server.hpp"
#include "rendezvous/hosting.hpp"
#include "rendezvous/message.hpp"

namespace cxxrun::rendezvous {

/// Finds the coordinator at the endpoint, or hosts it there; holds the connection to it, and the hosted
/// server.
///
/// One attempt: look the name up, decide who hosts, listen if that is us, connect to each address, prove the
/// token, and where no interface owns the address ask who answers. Handlers run on the loop; none destroys
/// the finder.
class Finder {
 public:
  struct Found {
    std::string own_local;  ///< own view of the connection, "ADDRESS PORT"
    std::string own_remote;
    std::string advertise;  ///< what --local-addr chose; empty: the connection's own address
    std::vector<std::string> interface_addresses;
  };
  /// `exit_code` not 0: trying again is useless.
  struct Failure {
    std::string sentence;
    int exit_code = 0;
  };
  struct Handlers {
    std::function<void(Found)> on_found;             ///< the connection waits for a hello
    std::function<void(Failure)> on_failed;          ///< this attempt
    std::function<void(std::string_view)> on_frame;  ///< after on_found
    std::function<void(const net::End&)> on_end;     ///< after on_found
    std::function<void(UniqueFd, std::vector<std::uint8_t>)> on_store_client;
    std::function<void(std::string)> on_word;  ///< something that a person should know
  };

  Finder(EventLoop& loop, Config config, std::string incarnation, Handlers handlers);
  Finder(const Finder&) = delete;

  void attempt();
  void send(std::string_view body);
  /// Ends connection and attempt, without an event. `unanswered`: the other side took the connection and
  /// stayed silent.
  void hang_up(bool unanswered);

 private:
  void resolve_local_addr();
  void choose_local_addr(const std::vector<net::Address>& looked_up);
  void resolve_endpoint();
  void on_resolved(std::vector<net::Address> addresses);
  bool host(const Hosting& hosting);
  bool stand_as_candidate(const Hosting& hosting);
  bool start_server(net::Listener listener, bool serving);
  void announce(std::uint16_t port);
  void connect_next();
  void on_socket(UniqueFd socket);
  void on_frame(std::string_view body);
  void on_end(const net::End& end);
  void greet(const wire::Message& message);
  void probed(const wire::Probed& m);
  void after_auth();
  void found();
  [[nodiscard]] bool taken_for_long() const;
  void fail(std::string sentence, int exit_code = 0);
  void lose_connection();

  EventLoop& loop_;
  Config config_;
  std::string incarnation_;
  Handlers handlers_;
  std::string endpoint_text_;
  std::uint16_t port_ = 0;  ///< where the coordinator listens; 0: chosen when we host

  std::optional<Time> first_attempt_;
  bool local_addr_known_ = false;
  std::string advertise_;
  std::vector<net::Address> addresses_;  ///< of the endpoint, valid until addresses_until_
  Time addresses_until_ = Time::min();
  std::vector<net::InterfaceAddress> own_;
  std::vector<net::Address> targets_;
  std::size_t next_target_ = 0;
  std::string first_error_;

  std::unique_ptr<CoordinatorServer> server_;
  bool serving_ = false;
  bool port_taken_ = false;          ///< our own port, by somebody else
  std::optional<Time> taken_since_;  ///< and nothing that we understand has answered there
  std::optional<Time> failing_since_;
  int no_rendezvous_ = 0;  ///< answers that were none, in a row

  enum class Talk { None, Auth, Probe, Open } talk_ = Talk::None;
  std::string nonce_;
  std::unique_ptr<net::Connection> connection_;
  std::unique_ptr<net::Connect> connect_;
  std::unique_ptr<net::Resolve> resolve_;
  EventLoop::Timer deadline_;
  EventLoop::Timer soon_;
  EventLoop::Timer silent_;
  bool silence_told_ = false;
};

}  // namespace cxxrun::rendezvous
