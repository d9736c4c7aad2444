// SPDX-License-Identifier: Apache-2.0
#include "base/limits.hpp"
#include "rendezvous/message.hpp"
#include "rendezvous/message_fields.hpp"

namespace cxxrun::rendezvous::wire {
namespace {

constexpr int kDepthMax = 8;

template <std::size_t N>
std::size_t index_of(const char* const (&names)[N], const std::string& name, std::size_t otherwise) {
  for (std::size_t i = 0; i < N; ++i) {
    if (name == names[i]) return i;
  }
  return otherwise;
}
Failure read_failure(const Json& object, Fields& outer) {
  Fields in(object, "failure.");
  Failure f;
  std::int64_t age = 0;
  in.number("round", f.round, 0, kBig);
  in.number("rank", f.rank, -1, std::int64_t{limits::kNodesMax} * limits::kWorkersPerNodeMax);
  in.number("local_rank", f.local_rank, -1, limits::kWorkersPerNodeMax);
  in.number("group_rank", f.group_rank, -1, limits::kNodesMax);
  in.string("host", f.host, kNameBytesMax + 64);
  in.number("pid", f.pid, 0, kBig);
  in.string("message", f.message, 3 * kTextBytesMax);
  in.string("traceback", f.traceback, 3 * kTracebackBytesMax);
  in.boolean("own_exception", f.own_exception);
  in.boolean("outside_signal", f.outside_signal);
  in.strings("last_words", f.last_words, limits::kLastWordsLinesMax, 3 * limits::kLastWordsBytesMax);
  in.string("last_words_note", f.last_words_note, 3 * kTextBytesMax);
  in.number("age_ms", age, -kBig, kBig);
  f.age = std::chrono::milliseconds(age);
  std::int64_t wall = 0;
  in.number("wall_ms", wall, 0, kBig / 1'000'000);  // a time for people; it must not overflow
  f.wall = std::chrono::milliseconds(wall);
  in.string("error_file", f.error_file, 3 * kTextBytesMax);
  in.string("evidence", f.evidence, 3 * kTextBytesMax);
  if (in.has("signal")) {
    Signaled s;
    in.number("signal", s.signo, 1, 128);
    in.boolean("core", s.core);
    f.status = s;
  } else {
    Exited e;
    in.number("exit_code", e.code, 0, 255);
    f.status = e;
  }
  outer.adopt(in);
  return f;
}
void get_failure(Fields& in, const char* key, std::optional<Failure>& into) {
  if (const Json* object = in.object(key)) into = read_failure(*object, in);
}
World read_world(const Json& object, Fields& outer) {
  constexpr std::int64_t kRanks = std::int64_t{limits::kNodesMax} * limits::kWorkersPerNodeMax;
  Fields in(object, "world.");
  World w;
  in.number("round", w.round, 0, kBig);
  in.number("group_rank", w.group_rank, 0, limits::kNodesMax);
  in.number("group_world_size", w.group_world_size, 1, limits::kNodesMax);
  in.number("local_world_size", w.local_world_size, 1, limits::kWorkersPerNodeMax);
  in.number("base_rank", w.base_rank, 0, kRanks);
  in.number("world_size", w.world_size, 1, kRanks);
  in.number("base_role_rank", w.base_role_rank, 0, kRanks);
  in.number("role_world_size", w.role_world_size, 1, kRanks);
  in.number("restart_count", w.restart_count, 0, std::numeric_limits<int>::max());
  in.string("master_addr", w.master_addr, kNameBytesMax);
  in.number("master_port", w.master_port, 0, 65535);
  in.boolean("agent_store", w.agent_store);
  outer.adopt(in);
  return w;
}
Hello read_hello(Fields& in) {
  Hello m;
  in.number("version_major", m.version_major, 0, 1'000'000);
  in.number("version_minor", m.version_minor, 0, 1'000'000);
  in.string("run_id", m.run_id, limits::kRunIdBytesMax);
  in.string("incarnation", m.incarnation, 64);
  in.string("host_name", m.host_name, kNameBytesMax + 64);
  in.string("role", m.role, kNameBytesMax);
  in.number("nnodes_min", m.nnodes_min, 1, limits::kNodesMax);
  in.number("nnodes_max", m.nnodes_max, 1, limits::kNodesMax);
  in.number("local_world_size", m.local_world_size, 1, limits::kWorkersPerNodeMax);
  in.number("max_restarts", m.max_restarts, 0, std::numeric_limits<int>::max());
  in.boolean("exact_rank", m.exact_rank);
  in.boolean("agent_store", m.agent_store);
  if (in.has("node_rank")) in.number("node_rank", m.node_rank.emplace(0), -1, limits::kNodesMax);
  in.string("own_local", m.own_local, 128);
  in.string("own_remote", m.own_remote, 128);
  in.boolean("proxied", m.proxied);
  in.string("advertise", m.advertise, kNameBytesMax);
  in.string("peer_address", m.peer_address, kNameBytesMax);
  in.strings("interface_addresses", m.interface_addresses, kListMax, 128);
  in.strings("capabilities", m.capabilities, kListMax, 128);
  in.boolean("ready", m.ready);
  in.number("store_port", m.store_port, 0, 65535);
  in.number("epoch", m.epoch, 0, kBig / 2);
  in.number("round", m.round, -1, kBig / 2);
  in.number("round_size", m.round_size, 0, limits::kNodesMax);
  in.number("restart_count", m.restart_count, 0, std::numeric_limits<int>::max());
  in.boolean("running", m.running);
  return m;
}

Welcome read_welcome(Fields& in) {
  Welcome m;
  in.number("version_major", m.version_major, 0, 1'000'000);
  in.number("version_minor", m.version_minor, 0, 1'000'000);
  in.string("coordinator", m.coordinator, 64);
  in.boolean("hosted", m.hosted);
  in.boolean("direct", m.direct);
  in.number("keep_alive_interval_ms", m.keep_alive_interval_ms, 10, 3'600'000);
  in.number("keep_alive_max_attempt", m.keep_alive_max_attempt, 1, 1'000);
  return m;
}

Start read_start(Fields& in) {
  Start m;
  in.number("epoch", m.epoch, 0, kBig);
  if (const Json* world = in.object("world")) m.world = read_world(*world, in);
  in.strings("admit", m.admit, kAdmitMax, 128);
  return m;
}

KeepAlive read_keep_alive(Fields& in) {
  KeepAlive m;
  in.number("memory_used", m.memory.used, 0, kBig);
  in.number("memory_limit", m.memory.limit, 0, kBig);
  in.number("memory_pressure", m.memory.pressure, 0, 10'000);
  return m;
}

Close read_close(Fields& in) {
  Close m;
  std::string outcome = "failed";
  in.number("epoch", m.epoch, 0, kBig);
  in.string("outcome", outcome, 32);
  m.outcome = static_cast<Outcome>(index_of(kOutcomes, outcome, 1));
  in.number("exit_code", m.exit_code, 0, 255);
  in.string("reason", m.reason, 3 * kTextBytesMax);
  get_failure(in, "root_cause", m.root_cause);
  in.boolean("late", m.late);
  in.string("no_restart", m.no_restart, 3 * kTextBytesMax);
  return m;
}

std::optional<Message> read(const std::string& type, Fields& in) {
  const auto text = [&](const char* key, std::size_t bytes_max) {
    std::string out;
    in.string(key, out, bytes_max);
    return out;
  };
  const auto round = [&] {
    std::int64_t out = 0;
    in.number("round", out, -1, kBig);
    return out;
  };
  const auto flag = [&](const char* key) {
    bool out = false;
    in.boolean(key, out);
    return out;
  };
  if (type == "keep_alive") return read_keep_alive(in);
  if (type == "hello") return read_hello(in);
  if (type == "welcome") return read_welcome(in);
  if (type == "start") return read_start(in);
  if (type == "closed") return read_close(in);
  if (type == "probe") return Probe{};
  if (type == "probed") return Probed{text("coordinator", 64), flag("serving")};
  if (type == "auth") return AuthBegin{text("nonce", 64)};
  if (type == "challenge") return Challenge{text("nonce", 64), text("proof", 64)};
  if (type == "proof") return Proof{text("proof", 64)};
  if (type == "ready") {
    Ready m{round(), 0};
    in.number("store_port", m.store_port, 0, 65535);
    return m;
  }
  if (type == "failed") {
    const Json* failure = in.object("failure");
    return failure == nullptr ? Failed{} : Failed{read_failure(*failure, in)};
  }
  if (type == "done") return Done{round()};
  if (type == "leave") {
    const auto why = index_of(kLeavings, text("why", 32), 0);
    return Leave{static_cast<Leaving>(why), text("sentence", 3 * kTextBytesMax)};
  }
  if (type == "leaving") return GoingAway{text("sentence", 3 * kTextBytesMax)};
  if (type == "fence") {
    Fence m{round(), text("name", limits::kFenceNameBytesMax), {}};
    in.hex("blob", m.blob, limits::kFenceBlobBytesMax);
    return m;
  }
  if (type == "fenced") {
    Fenced m{round(), text("name", limits::kFenceNameBytesMax), 0, 0, {}, text("error", 3 * kTextBytesMax)};
    in.number("first", m.first, 0, limits::kNodesMax);
    in.number("total", m.total, 0, limits::kNodesMax);
    in.hexes("blobs", m.blobs, limits::kNodesMax, limits::kFenceBlobBytesMax);
    return m;
  }
  if (type == "suspended") return Suspended{flag("suspended")};
  if (type == "refused") {
    Refused m{69, flag("retry"), text("sentence", 3 * kTextBytesMax)};
    in.number("exit_code", m.exit_code, 1, 255);
    return m;
  }
  if (type == "waiting") return Notice{text("sentence", 3 * kTextBytesMax)};
  if (type == "stop") {
    Stop m;
    in.number("epoch", m.epoch, 0, kBig);
    m.round = round();
    m.reason = text("reason", 3 * kTextBytesMax);
    get_failure(in, "cause", m.cause);
    return m;
  }
  if (type == "goodbye") return Goodbye{};
  return std::nullopt;
}
}  // namespace

Result<std::optional<Message>> decode(std::string_view bytes) {
  const auto shallow = [](int depth, Json::parse_event_t, Json&) { return depth <= kDepthMax; };
  const Json json = Json::parse(bytes.begin(), bytes.end(), shallow, false);
  if (!json.is_object()) return plain_error("not a JSON object");
  Fields in(json);
  std::string type;
  in.string("type", type, 64);
  auto message = read(type, in);
  if (!in.wrong().empty()) return plain_error("message '" + type + "': " + in.wrong());
  return message;
}

}  // namespace cxxrun::rendezvous::wire
