// SPDX-License-Identifier: Apache-2.0
#include "net/resolver.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <memory>

namespace cxxrun::net {
namespace {

constexpr std::size_t kAddressesMax = 16;
constexpr std::size_t kThreadStackBytes = 256u << 10;  // resolvers keep answer buffers on the stack

/// What the thread sends back, as one datagram of a socket pair. Plain data.
struct Answer {
  int gai_error = 0;
  int system_error = 0;
  std::uint32_t count = 0;
  std::array<Address, kAddressesMax> addresses{};
};

struct Question {
  std::string name;
  int reply = -1;
};

void* look_up(void* argument) {
  const std::unique_ptr<Question> question(static_cast<Question*>(argument));
  Answer answer;
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  answer.gai_error = ::getaddrinfo(question->name.c_str(), nullptr, &hints, &list);
  answer.system_error = errno;
  for (const addrinfo* entry = list; entry != nullptr && answer.count < kAddressesMax;
       entry = entry->ai_next) {
    if (const auto address = address_of(entry->ai_addr)) answer.addresses[answer.count++] = *address;
  }
  if (list != nullptr) ::freeaddrinfo(list);
  (void)!::send(question->reply, &answer, sizeof answer, MSG_NOSIGNAL);  // nobody there any more: fine
  ::close(question->reply);
  return nullptr;
}

/// A detached thread with all signals blocked: signals belong to the loop's thread.
int start_thread(std::unique_ptr<Question> question) {
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  ::pthread_attr_setstacksize(&attributes, kThreadStackBytes);
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const int error = ::pthread_create(&thread, &attributes, look_up, question.get());
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::pthread_attr_destroy(&attributes);
  if (error == 0) (void)question.release();
  return error;
}

}  // namespace

Resolve::Resolve(EventLoop& loop, const std::string& name, Duration limit, Done done)
    : done_(std::move(done)) {
  std::vector<Address> at_once;
  if (const auto numeric = parse_address(name)) at_once = {*numeric};
  if (name == "localhost") at_once = {*parse_address("127.0.0.1"), *parse_address("::1")};
  if (!at_once.empty()) {
    timer_ = loop.after(Duration::zero(), [this, at_once] { finish(at_once); });
    return;
  }
  int pair[2];
  int error = ::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair) == 0 ? 0 : errno;
  if (error == 0) {
    answer_ = UniqueFd(pair[0]);
    ::fcntl(pair[0], F_SETFL, O_NONBLOCK);
    error = start_thread(std::make_unique<Question>(Question{name, pair[1]}));
    if (error != 0) ::close(pair[1]);
  }
  if (error != 0) {
    timer_ = loop.after(Duration::zero(), [this, error] { finish(errno_error(error, "look-up")); });
    return;
  }
  watch_ = loop.watch(answer_.get(), EPOLLIN, [this, name](std::uint32_t) { read_answer(name); });
  timer_ =
      loop.after(limit, [this, name] { finish(errno_error(ETIMEDOUT, "cannot resolve '" + name + "'")); });
}

void Resolve::read_answer(const std::string& name) {
  Answer answer;
  if (::recv(answer_.get(), &answer, sizeof answer, 0) != static_cast<ssize_t>(sizeof answer)) return;
  if (answer.gai_error != 0) {
    const std::string why = answer.gai_error == EAI_SYSTEM
                                ? std::error_code(answer.system_error, std::generic_category()).message()
                                : ::gai_strerror(answer.gai_error);
    return finish(plain_error("cannot resolve '" + name + "': " + why));
  }
  std::vector<Address> addresses;
  for (std::uint32_t i = 0; i < answer.count; ++i) {
    if (std::find(addresses.begin(), addresses.end(), answer.addresses[i]) == addresses.end()) {
      addresses.push_back(answer.addresses[i]);
    }
  }
  if (addresses.empty()) return finish(plain_error("cannot resolve '" + name + "': no address"));
  finish(std::move(addresses));
}

void Resolve::finish(Result<std::vector<Address>> result) {
  watch_.reset();
  timer_.reset();
  const Done done = std::exchange(done_, nullptr);
  done(std::move(result));  // may destroy this
}

}  // namespace cxxrun::net
