// SPDX-License-Identifier: Apache-2.0
#include "agent/master_port.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

namespace cxxrun::agent {

Result<std::unique_ptr<MasterPort>> MasterPort::open(EventLoop& loop, const Config& config, Say say) {
  std::unique_ptr<MasterPort> port(new MasterPort);
  port->admission_ = config.store_admission;
  if (!config.rendezvous.agent_store) {
    auto held = hold_port(config.rendezvous, port->number_);
    if (!held) return std::move(held).error();
    port->held_ = std::move(*held);
    return port;
  }
  store::ServerOptions options;
  options.port_first = config.rendezvous.ports.first;
  options.port_last = config.rendezvous.ports.last;
  options.port_skip = config.rendezvous.endpoint.port;  // whoever hosts the coordinator needs it
  if (config.store_value_bytes_max != 0) options.value_bytes_max = config.store_value_bytes_max;
  // Static: workers reach the store through the control port; it needs no socket of its own.
  options.listening = config.rendezvous.backend != rendezvous::BackendKind::Static;
  auto server = store::Server::listen(loop, options, [say = std::move(say)](const std::string& refused) {
    say("the worker store refused a client from " + refused +
        ", which is no node of this job; to let it in: --rdzv-conf store_admit=any, or a prefix such as "
        "10.0.0.0/8");
  });
  if (!server) return std::move(server).error();
  port->store_ = std::move(*server);
  port->number_ = port->store_->port();
  return port;
}

Result<UniqueFd> MasterPort::hold_port(const rendezvous::Config& rendezvous, std::uint16_t& number) {
  const rendezvous::PortRange& ports = rendezvous.ports;
  UniqueFd fd(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const bool v6 = static_cast<bool>(fd);
  if (!v6) fd = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return errno_error(errno, "socket for MASTER_PORT");
  const int on = 1;
  const int off = 0;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (v6) ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  int last_error = 0;
  for (std::uint32_t candidate = ports.first; candidate <= ports.last; ++candidate) {
    if (candidate != 0 && candidate == rendezvous.endpoint.port) continue;
    sockaddr_in6 six{};
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(static_cast<std::uint16_t>(candidate));
    sockaddr_in four{};
    four.sin_family = AF_INET;
    four.sin_port = six.sin6_port;
    const auto* address =
        v6 ? reinterpret_cast<const sockaddr*>(&six) : reinterpret_cast<const sockaddr*>(&four);
    if (::bind(fd.get(), address, v6 ? sizeof six : sizeof four) != 0) {
      last_error = errno;
      continue;
    }
    socklen_t size = sizeof six;
    ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&six), &size);
    number = ntohs(six.sin6_port);  // sin_port lies at the same place
    return fd;
  }
  return errno_error(last_error, "no free port for MASTER_PORT in --port-range " +
                                     std::to_string(ports.first) + "-" + std::to_string(ports.last));
}

void MasterPort::start_round(const World& world, std::vector<std::string> members) {
  if (!store_ || world.group_rank != 0) return;
  switch (admission_.mode) {
    case StoreAdmission::Mode::Any: return store_->admit({"any"});
    case StoreAdmission::Mode::Prefixes: return store_->admit(admission_.prefixes);
    case StoreAdmission::Mode::Members: return store_->admit(std::move(members));
  }
}

void MasterPort::adopt(UniqueFd socket, std::vector<std::uint8_t> first) {
  if (store_) store_->adopt(std::move(socket), std::move(first));
}

}  // namespace cxxrun::agent
