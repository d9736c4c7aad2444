// SPDX-License-Identifier: Apache-2.0
#include "launcher/streams.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/limits.hpp"
#include "launcher/last_words.hpp"

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

/// What becomes of one stream, but for a terminal. `its` stays empty: inherited.
Result<> open_stream(const StreamPlan& plan, const LogFile::OnError& on_file_error, UniqueFd& ours,
                     UniqueFd& its, std::unique_ptr<LogFile>& file, std::unique_ptr<LogFile>& copies) {
  if (plan.sink == Sink::Inherit) return kOk;
  if (plan.sink == Sink::File) {
    auto opened = open_log(plan.file);
    if (!opened) return std::move(opened).error();
    its = std::move(*opened);
    return kOk;
  }
  if (plan.sink == Sink::Discard && !plan.keep_last_words) {
    its = UniqueFd(::open("/dev/null", O_WRONLY | O_CLOEXEC));
    return its ? Result<>(kOk) : errno_error(errno, "open /dev/null");
  }
  if (!plan.file.empty()) {
    auto opened = LogFile::open(plan.file, on_file_error);
    if (!opened) return std::move(opened).error();
    file = std::move(*opened);
  }
  if (!plan.copies_file.empty()) {
    auto opened = LogFile::open(plan.copies_file, on_file_error);
    if (!opened) return std::move(opened).error();
    copies = std::move(*opened);
  }
  return open_pipe(ours, its);
}

/// Bytes without prefix, of the only worker, pass as they come.
bool is_raw(const StreamPlan& plan, bool alone) {
  return alone && plan.prefix.empty() && plan.json_fields.empty();
}

PumpPlan pump_plan(const StreamPlan& plan, bool raw, const Console& console, std::unique_ptr<LogFile> file,
                   std::unique_ptr<LogFile> copies) {
  PumpPlan out;
  out.style.prefix = plan.prefix;
  if (!plan.json_fields.empty()) out.style.json.emplace(plan.json_fields);
  out.style.bars = console.is_terminal() && plan.json_fields.empty() ? Bars::Redraw : Bars::Thin;
  out.raw = raw;
  out.to_console = plan.sink != Sink::Discard;
  out.keep_last_words = plan.keep_last_words;
  out.file = std::move(file);
  if (copies) out.copier = std::make_unique<LineCopier>(std::move(copies), plan.prefix, plan.copied_texts);
  return out;
}

}  // namespace

Result<StreamEnds> open_streams(const SpawnSpec& spec, const LogFile::OnError& on_file_error) {
  StreamEnds ends;
  auto out =
      open_stream(spec.out, on_file_error, ends.out_ours, ends.out_its, ends.out_file, ends.out_copies);
  if (!out) return std::move(out).error();
  if (spec.err.sink == Sink::Terminal) ends.err_is_terminal = open_terminal(ends.err_ours, ends.err_its);
  if (ends.err_is_terminal) return ends;
  auto err =
      open_stream(spec.err, on_file_error, ends.err_ours, ends.err_its, ends.err_file, ends.err_copies);
  if (!err) return std::move(err).error();
  return ends;
}

WorkerStreams::WorkerStreams(EventLoop& loop, Consoles& consoles, const SpawnSpec& spec, StreamEnds& ends,
                             bool alone, const std::function<void()>& on_drained)
    : keeps_last_words_(spec.err.keep_last_words), err_is_terminal_(ends.err_is_terminal) {
  ends.out_its.reset();
  ends.err_its.reset();
  if (spec.err.sink == Sink::File) err_file_ = spec.err.file;
  if (ends.out_ours) {
    Console& console = consoles.get(kOut);
    auto plan = pump_plan(spec.out, is_raw(spec.out, alone), console, std::move(ends.out_file),
                          std::move(ends.out_copies));
    plan.ends_with_reader = plan.to_console && !plan.file;
    out_ = std::make_unique<LogPump>(loop, std::move(ends.out_ours), console, std::move(plan), on_drained);
  }
  if (ends.err_ours) {
    Console& console = consoles.get(kErr);
    auto plan = pump_plan(spec.err, err_is_terminal_ || is_raw(spec.err, alone), console,
                          std::move(ends.err_file), std::move(ends.err_copies));
    err_ = std::make_unique<LogPump>(loop, std::move(ends.err_ours), console, std::move(plan), on_drained);
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
  if (!keeps_last_words_) return {};
  if (err_) return err_->last_words();
  LastWords words;
  words.feed(
      end_of_file(err_file_, limits::kLastWordsBytesMax + 1));  // one more: then it knows of a beginning
  return words.lines();
}

std::string WorkerStreams::last_words_note() const {
  if (!err_ && err_file_.empty()) return "its stderr was not captured";
  if (!keeps_last_words_) return "the last lines of its stderr were not kept";
  return last_words().empty() ? "it wrote nothing to stderr" : "";
}

void WorkerStreams::window_changed() {
  if (err_is_terminal_ && err_ && !err_->drained()) copy_window_size(err_->source());
}

}  // namespace cxxrun::launcher
