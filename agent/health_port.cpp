// SPDX-License-Identifier: Apache-2.0
#include "agent/health_port.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/limits.hpp"
#include "net/http.hpp"

namespace cxxrun::agent {
namespace {

constexpr std::size_t kSessionsMax = 16;

std::string health_json(const Health& health) {
  std::string out = "{\"state\":\"" + std::string(health.state) + "\",\"round\":";
  out += health.round < 0 ? "null" : std::to_string(health.round);
  out += ",\"workers\":" + std::to_string(health.workers) + ",\"hanging\":" + std::to_string(health.hanging) +
         ",\"last_progress_seconds\":";
  if (health.progress_age) {
    out += std::to_string(std::chrono::duration<double>(*health.progress_age).count());
  } else {
    out += "null";
  }
  return out + "}\n";
}

}  // namespace

std::string health_answer(std::string_view head, const Health& health) {
  std::string refusal;
  const auto request = net::parse_http(head, refusal);
  if (!request) return refusal;
  const char* status = health.hanging > 0 ? "503 Service Unavailable" : "200 OK";
  return net::http_response(status, "application/json", health_json(health), request->head_only);
}

Result<std::unique_ptr<HealthPort>> HealthPort::open(EventLoop& loop, std::uint16_t port, Ask ask) {
  auto listener = net::listen(std::nullopt, port);
  if (!listener) return std::move(listener).error();
  return std::unique_ptr<HealthPort>(new HealthPort(loop, std::move(*listener), std::move(ask)));
}

HealthPort::HealthPort(EventLoop& loop, net::Listener listener, Ask ask)
    : loop_(loop), listener_(std::move(listener)), ask_(std::move(ask)) {
  watch_ = loop_.watch(listener_.fd.get(), EPOLLIN, [this](std::uint32_t) { accept_some(); });
}

void HealthPort::accept_some() {
  for (;;) {
    auto accepted = net::accept(listener_.fd.get());
    if (!accepted || !*accepted) return;
    if (sessions_.size() >= kSessionsMax) continue;  // closes it
    const int id = next_id_++;
    Session& session = sessions_[id];
    session.socket = std::move(**accepted);
    session.deadline = loop_.after(limits::kHelloTimeout, [this, id] { sessions_.erase(id); });
    session.watch = loop_.watch(session.socket.get(), EPOLLIN, [this, id](std::uint32_t) { read_head(id); });
  }
}

void HealthPort::read_head(int id) {
  Session& session = sessions_.at(id);
  std::array<char, 2048> bytes;
  const ssize_t n = ::recv(session.socket.get(), bytes.data(), bytes.size(), 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0 || session.head.size() + static_cast<std::size_t>(n) > limits::kHttpHeadBytesMax) {
    sessions_.erase(id);
    return;
  }
  session.head.append(bytes.data(), static_cast<std::size_t>(n));
  if (session.head.find("\r\n\r\n") != std::string::npos) answer(id);
}

void HealthPort::answer(int id) {
  Session& session = sessions_.at(id);
  const std::string text =
      health_answer(std::string_view(session.head).substr(0, session.head.find("\r\n\r\n")), ask_());
  // Requests after the first are ignored.
  session.watch.reset();
  session.connection = std::make_unique<net::Connection>(
      loop_, std::move(session.socket), 0,
      net::Connection::Handlers{[](std::string_view) {},
                                [this, id](const net::End&) { sessions_.erase(id); }});
  session.connection->send_raw(text);
  session.connection->finish();
}

}  // namespace cxxrun::agent
