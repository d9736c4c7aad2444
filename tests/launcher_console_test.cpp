// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>

#include "launcher/log_pump.hpp"
#include "launcher/signals.hpp"
#include "support/launcher_run.hpp"

namespace cxxrun::launcher::test {
namespace {

struct Pipe {
  UniqueFd read;
  UniqueFd write;
  Pipe() {
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    read = UniqueFd(ends[0]);
    write = UniqueFd(ends[1]);
  }
  void unblock_reader() const { ::fcntl(read.get(), F_SETFL, O_NONBLOCK); }
};

void put(const UniqueFd& fd, const std::string& text) {
  REQUIRE(::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
}

PumpPlan plan(const std::string& prefix, bool raw, bool keep_last_words, bool ends_with_reader = false) {
  PumpPlan out;
  out.style.prefix = prefix;
  out.raw = raw;
  out.keep_last_words = keep_last_words;
  out.ends_with_reader = ends_with_reader;
  return out;
}

/// What is there now.
std::string take(int fd) {
  std::string out;
  char chunk[65536];
  for (;;) {
    pollfd ready{fd, POLLIN, 0};
    if (::poll(&ready, 1, 0) <= 0) return out;
    const ssize_t n = ::read(fd, chunk, sizeof chunk);
    if (n <= 0) return out;
    out.append(chunk, static_cast<std::size_t>(n));
  }
}

/// Turns the loop until nothing happens for a moment.
void settle(EventLoop& loop) {
  while (loop.run_once(EventLoop::now() + 20ms)) {
  }
}

TEST_CASE("log pump: whole lines with their prefix, the last one completed at the end", "[launcher]") {
  EventLoop loop;
  Pipe console_pipe;
  Pipe a;
  Pipe b;
  a.unblock_reader();
  b.unblock_reader();
  Console console(loop, console_pipe.write.get());
  int drained = 0;
  LogPump one(loop, std::move(a.read), console, plan("[0]: ", false, true), [&] { ++drained; });
  LogPump two(loop, std::move(b.read), console, plan("[1]: ", false, false), [&] { ++drained; });
  put(a.write, "half");
  settle(loop);
  put(b.write, "whole\n");
  settle(loop);
  CHECK(take(console_pipe.read.get()) == "[1]: whole\n");
  put(a.write, " a line\nrest");
  settle(loop);
  CHECK(take(console_pipe.read.get()) == "[0]: half a line\n");
  CHECK(drained == 0);
  a.write.reset();
  settle(loop);
  CHECK(take(console_pipe.read.get()) == "[0]: rest\n");
  CHECK(drained == 1);
  CHECK(one.drained());
  CHECK_FALSE(two.drained());
  CHECK(one.last_words() == std::vector<std::string>{"half a line", "rest"});
  two.close();
  CHECK(two.drained());
}

TEST_CASE("log pump: bytes as they come", "[launcher]") {
  EventLoop loop;
  Pipe console_pipe;
  Pipe source;
  source.unblock_reader();
  Console console(loop, console_pipe.write.get());
  LogPump pump(loop, std::move(source.read), console, plan("", true, false), [] {});
  put(source.write, "50%\r");
  settle(loop);
  CHECK(take(console_pipe.read.get()) == "50%\r");
}

TEST_CASE("log pump: a stopped reader stops neither the loop nor grows memory, and loses nothing",
          "[launcher]") {
  EventLoop loop;
  Pipe console_pipe;
  Pipe source;
  source.unblock_reader();
  ::fcntl(source.write.get(), F_SETFL, O_NONBLOCK);
  Console console(loop, console_pipe.write.get());
  LogPump pump(loop, std::move(source.read), console, plan("> ", false, false), [] {});
  std::string sent;
  std::string pending;
  int line = 0;
  const auto write_more = [&] {  // false: the pipe takes no more
    if (pending.empty()) pending = "line " + std::to_string(line++) + std::string(90, '.') + "\n";
    const ssize_t n = ::write(source.write.get(), pending.data(), pending.size());
    if (n <= 0) return false;
    sent += pending.substr(0, static_cast<std::size_t>(n));
    pending.erase(0, static_cast<std::size_t>(n));
    return true;
  };
  int idle = 0;
  while (idle < 5) {
    bool wrote = false;
    while (write_more()) wrote = true;
    const bool turned = loop.run_once(EventLoop::now() + 5ms);
    idle = wrote || turned ? 0 : idle + 1;
  }
  CHECK(console.full());
  CHECK(console.buffer().size() < (3u << 20));
  // It is read again: all of it comes, in order.
  std::string got;
  const std::size_t lines_sent = static_cast<std::size_t>(std::count(sent.begin(), sent.end(), '\n'));
  const Time deadline = EventLoop::now() + kPatience;
  while (std::count(got.begin(), got.end(), '\n') < static_cast<std::ptrdiff_t>(lines_sent) &&
         EventLoop::now() < deadline) {
    got += take(console_pipe.read.get());
    loop.run_once(EventLoop::now() + 1ms);
  }
  std::string want;
  LineSplitter("> ").feed(sent, want);
  CHECK((got == want));
}

TEST_CASE("log pump: nothing spins while the console is full and the worker has gone", "[launcher]") {
  EventLoop loop;
  Pipe console_pipe;
  Pipe source;
  source.unblock_reader();
  Console console(loop, console_pipe.write.get());
  console.buffer().assign(4u << 20, 'x');
  console.flush();
  REQUIRE(console.full());
  LogPump pump(loop, std::move(source.read), console, plan("> ", false, false), [] {});
  put(source.write, "text\n");
  source.write.reset();
  int turns = 0;
  const Time end = EventLoop::now() + 50ms;
  while (EventLoop::now() < end) turns += loop.run_once(end) ? 1 : 0;
  CHECK(turns == 0);
}

TEST_CASE("log pump: goes on when the flush of another one makes the room", "[launcher]") {
  EventLoop loop;
  Pipe console_pipe;
  Pipe a;
  a.unblock_reader();
  Console console(loop, console_pipe.write.get());
  console.buffer().assign(2u << 20, 'x');
  console.flush();
  REQUIRE(console.full());
  LogPump waits(loop, std::move(a.read), console, plan("> ", false, false), [] {});
  put(a.write, "text\n");
  settle(loop);
  // The reader takes all before the loop sees that there is room: whoever flushes empties the console.
  while (!console.empty()) {
    take(console_pipe.read.get());
    console.flush();
  }
  take(console_pipe.read.get());
  settle(loop);
  CHECK(take(console_pipe.read.get()) == "> text\n");
}

TEST_CASE("console: a reader that has gone stops nobody", "[launcher]") {
  EventLoop loop;
  Pipe console_pipe;
  Pipe source;
  source.unblock_reader();
  Console console(loop, console_pipe.write.get());
  LogPump pump(loop, std::move(source.read), console, plan("> ", false, true), [] {});
  console_pipe.read.reset();
  for (int i = 0; i < 100; ++i) {
    put(source.write, std::string(1000, 'x') + "\n");
    settle(loop);
    if (i == 3) i = 96;
  }
  CHECK(console.empty());
  CHECK(pump.last_words().size() > 1);  // the report still has them
}

TEST_CASE("log pump: with the console's reader gone, the worker's next write is a broken pipe",
          "[launcher]") {
  EventLoop loop;
  Pipe console_pipe;
  Pipe a;
  Pipe b;
  a.unblock_reader();
  b.unblock_reader();
  Console console(loop, console_pipe.write.get());
  int drained = 0;
  LogPump one(loop, std::move(a.read), console, plan("> ", false, false, true), [&] { ++drained; });
  // This one does not read when the reader goes: the console is full.
  console.buffer().assign(4u << 20, 'x');
  console.flush();
  REQUIRE(console.full());
  LogPump two(loop, std::move(b.read), console, plan("> ", false, false, true), [&] { ++drained; });
  put(a.write, "text\n");
  put(b.write, "text\n");
  console_pipe.read.reset();
  settle(loop);
  CHECK(console.reader_gone());
  CHECK(reader_gone(console_pipe.write.get()));
  CHECK(drained == 2);
  const BlockedSignals no_pipe_signal;
  for (const UniqueFd* fd : {&a.write, &b.write}) {
    CHECK(::write(fd->get(), "x", 1) == -1);
    CHECK(errno == EPIPE);
  }
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGPIPE);
  const timespec at_once{};
  ::sigtimedwait(&set, nullptr, &at_once);
}

TEST_CASE("console: a full disk is told once, and stops nobody", "[launcher]") {
  EventLoop loop;
  const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  Console console(loop, full.get());
  std::vector<int> told;
  console.on_error([&](int error) { told.push_back(error); });
  for (int i = 0; i < 3; ++i) {
    console.buffer() += "text\n";
    console.flush();
    CHECK(console.empty());
    settle(loop);
  }
  CHECK(told == std::vector<int>{ENOSPC});
  CHECK_FALSE(console.reader_gone());
}

TEST_CASE("console: the flags of a descriptor that we share are left alone", "[launcher]") {
  EventLoop loop;
  Pipe pipe;
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  const UniqueFd reader(ends[0]);
  const UniqueFd writer(ends[1]);
  for (const int fd : {pipe.write.get(), writer.get()}) {
    const int before = ::fcntl(fd, F_GETFL);
    Console console(loop, fd);
    console.buffer() = std::string(3u << 20, 'x');
    console.flush();  // returns: the reader does not read
    CHECK_FALSE(console.empty());
    CHECK(::fcntl(fd, F_GETFL) == before);
    CHECK_FALSE(console.flush_until(EventLoop::now() + 20ms));
  }
}

TEST_CASE("console: a regular file keeps its place", "[launcher]") {
  EventLoop loop;
  TempDir dir;
  const UniqueFd file(::open(dir.file("log").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  put(file, "before\n");
  Console console(loop, file.get());
  console.buffer() += "ours\n";
  console.flush();
  put(file, "after\n");
  CHECK(read_text(dir.file("log")) == "before\nours\nafter\n");
}

}  // namespace
}  // namespace cxxrun::launcher::test
