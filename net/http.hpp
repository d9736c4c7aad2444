// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

/// The little HTTP that status and health pages need: one GET or HEAD, one answer, then the connection
/// closes. Pure.
namespace cxxrun::net {

struct HttpRequest {
  std::string_view path;   ///< without the query
  bool head_only = false;  ///< HEAD
};

/// What a request's head (its lines up to the empty one) asks for. Nothing: `refusal` is the whole answer,
/// 400 or 405.
[[nodiscard]] std::optional<HttpRequest> parse_http(std::string_view head, std::string& refusal);

/// Head and body of an answer. `status`: "200 OK". `head_only`: without the body, as HEAD wants it.
[[nodiscard]] std::string http_response(std::string_view status, std::string_view type, std::string_view body,
                                        bool head_only);

}  // namespace cxxrun::net
