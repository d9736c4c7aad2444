// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/status_page.hpp"

#include <cctype>
#include <nlohmann/json.hpp>

#include "net/http.hpp"
#include "rendezvous/secret.hpp"

namespace cxxrun::rendezvous {
namespace {

using Json = nlohmann::json;

/// Value of "Authorization: Bearer VALUE"; empty: none.
std::string_view bearer(std::string_view head) {
  constexpr std::string_view kName = "authorization:";
  constexpr std::string_view kScheme = "Bearer ";
  while (!head.empty()) {
    const auto end = std::min(head.find("\r\n"), head.size());
    std::string_view line = head.substr(0, end);
    head.remove_prefix(std::min(end + 2, head.size()));
    if (line.size() < kName.size()) continue;
    bool same = true;
    for (std::size_t i = 0; i < kName.size(); ++i) {
      same = same && std::tolower(static_cast<unsigned char>(line[i])) == kName[i];
    }
    if (!same) continue;
    line.remove_prefix(kName.size());
    while (!line.empty() && line.front() == ' ') line.remove_prefix(1);
    if (line.substr(0, kScheme.size()) == kScheme) return line.substr(kScheme.size());
  }
  return {};
}

const char* phase_name(Phase phase) {
  switch (phase) {
    case Phase::Gathering: return "gathering";
    case Phase::Running: return "running";
    case Phase::Stopping: return "stopping";
    case Phase::Closed: return "closed";
  }
  return "";
}

std::string status_json(const CoordinatorConfig& config, const CoordinatorState& state, Time now) {
  Json members = Json::array();
  for (const auto& [id, m] : state.members) {
    members.push_back({{"host", m.hello.host_name},
                       {"address", m.link.member_address},
                       {"group_rank", m.group_rank},
                       {"workers", m.hello.local_world_size},
                       {"in_round", m.in_round},
                       {"ready", m.ready},
                       {"done", m.done},
                       {"connected", m.connected},
                       {"suspended", m.suspended}});
  }
  const Json out{{"run_id", config.run_id},
                 {"phase", phase_name(state.phase)},
                 {"epoch", state.epoch},
                 {"round", state.round},
                 {"restarts", state.restarts},
                 {"max_restarts", config.max_restarts},
                 {"nnodes_min", config.nnodes_min},
                 {"nnodes_max", config.nnodes_max},
                 {"decision", sentence(config, state, now)},
                 {"members", std::move(members)}};
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string http_answer(std::string_view head, std::string_view token, const CoordinatorConfig& config,
                        const CoordinatorState& state, Time now) {
  std::string refusal;
  const auto request = net::parse_http(head, refusal);
  if (!request) return refusal;
  const std::string_view path = request->path;
  const bool head_only = request->head_only;
  if (path == "/healthz") return net::http_response("200 OK", "text/plain", "ok\n", head_only);
  if (!token.empty() && !equal_secret(bearer(head), token)) {
    return net::http_response("401 Unauthorized", "text/plain", "the token is needed as bearer\n", head_only);
  }
  if (path == "/status")
    return net::http_response("200 OK", "application/json", status_json(config, state, now), head_only);
  return net::http_response("404 Not Found", "text/plain", "there is /status and /healthz\n", head_only);
}

}  // namespace cxxrun::rendezvous
