// SPDX-License-Identifier: Apache-2.0
#include "agent/heartbeats.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

namespace cxxrun::agent {
namespace {

/// Of the timeout: so long nobody listens after a beat, so that a worker that beats in a tight loop wakes the
/// agent eight times in a timeout at most. What does not fit into the pipe meanwhile is lost, and no loss.
constexpr int kDeafShare = 8;

}  // namespace

Heartbeats::Heartbeats(EventLoop& loop, Duration timeout, OnSilent on_silent)
    : loop_(loop), timeout_(timeout), on_silent_(std::move(on_silent)) {}

Result<std::vector<int>> Heartbeats::open_round(int workers) {
  lines_.clear();
  std::vector<int> out;
  for (int i = 0; i < workers; ++i) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return errno_error(errno, "pipe of the heartbeats");
    auto line = std::make_unique<Line>();
    line->local_rank = i;
    line->ours = UniqueFd(ends[0]);
    line->its = UniqueFd(ends[1]);
    out.push_back(ends[1]);
    lines_.push_back(std::move(line));
  }
  return out;
}

void Heartbeats::started() {
  for (auto& line : lines_) {
    line->its.reset();
    line->watch =
        loop_.watch(line->ours.get(), EPOLLIN, [this, &it = *line](std::uint32_t) { read_beats(it); });
  }
}

void Heartbeats::suspend() {
  for (auto& line : lines_) line->timer.reset();
}

void Heartbeats::resume() {
  for (auto& line : lines_) {
    if (!line->watch) continue;
    line->last = EventLoop::now();
    line->due ? listen_again(*line) : line->watch.want(EPOLLIN);
  }
}

void Heartbeats::read_beats(Line& line) {
  std::array<char, 64u << 10> bytes;  // all that a pipe holds
  const ssize_t n = ::read(line.ours.get(), bytes.data(), bytes.size());
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) {  // it has ended, or closed its end
    line.due = false;
    line.timer.reset();
    line.watch.reset();
    return;
  }
  line.last = EventLoop::now();
  last_heard_ = line.last;
  line.due = bytes[static_cast<std::size_t>(n) - 1] != '-';
  if (!line.due) return line.timer.reset();
  line.watch.want(0);
  line.timer = loop_.after(timeout_ / kDeafShare, [this, &line] { listen_again(line); });
}

void Heartbeats::listen_again(Line& line) {
  line.watch.want(EPOLLIN);
  line.timer = loop_.at(line.last + timeout_, [this, &line] { silent(line); });
}

void Heartbeats::silent(Line& line) {
  const Time before = line.last;
  read_beats(line);  // what came in the same moment counts
  if (!line.watch || line.last != before) return;
  line.due = false;
  on_silent_(line.local_rank);
}

}  // namespace cxxrun::agent
