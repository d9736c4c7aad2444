// SPDX-License-Identifier: Apache-2.0
#include "agent/error_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
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

bool shallow(int depth, json::parse_event_t, json&) { return depth <= kDepthMax; }

/// As torchrun has it.
int torch_code(const ExitStatus& status) {
  if (const auto* signaled = std::get_if<Signaled>(&status)) return -signaled->signo;
  return std::get<Exited>(status).code;
}

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

/// PyTorch writes whole seconds, rounded down: among several failures that would make such a one too early.
/// The file's own time is the same moment more exactly.
std::chrono::milliseconds refined(std::chrono::milliseconds written, int fd) {
  struct stat facts {};
  if (written.count() % 1000 != 0 || ::fstat(fd, &facts) != 0) return written;
  const std::chrono::milliseconds changed(facts.st_mtim.tv_sec * 1000 + facts.st_mtim.tv_nsec / 1'000'000);
  return changed >= written && changed < written + std::chrono::seconds(1) ? changed : written;
}

}  // namespace

std::optional<ErrorFile> parse_error_file(std::string_view text) {
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
  bytes.resize(filled);
  auto parsed = parse_error_file(bytes);
  if (!parsed) return std::nullopt;
  if (parsed->written) parsed->written = refined(*parsed->written, file.get());
  parsed->raw = std::move(bytes);
  return parsed;
}

std::string error_file_copy(std::string_view raw, const ExitStatus& status) {
  json parsed = json::parse(raw, shallow, false);
  if (!parsed.is_object() || !parsed.contains("message") || !parsed["message"].is_object())
    return std::string(raw);
  if (const int code = torch_code(status); code != 0) parsed["message"]["errorCode"] = code;
  return parsed.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string error_file_text(std::string_view message, std::string_view traceback,
                            std::chrono::milliseconds wall, const ExitStatus& status) {
  json out = {
      {"message",
       {{"message", message},
        {"extraInfo", {{"py_callstack", traceback}, {"timestamp", std::to_string(wall.count() / 1000)}}}}}};
  if (const int code = torch_code(status); code != 0) out["message"]["errorCode"] = code;
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace cxxrun::agent
