// SPDX-License-Identifier: Apache-2.0
#include "launcher/console.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <utility>

#include "launcher/signals.hpp"

namespace cxxrun::launcher {
namespace {

/// What a pipe takes in one piece, and a terminal without waiting, once poll says that it takes anything.
constexpr std::size_t kSmallWriteBytes = 512;
constexpr std::size_t kIdleBytesMax = 256u << 10;  ///< an empty buffer larger than this is given back

sigset_t pipe_signal() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGPIPE);
  return set;
}

/// The signal that came with EPIPE: blocked, it would wait for the mask to be restored, and end us then.
void take_pipe_signal() {
  const sigset_t set = pipe_signal();
  const timespec at_once{};
  ::sigtimedwait(&set, nullptr, &at_once);
}

bool same_file(int a, int b) {
  struct stat first {};
  struct stat second {};
  return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino && first.st_rdev == second.st_rdev;
}

}  // namespace

Console::Console(EventLoop& loop, int fd) : loop_(loop), fd_(fd) { choose_mode(fd); }
Console::~Console() = default;

void Console::choose_mode(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) {
    gone_ = true;
    return;
  }
  terminal_ = S_ISCHR(info.st_mode) && ::isatty(fd) == 1;
  if (S_ISSOCK(info.st_mode)) {
    mode_ = Mode::Socket;
  } else if (S_ISFIFO(info.st_mode) || terminal_) {
    char path[40];
    std::snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    reopened_ = UniqueFd(::open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    mode_ = reopened_ ? Mode::NonBlocking : Mode::SmallWrites;
    if (reopened_) fd_ = reopened_.get();
  }
}

/// The state of a progress bar may be longer than what overwrites it.
void Console::erase_line() {
  held_ += "\x1b[K";
  open_ = false;
}

bool Console::write_some() {
  const char* from = held_.data() + sent_;
  std::size_t size = held_.size() - sent_;
  ssize_t n = 0;
  switch (mode_) {
    case Mode::Plain:
    case Mode::NonBlocking: n = ::write(fd_, from, size); break;
    case Mode::Socket: n = ::send(fd_, from, size, MSG_DONTWAIT | MSG_NOSIGNAL); break;
    case Mode::SmallWrites: {
      pollfd ready{fd_, POLLOUT, 0};
      if (::poll(&ready, 1, 0) == 0) return false;
      n = ::write(fd_, from, std::min(size, kSmallWriteBytes));
      break;
    }
  }
  if (n > 0) {
    sent_ += static_cast<std::size_t>(n);
  } else if (n < 0 && errno == EAGAIN) {
    return false;
  } else if (n < 0 && errno != EINTR) {
    write_failed(errno);
  }
  return true;
}

void Console::write_failed(int error) {
  if (error == EPIPE) take_pipe_signal();
  held_.clear();
  sent_ = 0;
  if (error == EPIPE || (error == EIO && mode_ != Mode::Plain)) {
    gone_ = true;
  } else if (error_ == 0) {
    error_ = error;
  } else {
    return;
  }
  news_ = loop_.after(Duration::zero(), [this] { tell_news(); });  // not from inside a writer's call
}

void Console::tell_news() {
  tell_room();  // those that waited for room need not wait any more
  if (error_ != 0 && !std::exchange(error_told_, true) && on_error_) on_error_(error_);
}

void Console::flush() {
  const BlockedSignals no_pipe_signal(pipe_signal());
  bool room = true;
  while (!gone_ && sent_ < held_.size() && room) room = write_some();
  if (gone_ || sent_ == held_.size()) {
    held_.clear();
    sent_ = 0;
    if (held_.capacity() > kIdleBytesMax) held_.shrink_to_fit();
    watch_.reset();
  } else {
    if (sent_ >= held_.size() / 2) {
      held_.erase(0, sent_);
      sent_ = 0;
    }
    if (!watch_) {
      watch_ = loop_.watch(fd_, EPOLLOUT, [this](std::uint32_t) {
        flush();
        tell_room();
      });
    }
  }
  was_full_ = was_full_ || full();
  // A writer's own flush may make the room that another one waits for; the watch, that would tell, goes then.
  if (!news_ && room_is_news()) news_ = loop_.after(Duration::zero(), [this] { tell_news(); });
}

bool Console::room_is_news() const {
  return was_full_ && (empty() || held_.size() - sent_ <= kHeldBytesMax / 2);
}

void Console::tell_room() {
  if (!empty() && !room_is_news()) return;
  was_full_ = false;
  const auto calls = waiters_;  // a call may forget() itself or another
  for (const Waiter& waiter : calls) {
    const bool still = std::any_of(waiters_.begin(), waiters_.end(),
                                   [&](const Waiter& other) { return other.owner == waiter.owner; });
    if (still) waiter.call();
  }
}

void Console::on_room(const void* owner, std::function<void()> call) {
  waiters_.push_back({owner, std::move(call)});
}
void Console::forget(const void* owner) {
  std::erase_if(waiters_, [owner](const Waiter& waiter) { return waiter.owner == owner; });
}

bool Console::flush_until(Time deadline) {
  flush();
  while (!empty()) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - EventLoop::now()).count();
    if (left <= 0) return false;
    pollfd ready{fd_, POLLOUT, 0};
    ::poll(&ready, 1, static_cast<int>(std::min<long long>(left, 60'000)));
    flush();
  }
  return true;
}

bool reader_gone(int fd) {
  pollfd state{fd, 0, 0};
  return ::poll(&state, 1, 0) == 1 && (state.revents & POLLERR) != 0;
}

Console& Consoles::get(int fd) {
  const auto made = [this](int of) {
    auto console = std::make_unique<Console>(loop_, of);
    console->on_error([this, of](int error) {
      if (on_error_) on_error_(of, error);
    });
    return console;
  };
  if (!first_) {
    first_ = made(fd);
    first_fd_ = fd;
  }
  if (fd == first_fd_ || (!second_ && same_file(fd, first_fd_))) return *first_;
  if (!second_) second_ = made(fd);
  return *second_;
}

bool Consoles::flush_until(Time deadline) {
  const bool first = !first_ || first_->flush_until(deadline);
  const bool second = !second_ || second_->flush_until(deadline);
  return first && second;
}

bool Consoles::empty() const { return (!first_ || first_->empty()) && (!second_ || second_->empty()); }

}  // namespace cxxrun::launcher
