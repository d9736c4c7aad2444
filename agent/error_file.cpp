// SPDX-License-Identifier: Apache-2.0
#include "agent/error_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/limits.hpp"
#include "base/unique_fd.hpp"

namespace cxxrun::agent {
namespace {

using nlohmann::json;

/// What lies deeper is dropped: what is read from a worker is written again, one stack frame a level.
constexpr int kDepthMax = 32;

std::string text_at(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return {};
  return found->is_string() ? found->get<std::string>() : found->dump();
}

/// A number of seconds, as a number or as a decimal text; seconds may have a fraction.
std::optional<std::chrono::milliseconds> time_at(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return std::nullopt;
  double seconds = 0;
  if (found->is_number()) {
    seconds = found->get<double>();
  } else if (found->is_string()) {
    seconds = std::strtod(found->get_ref<const std::string&>().c_str(), nullptr);
  }
  if (!(seconds > 0.0 && seconds < 1e11)) return std::nullopt;
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000.0));
}

}  // namespace

std::optional<ErrorFile> parse_error_file(std::string_view text) {
  const auto shallow = [](int depth, json::parse_event_t, json&) { return depth <= kDepthMax; };
  const json parsed = json::parse(text, shallow, false);
  if (!parsed.is_object() || !parsed.contains("message")) return std::nullopt;
  const json& message = parsed["message"];
  ErrorFile out;
  if (message.is_string()) {
    out.message = message.get<std::string>();
    out.written = time_at(parsed, "timestamp");
    return out;
  }
  if (!message.is_object()) return std::nullopt;
  out.message = text_at(message, "message");
  if (const auto extra = message.find("extraInfo"); extra != message.end() && extra->is_object()) {
    out.traceback = text_at(*extra, "py_callstack");
    out.written = time_at(*extra, "timestamp");
  }
  return out;
}

std::optional<ErrorFile> read_error_file(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  if (!file) return std::nullopt;
  std::string bytes(limits::kErrorFileBytesMax + 1, '\0');
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t n = ::read(file.get(), bytes.data() + filled, bytes.size() - filled);
    if (n <= 0) break;
    filled += static_cast<std::size_t>(n);
  }
  if (filled == 0 || filled > limits::kErrorFileBytesMax) return std::nullopt;
  return parse_error_file(std::string_view(bytes).substr(0, filled));
}

}  // namespace cxxrun::agent
