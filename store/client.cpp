// SPDX-License-Identifier: Apache-2.0
#include "store/client.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <thread>

namespace cxxrun::store {
namespace {

constexpr Duration kPauseFirst = 1ms;
constexpr Duration kPauseMax = 1s;
constexpr Duration kTimeoutMin = 1ms;
constexpr Duration kTimeoutMax = std::chrono::hours(24 * 24);
/// For one address of several: a silent one must not use up the time of those behind it.
constexpr Duration kAttemptMax = 5s;
/// For the answer to a cancelled wait, which comes at once from a server that lives.
constexpr Duration kCancelTimeout = 30s;
constexpr std::size_t kReadBytes = std::size_t{16} << 10;
/// No server sends longer ones (1 GiB is the most that cxxrun's can be set to).
constexpr std::uint64_t kStringBytesMax = std::uint64_t{1} << 30;

Time now() { return std::chrono::steady_clock::now(); }

Error timed_out(std::string message) {
  return {std::make_error_code(std::errc::timed_out), std::move(message)};
}

Error closed_by_server() {
  return {std::make_error_code(std::errc::not_connected), "the store closed the connection"};
}

/// False at the deadline.
bool poll_until(int fd, short events, Time deadline) {
  while (true) {
    const Duration left = deadline - now();
    pollfd poll_fd{.fd = fd, .events = events, .revents = 0};
    const auto ms =
        std::chrono::ceil<std::chrono::milliseconds>(std::clamp(left, Duration::zero(), Duration(1h)))
            .count();
    const int ready = ::poll(&poll_fd, 1, static_cast<int>(ms));
    if (ready > 0) return true;
    if (ready == 0 && left <= Duration::zero()) return false;
  }
}

Result<UniqueFd> connect_to(const addrinfo& address, Time deadline) {
  UniqueFd fd(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return errno_error(errno, "socket");
  const int on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(fd.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  if (::connect(fd.get(), address.ai_addr, address.ai_addrlen) == 0) return fd;
  if (errno != EINPROGRESS && errno != EINTR) return errno_error(errno, "connect");
  if (!poll_until(fd.get(), POLLOUT, deadline)) return errno_error(ETIMEDOUT, "connect");
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return errno_error(error, "connect");
  return fd;
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

Result<Addresses> resolve(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int rc = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (rc != 0) {
    return Error{std::make_error_code(std::errc::host_unreachable),
                 std::string("resolve: ") + ::gai_strerror(rc)};
  }
  return Addresses(list);
}

}  // namespace

Result<Client> Client::connect(const std::string& host, std::uint16_t port, ClientOptions options) {
  options.timeout = std::clamp(options.timeout, kTimeoutMin, kTimeoutMax);
  const Time give_up = now() + options.timeout;
  std::string last_error = "no address";
  for (Duration pause = kPauseFirst;; pause = std::min(pause * 2, kPauseMax)) {
    auto addresses = resolve(host, port);
    if (!addresses) last_error = addresses.error().message;
    for (const addrinfo* a = addresses ? addresses->get() : nullptr; a != nullptr; a = a->ai_next) {
      const Time attempt_ends = a->ai_next != nullptr ? std::min(give_up, now() + kAttemptMax) : give_up;
      auto socket = connect_to(*a, attempt_ends);
      if (!socket) {
        last_error = socket.error().message;
        continue;
      }
      Client client(*std::move(socket), options);
      auto met = client.handshake(attempt_ends);
      if (met) return client;
      last_error = met.error().message;
    }
    if (now() + pause >= give_up) break;
    std::this_thread::sleep_for(pause);
  }
  return timed_out("no store at " + host + " port " + std::to_string(port) + " within " +
                   text(options.timeout) + " (" + last_error + ")");
}

/// The echo proves that a store is there: a connection that only was accepted proves nothing.
Result<> Client::handshake(Time until) {
  const auto nonce = static_cast<std::uint32_t>(::getpid());
  request_.clear();
  put_validate(request_);
  put_op(request_, Op::Ping);
  put_u32(request_, nonce);
  if (auto sent = send(until); !sent) return sent;
  std::uint32_t echo = 0;
  if (auto got = read(reinterpret_cast<char*>(&echo), sizeof echo, until); !got) return got;
  if (echo != nonce) return lost(plain_error("it answers but is no store"));
  return kOk;
}

void Client::begin(Op op) {
  request_.clear();
  put_op(request_, op);
}

void Client::put_key(std::string_view key) {
  put_u64(request_, options_.prefix.size() + key.size());
  request_.append(options_.prefix);
  request_.append(key);
}

void Client::put_keys(const Keys& keys) {
  put_u64(request_, keys.size());
  for (const std::string& key : keys) put_key(key);
}

Time Client::deadline(std::optional<Duration> timeout) const {
  return now() + std::clamp(timeout.value_or(options_.timeout), Duration::zero(), kTimeoutMax);
}

Error Client::lost(Error error) {
  socket_.reset();
  return error;
}

Result<> Client::send(Time until) {
  if (!socket_) return closed_by_server();
  std::string_view left = request_;
  while (!left.empty()) {
    const ssize_t went = ::send(socket_.get(), left.data(), left.size(), MSG_NOSIGNAL);
    if (went > 0) {
      left.remove_prefix(static_cast<std::size_t>(went));
    } else if (errno == EAGAIN) {
      if (!poll_until(socket_.get(), POLLOUT, until)) return lost(timed_out("the store does not read"));
    } else if (errno != EINTR) {
      return lost(closed_by_server());
    }
  }
  return kOk;
}

/// Waits for bytes and takes what is there. The caller decides what a time-out (errc::timed_out) means.
Result<> Client::fill(Time until) {
  if (!socket_) return closed_by_server();
  if (input_read_ == input_.size()) {
    input_.clear();
    input_read_ = 0;
  }
  std::array<char, kReadBytes> chunk;
  while (true) {
    const ssize_t got = ::recv(socket_.get(), chunk.data(), chunk.size(), 0);
    if (got > 0) {
      input_.append(chunk.data(), static_cast<std::size_t>(got));
      return kOk;
    }
    if (got == 0) return lost(closed_by_server());
    if (errno == EAGAIN) {
      if (!poll_until(socket_.get(), POLLIN, until)) return timed_out("no answer from the store in time");
    } else if (errno != EINTR) {
      return lost(closed_by_server());
    }
  }
}

Result<> Client::read(char* to, std::size_t bytes, Time until) {
  while (bytes > 0) {
    const std::size_t there = std::min(bytes, input_.size() - input_read_);
    if (there == 0) {
      auto more = fill(until);
      if (!more) return lost(std::move(more).error());
      continue;
    }
    std::copy_n(input_.data() + input_read_, there, to);
    input_read_ += there;
    to += there;
    bytes -= there;
  }
  return kOk;
}

Result<std::int64_t> Client::read_i64(Time until) {
  std::int64_t value = 0;
  if (auto got = read(reinterpret_cast<char*>(&value), sizeof value, until); !got)
    return std::move(got).error();
  return value;
}

Result<char> Client::read_byte(Time until) {
  char byte = 0;
  if (auto got = read(&byte, 1, until); !got) return std::move(got).error();
  return byte;
}

/// Grows as the bytes come, not by what the length promises.
Result<std::string> Client::read_string(Time until) {
  auto length = read_i64(until);
  if (!length) return std::move(length).error();
  auto left = static_cast<std::uint64_t>(*length);
  if (left > kStringBytesMax) {
    return lost({std::make_error_code(std::errc::message_size), "the store sent an impossible length"});
  }
  std::string value;
  while (left > 0) {
    const auto there = static_cast<std::size_t>(std::min<std::uint64_t>(left, input_.size() - input_read_));
    value.append(input_, input_read_, there);
    input_read_ += there;
    left -= there;
    if (left == 0) break;
    auto more = fill(until);
    if (!more) return lost(std::move(more).error());
  }
  return value;
}

Result<std::int64_t> Client::ask_i64() {
  const Time until = deadline();
  if (auto sent = send(until); !sent) return std::move(sent).error();
  return read_i64(until);
}

/// The answer to a WAIT or BARRIER. At the deadline the wait is taken back, so that the connection stays in
/// step; if it ended in that very moment it has succeeded.
Result<> Client::await(std::string_view what, Time until) {
  if (input_read_ == input_.size()) {
    auto more = fill(until);
    if (!more && more.error().code != std::errc::timed_out) return more;
    if (!more) {
      begin(Op::CancelWait);
      const Time cancel_until = now() + kCancelTimeout;
      if (auto sent = send(cancel_until); !sent) return sent;
      auto answer = read_byte(cancel_until);
      if (!answer) return std::move(answer).error();
      if (*answer == kCanceled) return timed_out("waited in vain for " + std::string(what));
      answer = read_byte(cancel_until);
      if (!answer) return std::move(answer).error();
      return kOk;
    }
  }
  auto answer = read_byte(until);
  if (!answer) return std::move(answer).error();
  return kOk;
}

Result<> Client::set(std::string_view key, std::string_view value) {
  begin(Op::Set);
  put_key(key);
  put_string(request_, value);
  return send(deadline());
}

Result<std::string> Client::get(std::string_view key, std::optional<Duration> timeout) {
  if (auto there = wait({std::string(key)}, timeout); !there) return std::move(there).error();
  begin(Op::Get);
  put_key(key);
  const Time until = deadline();
  if (auto sent = send(until); !sent) return std::move(sent).error();
  return read_string(until);
}

Result<std::int64_t> Client::add(std::string_view key, std::int64_t delta) {
  begin(Op::Add);
  put_key(key);
  put_i64(request_, delta);
  return ask_i64();
}

Result<std::string> Client::compare_set(std::string_view key, std::string_view expected,
                                        std::string_view desired) {
  begin(Op::CompareSet);
  put_key(key);
  put_string(request_, expected);
  put_string(request_, desired);
  const Time until = deadline();
  if (auto sent = send(until); !sent) return std::move(sent).error();
  return read_string(until);
}

Result<bool> Client::check(const Keys& keys) {
  begin(Op::Check);
  put_keys(keys);
  const Time until = deadline();
  if (auto sent = send(until); !sent) return std::move(sent).error();
  auto answer = read_byte(until);
  if (!answer) return std::move(answer).error();
  return *answer == kReady;
}

Result<> Client::wait(const Keys& keys, std::optional<Duration> timeout) {
  begin(Op::Wait);
  put_keys(keys);
  const Time until = deadline(timeout);
  if (auto sent = send(deadline()); !sent) return sent;
  std::string what = keys.empty() ? std::string("nothing") : "key '" + keys.front() + "'";
  if (keys.size() > 1) what += " and " + std::to_string(keys.size() - 1) + " more";
  return await(what, until);
}

Result<bool> Client::delete_key(std::string_view key) {
  begin(Op::DeleteKey);
  put_key(key);
  auto removed = ask_i64();
  if (!removed) return std::move(removed).error();
  return *removed > 0;
}

Result<> Client::append(std::string_view key, std::string_view data) {
  begin(Op::Append);
  put_key(key);
  put_string(request_, data);
  return send(deadline());
}

Result<std::vector<std::string>> Client::multi_get(const Keys& keys, std::optional<Duration> timeout) {
  if (auto there = wait(keys, timeout); !there) return std::move(there).error();
  begin(Op::MultiGet);
  put_keys(keys);
  const Time until = deadline();
  if (auto sent = send(until); !sent) return std::move(sent).error();
  std::vector<std::string> values;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    auto value = read_string(until);
    if (!value) return std::move(value).error();
    values.push_back(*std::move(value));
  }
  return values;
}

Result<> Client::multi_set(const std::vector<std::pair<std::string, std::string>>& pairs) {
  begin(Op::MultiSet);
  put_u64(request_, pairs.size());
  for (const auto& [key, value] : pairs) {
    put_key(key);
    put_string(request_, value);
  }
  return send(deadline());
}

Result<std::int64_t> Client::num_keys() {
  begin(Op::NumKeys);
  return ask_i64();
}

Result<Client::Keys> Client::list_keys() {
  begin(Op::ListKeys);
  const Time until = deadline();
  if (auto sent = send(until); !sent) return std::move(sent).error();
  auto count = read_i64(until);
  if (!count) return std::move(count).error();
  Keys keys;
  for (std::int64_t i = 0; i < *count; ++i) {
    auto key = read_string(until);
    if (!key) return std::move(key).error();
    if (key->starts_with(options_.prefix)) keys.push_back(key->substr(options_.prefix.size()));
  }
  return keys;
}

Result<> Client::barrier(std::string_view key, std::int64_t world_size, std::optional<Duration> timeout) {
  begin(Op::Barrier);
  put_key(key);
  put_i64(request_, world_size);
  const Time until = deadline(timeout);
  if (auto sent = send(deadline()); !sent) return sent;
  return await("barrier '" + std::string(key) + "' of " + std::to_string(world_size), until);
}

Result<> Client::queue_push(std::string_view name, std::string_view data) {
  begin(Op::QueuePush);
  put_key(name);
  put_string(request_, data);
  return send(deadline());
}

Result<std::string> Client::queue_pop(std::string_view name, std::optional<Duration> timeout) {
  const Time until = deadline(timeout);
  while (true) {  // another consumer may have been faster between the wait and the pop
    if (auto there = wait({std::string(name)}, until - now()); !there) return std::move(there).error();
    begin(Op::QueuePop);
    put_key(name);
    auto length = ask_i64();
    if (!length) return std::move(length).error();
    if (*length > 0) return read_string(deadline());
  }
}

Result<std::int64_t> Client::queue_len(std::string_view name) {
  begin(Op::QueueLen);
  put_key(name);
  return ask_i64();
}

}  // namespace cxxrun::store
