// SPDX-License-Identifier: Apache-2.0
#include "launcher/streams.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>

namespace cxxrun::launcher {
namespace {

constexpr int kOut = 1;
constexpr int kErr = 2;

Result<> open_pipe(UniqueFd& ours, UniqueFd& its) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return errno_error(errno, "pipe for a worker's output");
  ours = UniqueFd(ends[0]);
  its = UniqueFd(ends[1]);
  ::fcntl(ours.get(), F_SETFL, O_NONBLOCK);  // our end only: the worker finds an ordinary pipe
  return kOk;
}

void copy_window_size(int to) {
  winsize size{};
  if (::ioctl(kErr, TIOCGWINSZ, &size) == 0) ::ioctl(to, TIOCSWINSZ, &size);
}

/// A pseudo-terminal that hands every byte on as it is: our own terminal does what there is to do about line
/// ends.
bool open_terminal(UniqueFd& ours, UniqueFd& its) {
  UniqueFd master(::open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC));
  int unlocked = 0;
  if (!master || ::ioctl(master.get(), TIOCSPTLCK, &unlocked) != 0) return false;
  UniqueFd slave(::ioctl(master.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
  termios mode{};
  if (!slave || ::tcgetattr(slave.get(), &mode) != 0) return false;
  mode.c_oflag &= ~static_cast<tcflag_t>(OPOST);
  mode.c_lflag &= ~static_cast<tcflag_t>(ECHO);
  ::tcsetattr(slave.get(), TCSANOW, &mode);
  copy_window_size(master.get());
  ours = std::move(master);
  its = std::move(slave);
  return true;
}

std::unique_ptr<LogPump> pump(EventLoop& loop, Console& console, const StreamPlan& plan, UniqueFd source,
                              bool raw, bool ends_with_reader, const std::function<void()>& on_drained) {
  return std::make_unique<LogPump>(loop, std::move(source), console,
                                   PumpPlan{plan.prefix, raw, plan.keep_last_words, ends_with_reader},
                                   on_drained);
}

}  // namespace

Result<StreamEnds> open_streams(const SpawnSpec& spec) {
  StreamEnds ends;
  if (spec.out.sink != Sink::Inherit) {
    if (auto opened = open_pipe(ends.out_ours, ends.out_its); !opened) return std::move(opened).error();
  }
  if (spec.err.sink == Sink::Terminal) ends.err_is_terminal = open_terminal(ends.err_ours, ends.err_its);
  if (spec.err.sink != Sink::Inherit && !ends.err_is_terminal) {
    if (auto opened = open_pipe(ends.err_ours, ends.err_its); !opened) return std::move(opened).error();
  }
  return ends;
}

WorkerStreams::WorkerStreams(EventLoop& loop, Consoles& consoles, const SpawnSpec& spec, StreamEnds& ends,
                             bool alone, const std::function<void()>& on_drained)
    : keeps_last_words_(spec.err.keep_last_words), err_is_terminal_(ends.err_is_terminal) {
  ends.out_its.reset();
  ends.err_its.reset();
  if (ends.out_ours) {
    const bool raw = alone && spec.out.prefix.empty();
    out_ = pump(loop, consoles.get(kOut), spec.out, std::move(ends.out_ours), raw, true, on_drained);
  }
  if (ends.err_ours) {
    const bool raw = err_is_terminal_ || (alone && spec.err.prefix.empty());
    err_ = pump(loop, consoles.get(kErr), spec.err, std::move(ends.err_ours), raw, false, on_drained);
  }
}

void WorkerStreams::read_available() {
  if (out_) out_->read_available();  // first: what was said on stdout before the end stands before the report
  if (err_) err_->read_available();
}

void WorkerStreams::close() {
  if (out_) out_->close();
  if (err_) err_->close();
}

bool WorkerStreams::drained() const { return (!out_ || out_->drained()) && (!err_ || err_->drained()); }

std::vector<std::string> WorkerStreams::last_words() const {
  return err_ && keeps_last_words_ ? err_->last_words() : std::vector<std::string>{};
}

std::string WorkerStreams::last_words_note() const {
  if (!err_) return "its stderr was not captured";
  if (!keeps_last_words_) return "the last lines of its stderr were not kept";
  return err_->last_words().empty() ? "it wrote nothing to stderr" : "";
}

void WorkerStreams::window_changed() {
  if (err_is_terminal_ && err_ && !err_->drained()) copy_window_size(err_->source());
}

}  // namespace cxxrun::launcher
