// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/finder.hpp"

#include <algorithm>
#include <cerrno>

#include "base/limits.hpp"
#include "rendezvous/secret.hpp"

namespace cxxrun::rendezvous {
namespace {

constexpr Duration kResolveLimit = 10s;
constexpr Duration kResolvedFor = 1s;        // then the name is looked up again: it may have moved
constexpr Duration kConnectLimit = 3s;       // for one address
constexpr Duration kCandidateAfter = 300ms;  // of failing: the port is left alone where somebody serves
constexpr Duration kHintDecidesAfter = 3s;   // nobody meets itself (no hairpin): rank hint 0 serves
constexpr Duration kTakenLimit = 5s;         // the last job may need a moment to let its port go
constexpr Duration kSilenceTold = 1s;        // a connection on which nobody answers
constexpr int kNoRendezvousMax = 3;
constexpr int kRefusedCode = 69;
constexpr int kUsageCode = 2;

std::string view(const net::Address& address, std::uint16_t port) {
  return net::text(address) + " " + std::to_string(port);
}

}  // namespace

Finder::Finder(EventLoop& loop, Config config, std::string incarnation, Handlers handlers)
    : loop_(loop),
      config_(std::move(config)),
      incarnation_(std::move(incarnation)),
      handlers_(std::move(handlers)),
      endpoint_text_(net::endpoint_text(config_.endpoint.host, coordinator_port(config_))),
      port_(coordinator_port(config_)) {}

void Finder::send(std::string_view body) {
  if (connection_) connection_->send(body);
}

void Finder::lose_connection() {
  talk_ = Talk::None;
  silent_.reset();
  deadline_.reset();
  connection_.reset();
  connect_.reset();
  resolve_.reset();
}

void Finder::hang_up(bool unanswered) {
  lose_connection();
  soon_.reset();
  if (!unanswered || !port_taken_) return;
  soon_ = loop_.after(Duration::zero(), [this] {
    fail("port " + std::to_string(port_) + " of this host is taken by a program that is no rendezvous",
         kRefusedCode);
  });
}

bool Finder::taken_for_long() const {
  return port_taken_ && taken_since_ && EventLoop::now() - *taken_since_ >= kTakenLimit;
}

void Finder::fail(std::string sentence, int exit_code) {
  lose_connection();
  if (!failing_since_) failing_since_ = EventLoop::now();
  // We are who should serve there, and nobody who could is doing it.
  if (exit_code == 0 && taken_for_long()) {
    exit_code = kRefusedCode;
    sentence = "port " + std::to_string(port_) +
               " of this host is taken by a program that is no rendezvous; " + sentence;
  }
  handlers_.on_failed(Failure{std::move(sentence), exit_code});
}

// --- addresses ---

void Finder::attempt() {
  if (!first_attempt_) first_attempt_ = EventLoop::now();
  // Where only this machine is meant, its interfaces do not matter.
  const bool here = net::loopback_host(config_.endpoint.host) && config_.local_addr.empty();
  if (!here) own_ = net::interface_addresses();
  local_addr_known_ ? resolve_endpoint() : resolve_local_addr();
}

void Finder::resolve_local_addr() {
  if (config_.local_addr.empty()) {
    local_addr_known_ = true;
    return resolve_endpoint();
  }
  if (!net::local_address_is_name(config_.local_addr, own_)) return choose_local_addr({});
  resolve_ = std::make_unique<net::Resolve>(loop_, config_.local_addr, kResolveLimit, [this](auto result) {
    if (result) return choose_local_addr(*result);
    // A name of a domain may appear later (a pod's own name does); anything else is a mistake.
    if (config_.local_addr.find('.') == std::string::npos) return choose_local_addr({});
    fail("--local-addr: " + result.error().message);
  });
}

void Finder::choose_local_addr(const std::vector<net::Address>& looked_up) {
  auto chosen = net::choose_local_address(config_.local_addr, own_, looked_up);
  if (!chosen) return fail(chosen.error().message, kUsageCode);
  advertise_ = net::text(*chosen);
  local_addr_known_ = true;
  resolve_endpoint();
}

void Finder::resolve_endpoint() {
  if (EventLoop::now() < addresses_until_) return on_resolved(addresses_);
  resolve_ = std::make_unique<net::Resolve>(loop_, config_.endpoint.host, kResolveLimit, [this](auto result) {
    if (!result) return fail(result.error().message);
    addresses_until_ = EventLoop::now() + kResolvedFor;
    on_resolved(std::move(*result));
  });
}

// --- who hosts ---

void Finder::on_resolved(std::vector<net::Address> addresses) {
  addresses_ = std::move(addresses);
  targets_ = addresses_;
  next_target_ = 0;
  first_error_.clear();
  const Hosting hosting = decide_hosting(config_, addresses_, own_);
  port_taken_ = false;
  switch (hosting.role) {
    case Role::Refuse: return fail(hosting.why, hosting.exit_code);
    case Role::Host:
    case Role::HostIfFree:
      if (!serving_ && !host(hosting)) return;
      break;
    case Role::Candidate:
      if (!server_ && failing_since_ && EventLoop::now() - *failing_since_ >= kCandidateAfter &&
          !stand_as_candidate(hosting)) {
        return;
      }
      break;
    case Role::Client: break;
  }
  if (serving_) targets_ = {hosting.own.value_or(*net::parse_address("127.0.0.1"))};
  connect_next();
}

/// True when the attempt goes on: we serve, or another agent of this machine does.
bool Finder::host(const Hosting& hosting) {
  const bool any_port = port_ == 0;
  auto listener = net::listen(hosting.listen_address, any_port ? config_.ports.first : port_,
                              any_port ? config_.ports.last : std::uint16_t{0});
  if (listener) {
    port_ = listener->port;
    taken_since_.reset();
    if (!start_server(std::move(*listener), true)) return false;
    announce(port_);
    return true;
  }
  port_taken_ = listener.error().code.value() == EADDRINUSE;
  if (port_taken_ && !taken_since_) taken_since_ = EventLoop::now();
  if (port_taken_ && hosting.role == Role::HostIfFree) return true;
  const bool wait = port_taken_ && EventLoop::now() - *first_attempt_ < kTakenLimit;
  const std::string why = port_taken_
                              ? "port " + std::to_string(port_) + " of this host is taken by another program"
                              : "cannot host the rendezvous: " + listener.error().message;
  fail(why, wait ? 0 : kRefusedCode);
  return false;
}

/// Listens without serving: whoever meets itself through the endpoint is the host.
bool Finder::stand_as_candidate(const Hosting& hosting) {
  auto listener = net::listen(hosting.listen_address, port_);
  return !listener || start_server(std::move(*listener), false);  // taken: then we are a client
}

bool Finder::start_server(net::Listener listener, bool serving) {
  CoordinatorServer::Options options;
  options.core = coordinator_config(config_);
  options.token = config_.token;
  options.host_incarnation = incarnation_;
  options.serving = serving;
  options.store_clients = config_.agent_store;
  std::vector<net::Listener> listeners;
  listeners.push_back(std::move(listener));
  auto server =
      CoordinatorServer::start(loop_, std::move(listeners), std::move(options),
                               {[this](UniqueFd socket, std::vector<std::uint8_t> first) {
                                  handlers_.on_store_client(std::move(socket), std::move(first));
                                },
                                [this](std::string sentence) { handlers_.on_word(std::move(sentence)); },
                                [this](const Error& error) { fail(error.message, kRefusedCode); }});
  if (!server) {
    fail(server.error().message, kRefusedCode);
    return false;
  }
  server_ = std::move(*server);
  serving_ = serving;
  return true;
}

void Finder::announce(std::uint16_t port) {
  const std::string where = net::endpoint_text(config_.endpoint.host, port);
  if (config_.nnodes_max > 1 && net::loopback_host(config_.endpoint.host)) {
    handlers_.on_word("the rendezvous listens at " + where + ": only agents of this machine can join");
  } else if (config_.endpoint.port == 0) {
    handlers_.on_word("the rendezvous listens at " + where);
  }
}

// --- the connection ---

void Finder::connect_next() {
  if (next_target_ >= targets_.size()) {
    const bool nobody_meets_itself = server_ && !serving_ && config_.node_rank.value_or(-1) == 0 &&
                                     failing_since_ &&
                                     EventLoop::now() - *failing_since_ >= kHintDecidesAfter;
    if (nobody_meets_itself) {
      server_->serve();
      serving_ = true;
    }
    if (port_taken_)
      first_error_ =
          "port " + std::to_string(port_) + " of this host is in use, but no rendezvous listens there";
    return fail(first_error_);
  }
  const net::Address to = targets_[next_target_++];
  connect_ =
      std::make_unique<net::Connect>(loop_, to, port_, kConnectLimit, std::nullopt, [this, to](auto result) {
        if (result) return on_socket(std::move(*result));
        const bool numeric = net::parse_address(config_.endpoint.host).has_value();
        if (first_error_.empty()) {
          first_error_ = endpoint_text_ + (numeric ? "" : " (" + net::text(to) + ")") + ": " +
                         net::connect_failure_text(result.error().code.value());
        }
        connect_next();
      });
}

void Finder::on_socket(UniqueFd socket) {
  connection_ = std::make_unique<net::Connection>(
      loop_, std::move(socket), limits::kFrameBytesMax,
      net::Connection::Handlers{[this](std::string_view body) { on_frame(body); },
                                [this](const net::End& end) { on_end(end); }});
  connection_->expect_magic(wire::kMagic);
  connection_->cork();
  connection_->send_raw(wire::kMagic);
  silent_ = loop_.after(kSilenceTold, [this] {
    if (!std::exchange(silence_told_, true))
      handlers_.on_word(endpoint_text_ +
                        " takes connections but has said nothing for 1 s; perhaps it is no rendezvous");
  });
  deadline_ = loop_.after(limits::kHelloTimeout, [this] {
    fail(endpoint_text_ + " takes connections but does not answer: not a rendezvous port?",
         port_taken_ ? kRefusedCode : 0);
  });
  if (config_.token.empty()) {
    after_auth();
  } else {
    talk_ = Talk::Auth;
    nonce_ = random_hex(16);
    connection_->send(wire::encode(wire::AuthBegin{nonce_}));
  }
  if (connection_) connection_->uncork();
}

void Finder::after_auth() {
  if (!server_ || serving_) return found();
  talk_ = Talk::Probe;
  connection_->send(wire::encode(wire::Probe{}));
}

void Finder::found() {
  deadline_.reset();
  const auto ends = net::ends(connection_->fd());
  if (!ends) return fail(endpoint_text_ + ": closed by the other side");
  talk_ = Talk::Open;
  Found out;
  out.own_local = view(ends->local, ends->local_port);
  out.own_remote = view(ends->remote, ends->remote_port);
  out.advertise = advertise_;
  for (const auto& entry : own_) {
    if (!entry.address.loopback() && !entry.address.link_local())
      out.interface_addresses.push_back(net::text(entry.address));
  }
  handlers_.on_found(std::move(out));
}

void Finder::on_frame(std::string_view body) {
  no_rendezvous_ = 0;
  silent_.reset();
  taken_since_.reset();
  failing_since_.reset();
  if (talk_ == Talk::Open) return handlers_.on_frame(body);
  const auto message = wire::decode(body);
  if (!message) return fail(endpoint_text_ + " sent a bad message: " + message.error().message);
  if (*message) greet(**message);
}

void Finder::greet(const wire::Message& message) {
  if (const auto* refused = std::get_if<wire::Refused>(&message)) {
    return fail(refused->sentence, refused->retry ? 0 : refused->exit_code);
  }
  if (const auto* challenge = std::get_if<wire::Challenge>(&message);
      challenge != nullptr && talk_ == Talk::Auth) {
    if (!equal_secret(server_proof(config_.token, nonce_, challenge->nonce), challenge->proof)) {
      return fail("wrong token: the rendezvous at " + endpoint_text_ + " has another one (CXXRUN_TOKEN)",
                  kRefusedCode);
    }
    connection_->send(wire::encode(wire::Proof{client_proof(config_.token, nonce_, challenge->nonce)}));
    return after_auth();
  }
  if (const auto* m = std::get_if<wire::Probed>(&message); m != nullptr && talk_ == Talk::Probe) probed(*m);
}

void Finder::probed(const wire::Probed& m) {
  if (m.coordinator == server_->id()) {
    server_->serve();
    serving_ = true;
    return found();
  }
  if (!m.serving) return fail("several nodes answer at " + endpoint_text_ + " and none is the host yet");
  server_.reset();  // somebody serves: we are a client
  found();
}

void Finder::on_end(const net::End& end) {
  const bool open = talk_ == Talk::Open;
  const bool bad = end.kind == net::EndKind::BadFrame;
  const net::End copy = end;
  lose_connection();
  if (bad) ++no_rendezvous_;
  const std::string what = endpoint_text_ + " answers but is no rendezvous (" + copy.text + ")";
  if (open)
    handlers_.on_end(bad ? net::End{copy.kind, "answers but is no rendezvous (" + copy.text + ")"} : copy);
  const bool hopeless = bad && no_rendezvous_ >= (port_taken_ ? 1 : kNoRendezvousMax);
  if (!open || hopeless || taken_for_long())
    fail(bad ? what : endpoint_text_ + ": " + copy.text, hopeless ? kRefusedCode : 0);
}

}  // namespace cxxrun::rendezvous
