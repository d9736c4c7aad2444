// SPDX-License-Identifier: Apache-2.0
#include "launcher/log_pump.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace cxxrun::launcher {
namespace {

constexpr std::size_t kChunkBytes = 64u << 10;
constexpr int kBusyPipeBytes = 1 << 20;

/// One for all pumps of the thread: nothing is kept in it between two reads.
std::array<char, kChunkBytes>& scratch() {
  thread_local std::array<char, kChunkBytes> bytes;
  return bytes;
}

}  // namespace

LogPump::LogPump(EventLoop& loop, UniqueFd source, Console& console, PumpPlan plan,
                 std::function<void()> on_drained)
    : loop_(loop),
      source_(std::move(source)),
      console_(console),
      plan_(std::move(plan)),
      lines_(std::move(plan_.style)),
      on_drained_(std::move(on_drained)) {
  console_.on_room(this, [this] {
    if (!give_up_with_reader()) pause_or_go_on();
  });
  pause_or_go_on();
}

LogPump::~LogPump() { console_.forget(this); }

void LogPump::on_readable() {
  const Read result = read_once();
  if (result == Read::End) {
    end();
    if (on_drained_) on_drained_();  // may destroy this
    return;
  }
  console_.flush();
  if (!give_up_with_reader()) pause_or_go_on();
}

bool LogPump::give_up_with_reader() {
  if (!source_ || !plan_.ends_with_reader || !console_.reader_gone()) return false;
  end();
  if (on_drained_) on_drained_();  // may destroy this
  return true;
}

LogPump::Read LogPump::read_once() {
  auto& bytes = scratch();
  const ssize_t n = ::read(source_.get(), bytes.data(), bytes.size());
  if (n > 0) {
    take({bytes.data(), static_cast<std::size_t>(n)});
    return Read::Some;
  }
  // A terminal's end is EIO.
  return n < 0 && (errno == EAGAIN || errno == EINTR) ? Read::Nothing : Read::End;
}

void LogPump::take(std::string_view bytes) {
  if (plan_.keep_last_words) last_words_.feed(bytes);
  if (plan_.file) plan_.file->write(bytes);
  if (plan_.copier) plan_.copier->feed(bytes);
  if (plan_.raw && plan_.to_console) {
    console_.buffer() += bytes;
  } else if (plan_.to_console) {
    write_lines(bytes);
  }
  if (!enlarged_ && bytes.size() == kChunkBytes) {
    enlarged_ =
        true;  // a busy stream: fewer and larger reads. Refused (a limit of the user's) it goes on as it was
    ::fcntl(source_.get(), F_SETPIPE_SZ, kBusyPipeBytes);
  }
}

void LogPump::write_lines(std::string_view bytes) {
  const Time now = EventLoop::now();
  lines_.feed(bytes, console_.buffer(), now);
  console_.leave_open(lines_.left_open());
  const auto due = lines_.due();
  if (!due) return bar_timer_.reset();
  if (!bar_timer_) bar_timer_ = loop_.at(std::max(*due, now), [this] { show_bar(); });
}

void LogPump::show_bar() {
  const auto due = lines_.due();
  const Time now = EventLoop::now();
  if (due && *due <= now) lines_.show(console_.buffer(), now);
  if (due && *due > now) bar_timer_ = loop_.at(*due, [this] { show_bar(); });
  console_.flush();
}

void LogPump::pause_or_go_on() {
  if (!source_ || static_cast<bool>(watch_) != (plan_.to_console && console_.full())) return;
  if (watch_) return watch_.reset();  // not want(0): a hang-up would be reported all the time
  watch_ = loop_.watch(source_.get(), EPOLLIN, [this](std::uint32_t) { on_readable(); });
}

void LogPump::read_available() {
  std::size_t left = static_cast<std::size_t>(kBusyPipeBytes);
  while (source_ && left > 0 && read_once() == Read::Some) left -= std::min(left, kChunkBytes);
  console_.flush();  // an end is left for the watch, which tells it on the loop
}

void LogPump::close() {
  if (source_) end();
}

void LogPump::end() {
  watch_.reset();
  bar_timer_.reset();
  source_.reset();
  if (plan_.copier) plan_.copier->finish();
  if (!plan_.raw && plan_.to_console) lines_.finish(console_.buffer());
  console_.flush();
}

}  // namespace cxxrun::launcher
