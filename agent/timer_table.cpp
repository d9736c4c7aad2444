// SPDX-License-Identifier: Apache-2.0
#include "agent/timer_table.hpp"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <nlohmann/json.hpp>

#include "base/exit_status.hpp"
#include "base/text.hpp"

namespace cxxrun::agent {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kTimerLineBytesMax = 4096;  ///< PIPE_BUF: what a client writes in one piece
constexpr std::size_t kTimersMax = 16'384;
constexpr std::int64_t kPidMax = 1 << 22;  ///< as Linux has it
constexpr double kSecondsMax = 1e12;

std::optional<std::int64_t> whole(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<std::int64_t>();
}

}  // namespace

std::optional<TimerRequest> parse_timer_request(std::string_view line) {
  // A line of 4 KiB nests at most so deep; the parser uses no stack for it.
  const Json object = Json::parse(line, nullptr, false);
  if (!object.is_object()) return std::nullopt;
  const auto version = whole(object, "version");
  const auto pid = whole(object, "pid");
  const auto signo = whole(object, "signal");
  const auto scope = object.find("scope_id");
  const auto expires = object.find("expiration_time");
  if (!version || *version != 1 || !pid || *pid < 1 || *pid > kPidMax || !signo || *signo > SIGRTMAX)
    return std::nullopt;
  if (scope == object.end() || !scope->is_string() || expires == object.end() || !expires->is_number())
    return std::nullopt;
  TimerRequest out;
  out.pid = *pid;
  out.scope = scope->get<std::string>();
  out.expires = expires->get<double>();
  if (!std::isfinite(out.expires) || out.expires > kSecondsMax) return std::nullopt;
  out.signo = static_cast<int>(std::max<std::int64_t>(*signo, 0));
  return out;
}

std::string verdict_text(const TimerRequest& request) {
  return "it hung: its timer " + cxxrun::quoted(request.scope) + " expired, so it got " +
         signal_name(request.signo);
}

int TimerLines::feed(std::string_view bytes, std::vector<std::string>& out) {
  int too_long = 0;
  while (!bytes.empty()) {
    const auto end = bytes.find('\n');
    const std::string_view piece = bytes.substr(0, end);
    if (!dropping_ && waiting_.size() + piece.size() > kTimerLineBytesMax) {
      dropping_ = true;
      ++too_long;
      waiting_.clear();
    }
    if (!dropping_) waiting_ += piece;
    if (end == std::string_view::npos) break;
    if (!dropping_ && !waiting_.empty()) out.push_back(std::move(waiting_));
    waiting_.clear();
    dropping_ = false;
    bytes.remove_prefix(end + 1);
  }
  return too_long;
}

TimerTable::Took TimerTable::take(TimerRequest request) {
  std::pair key{request.pid, request.scope};
  if (request.expires < 0) {
    timers_.erase(key);
    return Took::Released;
  }
  if (timers_.size() >= kTimersMax && !timers_.contains(key)) return Took::Full;
  timers_.insert_or_assign(std::move(key), std::move(request));
  return Took::Set;
}

std::optional<double> TimerTable::next() const {
  std::optional<double> first;
  for (const auto& [key, timer] : timers_) {
    if (timer.signo > 0 && (!first || timer.expires < *first)) first = timer.expires;
  }
  return first;
}

std::vector<TimerRequest> TimerTable::expired(double now) {
  std::map<std::int64_t, TimerRequest> first;
  for (const auto& [key, timer] : timers_) {
    if (timer.signo <= 0 || timer.expires > now) continue;
    const auto [place, fresh] = first.try_emplace(timer.pid, timer);
    if (!fresh && timer.expires < place->second.expires) place->second = timer;
  }
  std::erase_if(timers_, [&](const auto& entry) { return first.contains(entry.first.first); });
  std::vector<TimerRequest> out;
  for (auto& [pid, timer] : first) out.push_back(std::move(timer));
  return out;
}

void TimerTable::shift(double seconds) {
  for (auto& [key, timer] : timers_) timer.expires += seconds;
}

}  // namespace cxxrun::agent
