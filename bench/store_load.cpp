// SPDX-License-Identifier: Apache-2.0
// Load for a TCPStore server: N connections, each with one piece of work in flight, for some seconds.
//   store_load PORT WORK CONNECTIONS SECONDS
// WORK: add | setget | setget1m | barrier | connect. Prints one JSON object. PyTorch's client code is not
// used: it could not load a server from one core.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/unique_fd.hpp"
#include "store/wire.hpp"

namespace {

using namespace cxxrun;
using namespace cxxrun::store;
using Clock = std::chrono::steady_clock;

[[noreturn]] void fail(const char* doing) {
  std::perror(doing);
  std::exit(1);
}

/// Processor time that all threads of a process have used.
double cpu_seconds(const std::string& pid) {
  double nanoseconds = 0;
  std::error_code gone;
  for (const auto& task : std::filesystem::directory_iterator("/proc/" + pid + "/task", gone)) {
    double used = 0;
    std::ifstream(task.path() / "schedstat") >> used;
    nanoseconds += used;
  }
  return nanoseconds / 1e9;
}

UniqueFd connect_to(std::uint16_t port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) fail("socket");
  const int on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) fail("connect");
  return fd;
}

void send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t went = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (went < 0) fail("send");
    bytes.remove_prefix(static_cast<std::size_t>(went));
  }
}

struct Connection {
  UniqueFd fd;
  std::string request;
  std::size_t expected = 0;  // bytes of the answer
  std::size_t received = 0;
};

std::string hello() {
  std::string bytes;
  put_validate(bytes);
  put_op(bytes, Op::Ping);
  put_u32(bytes, 1);
  return bytes;
}

/// One piece of work of a connection: what is sent and how long the answer is.
void prepare(Connection& c, const std::string& work, std::size_t index) {
  c.request.clear();
  if (work == "add") {
    put_op(c.request, Op::Add);
    put_string(c.request, "/counter" + std::to_string(index));
    put_i64(c.request, 1);
    c.expected = 8;
    return;
  }
  const std::string key = "/key" + std::to_string(index);
  const std::string value(work == "setget1m" ? 1u << 20 : 16u, 'x');
  put_op(c.request, Op::Set);
  put_string(c.request, key);
  put_string(c.request, value);
  put_op(c.request, Op::Get);
  put_string(c.request, key);
  c.expected = 8 + value.size();
}

class Load {
 public:
  Load(std::uint16_t port, std::string work, std::size_t count, double seconds)
      : work_(std::move(work)), epoll_(::epoll_create1(EPOLL_CLOEXEC)), connections_(count) {
    duration_ = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    for (std::size_t i = 0; i < count; ++i) {
      Connection& c = connections_[i];
      c.fd = connect_to(port);
      send_all(c.fd.get(), hello());
      std::array<char, 4> echo{};
      if (::recv(c.fd.get(), echo.data(), echo.size(), MSG_WAITALL) != 4) fail("hello");
      epoll_event event{.events = EPOLLIN, .data = {.u64 = i}};
      ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, c.fd.get(), &event);
      if (work_ != "barrier") prepare(c, work_, i);
    }
  }

  void run() {
    started_ = Clock::now();
    next_round();
    while (running_ > 0) {
      std::array<epoll_event, 256> events;
      const int ready = ::epoll_wait(epoll_.get(), events.data(), 256, 60'000);
      if (ready <= 0) fail("no answer");
      stopping_ = Clock::now() - started_ > duration_;
      for (int i = 0; i < ready; ++i) on_readable(connections_[events[static_cast<std::size_t>(i)].data.u64]);
    }
    seconds_ = std::chrono::duration<double>(Clock::now() - started_).count();
  }
  [[nodiscard]] std::size_t done() const { return done_; }
  [[nodiscard]] double seconds() const { return seconds_; }

 private:
  /// All connections begin; for BARRIER again whenever all have their answer.
  void next_round() {
    ++round_;
    running_ = connections_.size();
    for (Connection& c : connections_) {
      if (work_ == "barrier") {
        c.request.clear();
        put_op(c.request, Op::Barrier);
        put_string(c.request, barrier_ + std::to_string(round_));
        put_i64(c.request, static_cast<std::int64_t>(connections_.size()));
        c.expected = 1;
      }
      send_all(c.fd.get(), c.request);
    }
  }

  void on_readable(Connection& c) {
    static std::vector<char> buffer(std::size_t{1} << 21);
    const ssize_t got = ::recv(c.fd.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got <= 0) fail("recv");
    c.received += static_cast<std::size_t>(got);
    if (c.received < c.expected) return;
    c.received = 0;
    ++done_;
    if (work_ == "barrier" || stopping_) {
      --running_;
      if (running_ == 0 && !stopping_) next_round();
    } else {
      send_all(c.fd.get(), c.request);
    }
  }

  std::string work_;
  UniqueFd epoll_;
  std::vector<Connection> connections_;
  Clock::duration duration_{};
  Clock::time_point started_;
  const std::string barrier_ =
      "/barrier" + std::to_string(::getpid()) + ".";  // none that an earlier run passed
  std::size_t round_ = 0, running_ = 0, done_ = 0;
  double seconds_ = 0;
  bool stopping_ = false;
};

/// Connections a second: all are opened and say hello at once, then all are closed; again until the time is
/// up.
std::pair<std::size_t, double> connect_load(std::uint16_t port, std::size_t count, double seconds_wanted) {
  const auto started = Clock::now();
  std::size_t done = 0;
  double seconds = 0;
  do {
    std::vector<UniqueFd> sockets(count);
    for (UniqueFd& fd : sockets) {
      fd = connect_to(port);
      send_all(fd.get(), hello());
    }
    for (const UniqueFd& fd : sockets) {
      std::array<char, 4> echo{};
      if (::recv(fd.get(), echo.data(), echo.size(), MSG_WAITALL) != 4) fail("hello");
      const linger reset{.l_onoff = 1, .l_linger = 0};  // no TIME_WAIT: ports must last
      ::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    }
    done += count;
    seconds = std::chrono::duration<double>(Clock::now() - started).count();
  } while (seconds < seconds_wanted);
  return {done, seconds};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(
        stderr,
        "usage: store_load PORT add|setget|setget1m|barrier|connect CONNECTIONS SECONDS SERVER_PID\n");
    return 2;
  }
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  const auto port = static_cast<std::uint16_t>(std::atoi(argv[1]));
  const std::string work = argv[2];
  const auto count = static_cast<std::size_t>(std::atoi(argv[3]));
  const std::string pid = argv[5];
  std::size_t done = 0;
  double seconds = 0, cpu = 0;
  if (work == "connect") {
    const double before = cpu_seconds(pid);
    std::tie(done, seconds) = connect_load(port, count, std::atof(argv[4]));
    cpu = cpu_seconds(pid) - before;
  } else {
    Load load(port, work, count, std::atof(argv[4]));
    const double before = cpu_seconds(pid);
    load.run();
    cpu = cpu_seconds(pid) - before;
    done = load.done();
    seconds = load.seconds();
  }
  std::printf("{\"done\": %zu, \"seconds\": %.6f, \"server_cpu_seconds\": %.6f}\n", done, seconds, cpu);
  return 0;
}
