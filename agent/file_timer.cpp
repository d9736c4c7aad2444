// SPDX-License-Identifier: Apache-2.0
#include "agent/file_timer.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <utility>

#include "agent/error_path.hpp"

namespace cxxrun::agent {
namespace {

constexpr mode_t kPrivate = 0600;
constexpr double kLookAgain = 60;  ///< seconds: a wall clock that is set must not put a deadline off for long

double wall_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Error cannot(const std::string& path, int error) {
  const std::error_code code(error, std::generic_category());
  return {code, "cannot make the pipe of the worker timers " + path + ": " + code.message()};
}

/// A pipe that a killed agent has left goes; what else lies there is somebody's.
Result<> remove_old(const std::string& path) {
  struct stat facts {};
  if (::lstat(path.c_str(), &facts) != 0) return kOk;
  if (!S_ISFIFO(facts.st_mode)) return cannot(path, EEXIST);
  if (::unlink(path.c_str()) != 0) return cannot(path, errno);
  return kOk;
}

}  // namespace

Result<std::unique_ptr<FileTimer>> FileTimer::open(EventLoop& loop, const Config& config,
                                                   const std::string& temporary, Handlers handlers) {
  std::string path = config.watch.timer_file;
  if (path.empty()) path = private_path(temporary) + "_timer";
  if (auto removed = remove_old(path); !removed) return std::move(removed).error();
  if (::mkfifo(path.c_str(), kPrivate) != 0) return cannot(path, errno);
  // For writing too: else it would report an end each time that a client closes it.
  UniqueFd pipe(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  if (!pipe) return cannot(path, errno);
  return std::unique_ptr<FileTimer>(
      new FileTimer(loop, std::move(path), std::move(pipe), std::move(handlers)));
}

FileTimer::FileTimer(EventLoop& loop, std::string path, UniqueFd pipe, Handlers handlers)
    : loop_(loop), path_(std::move(path)), pipe_(std::move(pipe)), handlers_(std::move(handlers)) {
  watch_ = loop_.watch(pipe_.get(), EPOLLIN, [this](std::uint32_t) { read_requests(); });
}

FileTimer::~FileTimer() {
  struct stat ours {};
  struct stat there {};
  const bool same = ::fstat(pipe_.get(), &ours) == 0 && ::lstat(path_.c_str(), &there) == 0 &&
                    ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
  if (same) ::unlink(path_.c_str());
}

void FileTimer::start_round() {
  read_requests();  // of workers that are gone
  table_.clear();
  suspended_at_ = 0;
  plan();
}

void FileTimer::suspend() {
  if (suspended_at_ == 0) suspended_at_ = wall_now();
  timer_.reset();
}

void FileTimer::resume() {
  if (suspended_at_ == 0) return;
  table_.shift(std::max(0.0, wall_now() - suspended_at_));
  suspended_at_ = 0;
  plan();
}

/// A pipe holds 64 KiB: one read takes it all.
void FileTimer::read_requests() {
  std::array<char, 64u << 10> bytes;
  const ssize_t n = ::read(pipe_.get(), bytes.data(), bytes.size());
  if (n <= 0) return;
  std::vector<std::string> lines;
  if (lines_.feed({bytes.data(), static_cast<std::size_t>(n)}, lines) > 0)
    note_once("a line in the pipe of the worker timers is too long; it was dropped");
  for (const auto& line : lines) take(line);
  plan();
}

void FileTimer::take(const std::string& line) {
  auto request = parse_timer_request(line);
  if (!request)
    return note_once("the pipe of the worker timers holds a line that is no timer; it was dropped");
  last_heard_ = EventLoop::now();
  if (table_.take(std::move(*request)) == TimerTable::Took::Full)
    note_once("more worker timers at once than can be watched; those beyond are dropped");
}

void FileTimer::plan() {
  timer_.reset();
  const auto next = table_.next();
  if (!next || suspended_at_ != 0) return;
  const double wait = std::clamp(*next - wall_now(), 0.0, kLookAgain);
  timer_ = loop_.after(std::chrono::duration_cast<Duration>(std::chrono::duration<double>(wait)),
                       [this] { look(); });
}

void FileTimer::look() {
  read_requests();  // a release that came in the same moment counts
  for (const TimerRequest& request : table_.expired(wall_now())) handlers_.on_expired(request);
  plan();
}

void FileTimer::note_once(const std::string& line) {
  if (!std::exchange(noted_, true)) handlers_.on_note(line);
}

}  // namespace cxxrun::agent
