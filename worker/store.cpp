// SPDX-License-Identifier: Apache-2.0
#include "worker/store.hpp"

#include <netdb.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <memory>

#include "base/unique_fd.hpp"

namespace cxxrun::worker {
namespace {

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};

/// The source address that the kernel picks for a destination: a datagram socket is connected without a
/// packet.
Result<std::string> source_address(const addrinfo& destination) {
  const UniqueFd fd(::socket(destination.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd) return errno_error(errno, "socket");
  if (::connect(fd.get(), destination.ai_addr, destination.ai_addrlen) != 0)
    return errno_error(errno, "no route");
  sockaddr_storage own{};
  socklen_t own_size = sizeof own;
  auto* own_address = reinterpret_cast<sockaddr*>(&own);
  if (::getsockname(fd.get(), own_address, &own_size) != 0) return errno_error(errno, "getsockname");
  std::array<char, NI_MAXHOST> text{};
  const int failed =
      ::getnameinfo(own_address, own_size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  if (failed != 0) return plain_error(::gai_strerror(failed));
  return std::string(text.data());
}

}  // namespace

Result<Store> connect_store(const Ranks& ranks, const StoreOptions& options) {
  store::ClientOptions client_options;
  client_options.timeout = options.timeout;
  client_options.prefix = "/" + options.prefix;
  return Store::connect(ranks.master_addr, ranks.master_port, std::move(client_options));
}

Result<std::string> local_address(const Ranks& ranks) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(ranks.master_port);
  const int failed = ::getaddrinfo(ranks.master_addr.c_str(), port.c_str(), &hints, &found);
  if (failed != 0)
    return plain_error("resolve MASTER_ADDR=" + ranks.master_addr + ": " + ::gai_strerror(failed));
  const std::unique_ptr<addrinfo, FreeAddresses> list(found);
  Result<std::string> last = plain_error("no address");
  for (const addrinfo* address = list.get(); address != nullptr; address = address->ai_next) {
    last = source_address(*address);
    if (last) return last;
  }
  return std::move(last).error().context("own address towards " + ranks.master_addr);
}

}  // namespace cxxrun::worker
