// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/event_loop.hpp"
#include "base/limits.hpp"
#include "base/unique_fd.hpp"
#include "net/frame.hpp"

namespace cxxrun::net {

/// How a connection ended. The first two are the peer's doing, and prove that it (or its host's kernel) was
/// there.
enum class EndKind {
  Fin,       ///< the peer closed
  Reset,     ///< the peer reset, which is what the death of a process with unread bytes looks like
  TimedOut,  ///< the network or the peer is gone: nothing came back
  BadFrame,  ///< the peer sent what is no frame
  TooSlow,   ///< the peer does not read: more than the send queue holds waits for it
};

struct End {
  EndKind kind = EndKind::Fin;
  std::string text;
};

/// Frames over a connected TCP socket, on one loop. Handlers may destroy the connection.
class Connection {
 public:
  struct Handlers {
    std::function<void(std::string_view body)> on_frame;
    std::function<void(const End&)> on_end;  ///< once; all frames that came before it were delivered
  };
  Connection(EventLoop& loop, UniqueFd socket, std::size_t frame_bytes_max, Handlers handlers);
  Connection(const Connection&) = delete;
  ~Connection();

  /// The peer begins with these bytes before the first frame; anything else is a BadFrame end.
  void expect_magic(std::string_view magic) { magic_ = magic; }
  void set_frame_bytes_max(std::size_t bytes) { reader_.set_frame_bytes_max(bytes); }
  /// Bytes that were read from the socket before; call once, at first. Delivers frames on the next turn.
  void feed(std::string_view bytes);
  /// Sends one frame. Never blocks; what the kernel does not take waits in a queue of kSendQueueBytesMax
  /// bytes.
  void send(std::string_view body) { send_raw(frame(body)); }
  void send_raw(std::string_view bytes);
  /// Between the two, what is sent is collected: several frames become one packet, and one wake-up of the
  /// peer.
  void cork() { corked_ = true; }
  void uncork();
  /// Closes our direction when all was sent; then waits for the peer's end (on_end) as before.
  void finish();
  [[nodiscard]] bool all_sent() const { return queue_.empty(); }
  [[nodiscard]] Time last_heard() const { return last_heard_; }
  [[nodiscard]] int fd() const { return socket_.get(); }

 private:
  void on_ready(std::uint32_t events);
  void read_some();
  void take(std::string_view bytes, const bool& gone);
  void flush();
  void end(EndKind kind, std::string text);
  void want();

  EventLoop& loop_;
  UniqueFd socket_;
  FrameReader reader_;
  Handlers handlers_;
  std::string magic_;
  std::string early_;
  std::string queue_;
  bool corked_ = false;
  bool finishing_ = false;
  bool write_broken_ = false;
  bool ended_ = false;
  std::shared_ptr<bool> gone_ =
      std::make_shared<bool>(false);  ///< set by the destructor, for a call that is on the stack
  Time last_heard_;
  EventLoop::Watch watch_;
  EventLoop::Timer soon_;
};

}  // namespace cxxrun::net
