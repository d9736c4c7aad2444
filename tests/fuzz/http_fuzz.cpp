// SPDX-License-Identifier: Apache-2.0
// The head of an HTTP request to the control port, with and without a token.
#include <cstdlib>
#include <string_view>

#include "rendezvous/status_page.hpp"
#include "tests/fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace cxxrun;
  const std::string_view head(reinterpret_cast<const char*>(data), size);
  rendezvous::CoordinatorConfig config;
  config.run_id = "t";
  const Time now = Time{} + std::chrono::hours(1);
  for (const std::string_view token : {"", "secret"}) {
    const std::string answer = rendezvous::http_answer(head, token, config, {}, now);
    if (!answer.starts_with("HTTP/1.1 ") || answer.find("\r\n\r\n") == std::string::npos) std::abort();
    const bool told = answer.starts_with("HTTP/1.1 200") && head.find("/healthz") == std::string_view::npos;
    if (told && !token.empty() && head.find(token) == std::string_view::npos) std::abort();
  }
  return 0;
}

std::vector<std::string> cxxrun::fuzz::seeds() {
  return {"GET /healthz HTTP/1.1\r\nHost: a",
          "HEAD /status?x=1 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer secret\r\nAccept: */*",
          "GET /status HTTP/1.0\r\nauthorization:bearer  secret ", "POST / HTTP/1.1\r\nContent-Length: 5",
          "GET /"};
}
