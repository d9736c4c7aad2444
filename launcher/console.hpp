// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/event_loop.hpp"
#include "base/unique_fd.hpp"

namespace cxxrun::launcher {

/// Writes to a descriptor that we were given (stdout, stderr) without ever waiting for its reader.
///
/// The descriptor is shared with the shell, so its flags are never changed: a pipe, FIFO or terminal is
/// opened once more, non-blocking, through /proc/self/fd; where that cannot be done, small writes follow a
/// poll. Memory is bounded by the writers: they stop when full() and go on when told that there is room. A
/// reader that has gone is no error: what is written from then on is dropped, and its writers are told.
class Console {
 public:
  /// `fd` is borrowed and must stay open.
  Console(EventLoop& loop, int fd);
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;
  ~Console();  ///< what is still held is dropped: flush_until() first

  /// Append whole lines here, then call flush().
  [[nodiscard]] std::string& buffer() {
    if (open_) erase_line();
    return held_;
  }
  /// The text so far ends within a terminal's line, at its beginning ('\r'): what comes next overwrites it.
  void leave_open(bool open) { open_ = open; }
  [[nodiscard]] bool is_terminal() const { return terminal_; }
  void flush();
  [[nodiscard]] bool full() const { return held_.size() - sent_ >= kHeldBytesMax; }
  [[nodiscard]] bool empty() const { return held_.empty(); }
  /// Nobody reads any more (EPIPE, a terminal that hung up): what is written is dropped.
  [[nodiscard]] bool reader_gone() const { return gone_; }
  /// Called on the loop, once: a write failed with this errno for another reason (a full disk). What was held
  /// is lost; the next write tries again.
  void on_error(std::function<void(int)> call) { on_error_ = std::move(call); }
  /// Called on the loop each time the console was full or not empty and has become empty or has room again.
  void on_room(const void* owner, std::function<void()> call);
  void forget(const void* owner);
  /// Writes what is held, waiting for the reader until `deadline`. False: the deadline came first.
  bool flush_until(Time deadline);

 private:
  static constexpr std::size_t kHeldBytesMax =
      1u << 20;  ///< from here on the writers stop reading their workers
  enum class Mode { Plain, NonBlocking, Socket, SmallWrites };

  void choose_mode(int fd);
  void erase_line();
  bool write_some();  ///< false: would block
  void write_failed(int error);
  void tell_news();
  void tell_room();
  [[nodiscard]] bool room_is_news() const;  ///< it was full, and those who wait for room do not know yet

  EventLoop& loop_;
  int fd_;
  UniqueFd reopened_;
  Mode mode_ = Mode::Plain;
  bool terminal_ = false;
  bool open_ = false;
  std::string held_;
  std::size_t sent_ = 0;  ///< of held_
  bool gone_ = false;     ///< nobody reads it any more
  int error_ = 0;         ///< the first other one; 0: none
  bool error_told_ = false;
  std::function<void(int)> on_error_;
  bool was_full_ = false;
  EventLoop::Watch watch_;  ///< while something is held
  EventLoop::Timer news_;   ///< gone_, error_ or room is new: tell it on the next turn
  struct Waiter {
    const void* owner;
    std::function<void()> call;
  };
  std::vector<Waiter> waiters_;
};

/// True if `fd` is a pipe or socket whose reader has gone. Asks the kernel; nothing is written.
[[nodiscard]] bool reader_gone(int fd);

/// Our stdout and stderr. One console where both are the same file, so that no line is torn by the other
/// stream.
class Consoles {
 public:
  explicit Consoles(EventLoop& loop) : loop_(loop) {}
  /// `fd`: 1 or 2. Made at first use.
  Console& get(int fd);
  /// Console::on_error() of both, with the descriptor.
  void on_error(std::function<void(int fd, int error)> call) { on_error_ = std::move(call); }
  bool flush_until(Time deadline);
  [[nodiscard]] bool empty() const;

 private:
  EventLoop& loop_;
  std::unique_ptr<Console> first_;
  std::unique_ptr<Console> second_;
  int first_fd_ = -1;
  std::function<void(int, int)> on_error_;
};

}  // namespace cxxrun::launcher
