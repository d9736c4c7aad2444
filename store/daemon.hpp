// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/time.hpp"
#include "base/unique_fd.hpp"
#include "store/admission.hpp"
#include "store/buffer.hpp"
#include "store/core.hpp"
#include "store/mailbox.hpp"
#include "store/wire.hpp"

namespace cxxrun::store {

struct DaemonOptions {
  WireLimits wire;
  CoreLimits core;
  Duration handshake_timeout = 30s;  ///< from accept to a complete VALIDATE
  /// Unfinished handshakes; beyond, the oldest is closed.
  std::size_t handshakes_max = 8'192;
  /// Connections that wait for the first admission; beyond, they are closed.
  std::size_t held_max = 1'024;
  /// A client with more unread replies than this is not served until it reads.
  std::size_t unsent_pause = std::size_t{256} << 10;
  /// Unread replies and incomplete requests of all clients; who asks for more is closed.
  std::size_t buffered_bytes_max = limits::kStoreBytesMax;
};

/// What the owner tells the thread.
struct Stop {};
struct Adopt {
  UniqueFd socket;
  std::vector<std::uint8_t> first;
};
using Command = std::variant<Stop, Admission, Adopt>;

/// The store's thread: every connection, and the map. Talks to its owner by mail only.
///
/// Waits on epoll itself instead of an EventLoop: with thousands of equal clients a table of connections
/// costs half of what a handler object for each does, and there is nothing else on this thread.
class Daemon {
 public:
  /// `listener`: listening and non-blocking, or none. The mailboxes outlive the daemon.
  Daemon(UniqueFd listener, const DaemonOptions& options, Mailbox<Command>& commands,
         Mailbox<std::string>& refused);
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;
  ~Daemon();

  /// False when the kernel gave no descriptors.
  [[nodiscard]] bool ok() const { return static_cast<bool>(epoll_); }
  /// Serves until Stop.
  void run();

 private:
  enum class Stage {
    Fresh,      // just adopted: neither held nor served, counted nowhere
    Held,       // waits for the first admission, unread
    Handshake,  // no complete VALIDATE yet
    Open,
    Closed,  // freed at the end of the turn: events of this turn may still name it
  };
  struct Connection {
    ClientId id = 0;
    Stage stage = Stage::Fresh;
    bool paused = false;       // too much unsent: not read, not served
    std::uint32_t events = 0;  // what epoll watches for
    std::uint64_t serial = 0;  // ids are used again, serials never
    UniqueFd socket;
    AddressBytes peer{};
    RequestParser parser;
    Buffer input;  // an incomplete request, or what waits while paused
    std::string unsent;
    std::size_t sent = 0;     // bytes of `unsent` that have gone
    std::size_t counted = 0;  // its part of `buffered_`
  };
  struct Deadline {
    Time when;
    ClientId id;
    std::uint64_t serial;
  };

  static UniqueFd open_spare();
  bool watch_new(int fd, std::uint32_t events, std::uint64_t id);
  void turn();
  void on_commands();
  void on_accept();
  void shed_connection();
  void adopt(UniqueFd socket, std::string_view first);
  void admit(const Admission& admission);
  [[nodiscard]] bool admitted(const Connection& connection) const;
  void refuse(Connection& connection);
  void begin(Connection& connection);

  void on_ready(Connection& connection, std::uint32_t events);
  void on_readable(Connection& connection);
  void read_large(Connection& connection);
  /// Serves complete requests of `bytes` and keeps the rest. `bytes`: the connection's input or the shared
  /// buffer.
  void serve(Connection& connection, std::string_view bytes);
  bool serve_one(Connection& connection);
  bool pause_if_slow(Connection& connection);
  void keep_rest(Connection& connection, std::string_view bytes, std::size_t served);
  bool send_replies(Connection& connection);
  bool send_with(Connection& connection, std::string_view value);
  void give_up_input(Connection& connection);
  void on_writable(Connection& connection);
  void send_wakes(const Connection& serving);
  void wake(Connection& connection);
  bool account(Connection& connection);
  void watch(Connection& connection);
  void close(Connection& connection);
  void free_closed();
  void expire_handshakes(Time now);
  [[nodiscard]] int wait_ms() const;
  [[nodiscard]] bool is_over(const Deadline& deadline) const;
  [[nodiscard]] static std::size_t unsent(const Connection& c) { return c.unsent.size() - c.sent; }

  DaemonOptions options_;
  Mailbox<Command>& commands_;
  Mailbox<std::string>& refused_;
  UniqueFd epoll_;
  UniqueFd listener_;
  UniqueFd spare_;  // given up to accept and close when there is no descriptor left
  Core core_;
  std::optional<Admission> admission_;
  std::vector<std::unique_ptr<Connection>> connections_;  // by ClientId
  std::vector<ClientId> free_ids_;
  std::vector<ClientId> closed_;  // of this turn
  std::vector<ClientId> held_;
  std::deque<Deadline> handshakes_;  // oldest first; those that are over are skipped
  std::size_t handshaking_ = 0;
  std::size_t buffered_ = 0;  // bytes in all inputs and unsents
  std::uint64_t serial_ = 0;
  std::set<AddressBytes> reported_;  // refused addresses that the owner was told
  std::unique_ptr<char[]> shared_;   // where most requests are read and parsed in place
  Buffer spare_input_;  // memory of a large request, for the next one: fresh pages are what it costs most
  std::string reply_;   // of the connection that is being served
  bool stopped_ = false;
};

}  // namespace cxxrun::store
