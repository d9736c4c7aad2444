// SPDX-License-Identifier: Apache-2.0
#include "cli/rdzv_conf.hpp"

#include <algorithm>
#include <array>
#include <functional>

#include "base/text.hpp"
#include "cli/numbers.hpp"
#include "cli/options.hpp"
#include "store/server.hpp"

namespace cxxrun::cli {
namespace {

using std::chrono::milliseconds;

constexpr double kSecondsMax = 10.0 * 365 * 24 * 3600;
constexpr long kStoreValueBytesMax = 1L << 30;

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  return first == std::string_view::npos ? std::string_view()
                                         : text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

Result<> set_seconds(std::string_view value, bool zero_allowed,
                     const std::function<void(milliseconds)>& set) {
  const auto seconds = seconds_number(value);
  if (!seconds || *seconds > kSecondsMax || (*seconds <= 0 && !zero_allowed)) {
    return plain_error(zero_allowed ? "must be seconds, 0 or more" : "must be seconds, more than 0");
  }
  const milliseconds time(static_cast<std::int64_t>(*seconds * 1000.0));
  set(*seconds > 0 ? std::max(time, milliseconds(1)) : time);  // not std::ceil: it would load libm
  return kOk;
}

std::optional<bool> truth(std::string value) {
  for (char& c : value) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  for (const char* yes : {"1", "true", "t", "yes", "y"})
    if (value == yes) return true;
  for (const char* no : {"0", "false", "f", "no", "n"})
    if (value == no) return false;
  return std::nullopt;
}

Result<> set_admission(const std::string& value, agent::StoreAdmission& admission) {
  using Mode = agent::StoreAdmission::Mode;
  if (value == "members") return admission.mode = Mode::Members, kOk;
  if (value == "any") return admission.mode = Mode::Any, kOk;
  admission.mode = Mode::Prefixes;
  admission.prefixes.clear();
  for (std::size_t start = 0; start <= value.size();) {  // several: a+b, as the comma ends the key
    const auto plus = value.find('+', start);
    admission.prefixes.push_back(value.substr(start, plus - start));
    if (auto good = store::check_admission(admission.prefixes.back()); !good) return std::move(good).error();
    if (plus == std::string::npos) break;
    start = plus + 1;
  }
  return kOk;
}

using Apply = Result<> (*)(const std::string& value, agent::Config& config);

struct Key {
  std::string_view name;
  Apply apply;
};

template <milliseconds rendezvous::Timeouts::*field>
Result<> seconds_into(const std::string& value, agent::Config& config) {
  return set_seconds(value, false, [&](milliseconds time) { config.rendezvous.timeouts.*field = time; });
}

Result<> flag_into(const std::string& value, const std::function<void(bool)>& set) {
  const auto on = truth(value);
  if (!on) return plain_error("must be 1 or 0");
  set(*on);
  return kOk;
}

Result<> number_into(const std::string& value, long least, long most, const std::function<void(long)>& set) {
  const auto number = whole_number(value);
  if (!number || *number < least || *number > most) {
    return plain_error("must be a whole number from " + std::to_string(least) + " to " +
                       std::to_string(most));
  }
  set(*number);
  return kOk;
}

using rendezvous::Timeouts;

constexpr std::array<Key, 19> kKeys{{
    {"join_timeout", seconds_into<&Timeouts::join>},
    {"last_call_timeout", seconds_into<&Timeouts::last_call>},
    {"close_timeout", seconds_into<&Timeouts::close>},
    {"reconnect_timeout", seconds_into<&Timeouts::reconnect>},
    {"keep_alive_interval", seconds_into<&Timeouts::keep_alive_interval>},
    {"rejoin_grace",
     [](const std::string& v, agent::Config& c) {
       return set_seconds(v, true, [&](milliseconds t) { c.rendezvous.timeouts.rejoin_grace = t; });
     }},
    {"rejoin_timeout",
     [](const std::string& v, agent::Config& c) {
       return set_seconds(v, true, [&](milliseconds t) { c.rendezvous.timeouts.rejoin = t; });
     }},
    {"keep_alive_max_attempt",
     [](const std::string& v, agent::Config& c) {
       return number_into(
           v, 1, 1000, [&](long n) { c.rendezvous.timeouts.keep_alive_max_attempt = static_cast<int>(n); });
     }},
    {"is_host", [](const std::string& v,
                   agent::Config& c) { return flag_into(v, [&](bool on) { c.rendezvous.is_host = on; }); }},
    {"proxied", [](const std::string& v,
                   agent::Config& c) { return flag_into(v, [&](bool on) { c.rendezvous.proxied = on; }); }},
    {"control_port",
     [](const std::string& v, agent::Config& c) {
       return number_into(v, 1, 65'535,
                          [&](long n) { c.rendezvous.control_port = static_cast<std::uint16_t>(n); });
     }},
    {"store_admit",
     [](const std::string& v, agent::Config& c) { return set_admission(v, c.store_admission); }},
    {"store_value_max",
     [](const std::string& v, agent::Config& c) {
       return number_into(v, 1024, kStoreValueBytesMax,
                          [&](long n) { c.store_value_bytes_max = static_cast<std::size_t>(n); });
     }},
    {"token_file", nullptr},
    // torchrun's: understood, nothing here depends on them.
    {"timeout", nullptr},
    {"read_timeout", nullptr},
    {"heartbeat_timeout", nullptr},
    {"cas_backoff_max_seconds", nullptr},
    {"store_type",
     [](const std::string& v, agent::Config&) -> Result<> {
       if (v == "tcp" || v == "TCP") return kOk;
       return plain_error("only tcp is supported");
     }},
}};

std::string unknown_key(const std::string& key) {
  const auto best = nearest(key, rdzv_conf_keys());
  return "--rdzv-conf: unknown key " + quoted(key) + " has no effect" +
         (best.empty() ? "" : "; did you mean " + std::string(best) + "?");
}

}  // namespace

std::vector<std::string_view> rdzv_conf_keys() {
  std::vector<std::string_view> names;
  names.reserve(kKeys.size());
  for (const Key& key : kKeys) names.push_back(key.name);
  return names;
}

Result<std::vector<std::pair<std::string, std::string>>> split_rdzv_conf(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> out;
  text = trimmed(text);
  if (text.size() >= 2 && (text.front() == '\'' || text.front() == '"') && text.back() == text.front()) {
    text = text.substr(1, text.size() - 2);
  }
  if (trimmed(text).empty()) return out;
  for (;;) {
    const auto comma = text.find(',');
    const std::string_view item = trimmed(text.substr(0, comma));
    const auto equals = item.find('=');
    const std::string_view key = trimmed(item.substr(0, equals));
    const std::string_view value =
        equals == std::string_view::npos ? std::string_view() : trimmed(item.substr(equals + 1));
    if (key.empty() || value.empty()) return plain_error(quoted(item) + " is not of the form key=value");
    out.emplace_back(key, value);
    if (comma == std::string_view::npos) return out;
    text.remove_prefix(comma + 1);
  }
}

Result<> apply_rdzv_conf(std::string_view text, agent::Config& config, std::string& token_file,
                         std::vector<std::string>& notes) {
  auto items = split_rdzv_conf(text);
  if (!items) return std::move(items).error();
  for (const auto& [key, value] : *items) {
    const Key* known = nullptr;
    for (const Key& candidate : kKeys) {
      if (candidate.name == key) known = &candidate;
    }
    if (known == nullptr) {
      notes.push_back(unknown_key(key));
    } else if (key == "token_file") {
      token_file = value;
    } else if (known->apply != nullptr) {
      if (auto good = known->apply(value, config); !good)
        return std::move(good).error().context(key + "=" + quoted(value));
    }
  }
  return kOk;
}

}  // namespace cxxrun::cli
