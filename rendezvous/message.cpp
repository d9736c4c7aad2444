// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/message.hpp"

#include <limits>
#include <nlohmann/json.hpp>

#include "base/limits.hpp"

namespace cxxrun::rendezvous::wire {
namespace {

using Json = nlohmann::json;

constexpr int kDepthMax = 8;
constexpr std::size_t kTextBytesMax = 4u << 10;  // one sentence
constexpr std::size_t kNameBytesMax = 256;
constexpr std::size_t kListMax = 1'024;                 // interface addresses, capabilities
constexpr std::size_t kAdmitMax = 1u << 20;             // every address of every node
constexpr std::size_t kTracebackBytesMax = 128u << 10;  // a longer one loses its middle
constexpr std::int64_t kBig = std::numeric_limits<std::int64_t>::max();

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

/// Reads fields of one object; remembers the first that is wrong. A field that is missing keeps its default.
class Fields {
 public:
  explicit Fields(const Json& object, std::string where = "") : object_(object), where_(std::move(where)) {}
  [[nodiscard]] const std::string& wrong() const { return wrong_; }

  template <class Number>
  void number(const char* key, Number& into, std::int64_t min, std::int64_t max) {
    const Json* field = find(key);
    if (field == nullptr) return;
    if (!field->is_number_integer()) return fail(key, "is no integer");
    if (field->is_number_unsigned() && field->get<std::uint64_t>() > static_cast<std::uint64_t>(kBig)) {
      return fail(key, "is out of range");
    }
    const auto value = field->get<std::int64_t>();
    if (value < min || value > max) return fail(key, "is out of range");
    into = static_cast<Number>(value);
  }
  void boolean(const char* key, bool& into) {
    const Json* field = find(key);
    if (field == nullptr) return;
    if (!field->is_boolean()) return fail(key, "is neither true nor false");
    into = field->get<bool>();
  }
  void string(const char* key, std::string& into, std::size_t bytes_max) {
    const Json* field = find(key);
    if (field == nullptr) return;
    if (!field->is_string()) return fail(key, "is no text");
    const auto& value = field->get_ref<const std::string&>();
    if (value.size() > bytes_max) return fail(key, "is too long");
    into = value;
  }
  void strings(const char* key, std::vector<std::string>& into, std::size_t count_max,
               std::size_t bytes_max) {
    const Json* field = find(key);
    if (field == nullptr) return;
    if (!field->is_array() || field->size() > count_max) return fail(key, "is no list, or too long");
    for (const Json& entry : *field) {
      if (!entry.is_string() || entry.get_ref<const std::string&>().size() > bytes_max) {
        return fail(key, "holds what is no short text");
      }
      into.push_back(entry.get<std::string>());
    }
  }
  void hex(const char* key, std::string& into, std::size_t bytes_max) {
    std::string digits;
    string(key, digits, bytes_max * 2);
    if (!from_hex(digits, into)) fail(key, "is no text of hex digits");
  }
  void hexes(const char* key, std::vector<std::string>& into, std::size_t count_max, std::size_t bytes_max) {
    std::vector<std::string> digits;
    strings(key, digits, count_max, bytes_max * 2);
    for (const auto& d : digits) {
      if (!from_hex(d, into.emplace_back())) return fail(key, "is no text of hex digits");
    }
  }
  /// A nested object; nullptr: missing, null, or wrong.
  const Json* object(const char* key) {
    const Json* field = find(key);
    if (field == nullptr) return nullptr;
    if (!field->is_object()) {
      fail(key, "is no object");
      return nullptr;
    }
    return field;
  }
  void adopt(const Fields& inner) {
    if (wrong_.empty()) wrong_ = inner.wrong_;
  }
  [[nodiscard]] bool has(const char* key) const { return find(key) != nullptr; }

 private:
  const Json* find(const char* key) const {
    const auto it = object_.find(key);
    return it == object_.end() || it->is_null() ? nullptr : &*it;
  }
  void fail(const char* key, const char* what) {
    if (wrong_.empty()) wrong_ = "field '" + where_ + key + "' " + what;
  }
  static int digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
  }
  static bool from_hex(std::string_view digits, std::string& into) {
    if (digits.size() % 2 != 0) return false;
    for (std::size_t i = 0; i < digits.size(); i += 2) {
      const int high = digit(digits[i]), low = digit(digits[i + 1]);
      if (high < 0 || low < 0) return false;
      into += static_cast<char>(high * 16 + low);
    }
    return true;
  }

  const Json& object_;
  std::string where_;
  std::string wrong_;
};

// --- parts ---

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
           {"age_ms", f.age.count()}};
  if (const auto* exited = std::get_if<Exited>(&f.status)) out["exit_code"] = exited->code;
  if (const auto* signaled = std::get_if<Signaled>(&f.status)) {
    out["signal"] = signaled->signo;
    out["core"] = signaled->core;
  }
  return out;
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

void put_failure(Json& into, const char* key, const std::optional<Failure>& failure) {
  if (failure) into[key] = to_json(*failure);
}
void get_failure(Fields& in, const char* key, std::optional<Failure>& into) {
  if (const Json* object = in.object(key)) into = read_failure(*object, in);
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

constexpr const char* kOutcomes[] = {"succeeded", "failed", "interrupted", "nodes_missing", "refused"};
constexpr const char* kLeavings[] = {"politely", "stop_job", "broken_host"};

template <std::size_t N>
std::size_t index_of(const char* const (&names)[N], const std::string& name, std::size_t otherwise) {
  for (std::size_t i = 0; i < N; ++i) {
    if (name == names[i]) return i;
  }
  return otherwise;
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
  return out;
}
Json to_json(const Goodbye&) { return {{"type", "goodbye"}}; }
Json to_json(const Fenced& m) {
  Json blobs = Json::array();
  for (const auto& blob : m.blobs) blobs.push_back(to_hex(blob));
  return {{"type", "fenced"}, {"round", m.round}, {"name", m.name}, {"blobs", std::move(blobs)}};
}
Json to_json(const KeepAlive&) { return {{"type", "keep_alive"}}; }

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
  if (type == "keep_alive") return KeepAlive{};
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
  if (type == "fence") {
    Fence m{round(), text("name", kNameBytesMax), {}};
    in.hex("blob", m.blob, limits::kFenceBlobBytesMax);
    return m;
  }
  if (type == "fenced") {
    Fenced m{round(), text("name", kNameBytesMax), {}};
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

std::string encode(const Message& message) {
  const Json json = std::visit([](const auto& m) { return to_json(m); }, message);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

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
