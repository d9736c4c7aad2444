// SPDX-License-Identifier: Apache-2.0
#include "launcher/line_splitter.hpp"

#include <cstring>

namespace cxxrun::launcher {

void LineSplitter::feed(std::string_view bytes, std::string& out) {
  const char* at = bytes.data();
  const char* const end = at + bytes.size();
  while (at < end) {
    const auto* newline = static_cast<const char*>(std::memchr(at, '\n', static_cast<std::size_t>(end - at)));
    if (newline == nullptr) return hold({at, static_cast<std::size_t>(end - at)}, out);
    const auto length = static_cast<std::size_t>(newline + 1 - at);
    if (!waiting_.empty() || length > line_bytes_max_) {
      hold({at, length - 1}, out);
      out += prefix_;
      out += waiting_;
      out += '\n';
      waiting_.clear();
    } else {
      out += prefix_;
      out.append(at, length);
    }
    at = newline + 1;
  }
}

void LineSplitter::hold(std::string_view bytes, std::string& out) {
  while (waiting_.size() + bytes.size() > line_bytes_max_) {
    const std::size_t room = line_bytes_max_ - waiting_.size();
    out += prefix_;
    out += waiting_;
    out += bytes.substr(0, room);
    out += '\n';
    waiting_.clear();
    bytes.remove_prefix(room);
  }
  waiting_ += bytes;
}

void LineSplitter::finish(std::string& out) {
  if (waiting_.empty()) return;
  out += prefix_;
  out += waiting_;
  out += '\n';
  waiting_.clear();
}

}  // namespace cxxrun::launcher
