// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/message.hpp"
#include "rendezvous/message_fields.hpp"

namespace cxxrun::rendezvous::wire {
namespace {

/// A blob may be any bytes, JSON text may not.
std::string to_hex(std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char c : bytes) {
    out += kDigits[static_cast<unsigned char>(c) >> 4];
    out += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return out;
}
std::string shortened(const std::string& text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) return text;
  const std::size_t half = bytes_max / 2 - 16;
  return text.substr(0, half) + "\n[...]\n" + text.substr(text.size() - half);
}
Json to_json(const Failure& f) {
  Json out{{"round", f.round},
           {"rank", f.rank},
           {"local_rank", f.local_rank},
           {"group_rank", f.group_rank},
           {"host", shortened(f.host, kNameBytesMax)},
           {"pid", f.pid},
           {"message", shortened(f.message, kTextBytesMax)},
           {"traceback", shortened(f.traceback, kTracebackBytesMax)},
           {"own_exception", f.own_exception},
           {"outside_signal", f.outside_signal},
           {"last_words", f.last_words},
           {"last_words_note", shortened(f.last_words_note, kTextBytesMax)},
           {"age_ms", f.age.count()},
           {"wall_ms", f.wall.count()}};
  if (!f.error_file.empty()) out["error_file"] = shortened(f.error_file, kTextBytesMax);
  if (!f.evidence.empty()) out["evidence"] = shortened(f.evidence, kTextBytesMax);
  if (const auto* exited = std::get_if<Exited>(&f.status)) out["exit_code"] = exited->code;
  if (const auto* signaled = std::get_if<Signaled>(&f.status)) {
    out["signal"] = signaled->signo;
    out["core"] = signaled->core;
  }
  return out;
}
void put_failure(Json& into, const char* key, const std::optional<Failure>& failure) {
  if (failure) into[key] = to_json(*failure);
}
Json to_json(const World& w) {
  return {{"round", w.round},
          {"group_rank", w.group_rank},
          {"group_world_size", w.group_world_size},
          {"local_world_size", w.local_world_size},
          {"base_rank", w.base_rank},
          {"world_size", w.world_size},
          {"base_role_rank", w.base_role_rank},
          {"role_world_size", w.role_world_size},
          {"restart_count", w.restart_count},
          {"master_addr", w.master_addr},
          {"master_port", w.master_port},
          {"agent_store", w.agent_store}};
}
// --- messages ---

Json to_json(const Probe&) { return {{"type", "probe"}}; }
Json to_json(const Probed& m) {
  return {{"type", "probed"}, {"coordinator", m.coordinator}, {"serving", m.serving}};
}
Json to_json(const AuthBegin& m) { return {{"type", "auth"}, {"nonce", m.nonce}}; }
Json to_json(const Challenge& m) { return {{"type", "challenge"}, {"nonce", m.nonce}, {"proof", m.proof}}; }
Json to_json(const Proof& m) { return {{"type", "proof"}, {"proof", m.proof}}; }
Json to_json(const Hello& m) {
  Json out{{"type", "hello"},
           {"version_major", m.version_major},
           {"version_minor", m.version_minor},
           {"run_id", m.run_id},
           {"incarnation", m.incarnation},
           {"host_name", shortened(m.host_name, kNameBytesMax)},
           {"role", m.role},
           {"nnodes_min", m.nnodes_min},
           {"nnodes_max", m.nnodes_max},
           {"local_world_size", m.local_world_size},
           {"max_restarts", m.max_restarts},
           {"exact_rank", m.exact_rank},
           {"agent_store", m.agent_store},
           {"own_local", m.own_local},
           {"own_remote", m.own_remote},
           {"proxied", m.proxied},
           {"advertise", m.advertise},
           {"peer_address", m.peer_address},
           {"interface_addresses", m.interface_addresses},
           {"capabilities", m.capabilities},
           {"ready", m.ready},
           {"store_port", m.store_port},
           {"epoch", m.epoch},
           {"round", m.round},
           {"round_size", m.round_size},
           {"restart_count", m.restart_count},
           {"running", m.running}};
  if (m.node_rank) out["node_rank"] = *m.node_rank;
  return out;
}
Json to_json(const Ready& m) { return {{"type", "ready"}, {"round", m.round}, {"store_port", m.store_port}}; }
Json to_json(const Failed& m) { return {{"type", "failed"}, {"failure", to_json(m.failure)}}; }
Json to_json(const Done& m) { return {{"type", "done"}, {"round", m.round}}; }
Json to_json(const Leave& m) {
  return {{"type", "leave"},
          {"why", kLeavings[static_cast<std::size_t>(m.why)]},
          {"sentence", shortened(m.sentence, kTextBytesMax)}};
}
Json to_json(const GoingAway& m) {
  return {{"type", "leaving"}, {"sentence", shortened(m.sentence, kTextBytesMax)}};
}

Json to_json(const Fence& m) {
  return {{"type", "fence"}, {"round", m.round}, {"name", m.name}, {"blob", to_hex(m.blob)}};
}
Json to_json(const Suspended& m) { return {{"type", "suspended"}, {"suspended", m.suspended}}; }
Json to_json(const Welcome& m) {
  return {{"type", "welcome"},
          {"version_major", m.version_major},
          {"version_minor", m.version_minor},
          {"coordinator", m.coordinator},
          {"hosted", m.hosted},
          {"direct", m.direct},
          {"keep_alive_interval_ms", m.keep_alive_interval_ms},
          {"keep_alive_max_attempt", m.keep_alive_max_attempt}};
}
Json to_json(const Refused& m) {
  return {{"type", "refused"},
          {"exit_code", m.exit_code},
          {"retry", m.retry},
          {"sentence", shortened(m.sentence, kTextBytesMax)}};
}
Json to_json(const Notice& m) {
  return {{"type", "waiting"}, {"sentence", shortened(m.sentence, kTextBytesMax)}};
}
Json to_json(const Start& m) {
  Json out{{"type", "start"}, {"epoch", m.epoch}, {"round", m.world.round}, {"world", to_json(m.world)}};
  if (!m.admit.empty()) out["admit"] = m.admit;
  return out;
}
Json to_json(const Stop& m) {
  Json out{{"type", "stop"},
           {"epoch", m.epoch},
           {"round", m.round},
           {"reason", shortened(m.reason, kTextBytesMax)}};
  put_failure(out, "cause", m.cause);
  return out;
}
Json to_json(const Close& m) {
  Json out{{"type", "closed"},
           {"epoch", m.epoch},
           {"outcome", kOutcomes[static_cast<std::size_t>(m.outcome)]},
           {"exit_code", m.exit_code},
           {"reason", shortened(m.reason, kTextBytesMax)}};
  put_failure(out, "root_cause", m.root_cause);
  if (m.late) out["late"] = true;
  if (!m.no_restart.empty()) out["no_restart"] = shortened(m.no_restart, kTextBytesMax);
  return out;
}
Json to_json(const Goodbye&) { return {{"type", "goodbye"}}; }
Json to_json(const Fenced& m) {
  Json blobs = Json::array();
  for (const auto& blob : m.blobs) blobs.push_back(to_hex(blob));
  Json out{{"type", "fenced"}, {"round", m.round}, {"name", m.name},
           {"first", m.first}, {"total", m.total}, {"blobs", std::move(blobs)}};
  if (!m.error.empty()) out["error"] = shortened(m.error, kTextBytesMax);
  return out;
}
Json to_json(const KeepAlive& m) {
  Json out{{"type", "keep_alive"}};
  if (m.memory.limit == 0) return out;
  out["memory_used"] = m.memory.used;
  out["memory_limit"] = m.memory.limit;
  if (m.memory.pressure != 0) out["memory_pressure"] = m.memory.pressure;
  return out;
}
}  // namespace

std::string encode(const Message& message) {
  const Json json = std::visit([](const auto& m) { return to_json(m); }, message);
  std::string out = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  const bool greets = std::holds_alternative<Hello>(message) || std::holds_alternative<AuthBegin>(message) ||
                      std::holds_alternative<Probe>(message);
  if (greets) out += kEndOfGreeting;
  return out;
}
}  // namespace cxxrun::rendezvous::wire
