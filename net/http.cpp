// SPDX-License-Identifier: Apache-2.0
#include "net/http.hpp"

namespace cxxrun::net {

std::string http_response(std::string_view status, std::string_view type, std::string_view body,
                          bool head_only) {
  std::string out = "HTTP/1.1 " + std::string(status) + "\r\nContent-Type: " + std::string(type) +
                    "\r\nContent-Length: " + std::to_string(body.size()) +
                    "\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n";
  if (!head_only) out += body;
  return out;
}

std::optional<HttpRequest> parse_http(std::string_view head, std::string& refusal) {
  const auto first_space = head.find(' ');
  const auto second_space =
      head.find_first_of(" \r?", first_space == std::string_view::npos ? head.size() : first_space + 1);
  if (first_space == std::string_view::npos || second_space == std::string_view::npos) {
    refusal = http_response("400 Bad Request", "text/plain", "bad request\n", false);
    return std::nullopt;
  }
  const std::string_view method = head.substr(0, first_space);
  if (method != "GET" && method != "HEAD") {
    refusal = http_response("405 Method Not Allowed", "text/plain", "only GET\n", false);
    return std::nullopt;
  }
  return HttpRequest{head.substr(first_space + 1, second_space - first_space - 1), method == "HEAD"};
}

}  // namespace cxxrun::net
