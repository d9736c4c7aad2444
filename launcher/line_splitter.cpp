// SPDX-License-Identifier: Apache-2.0
#include "launcher/line_splitter.hpp"

#include <algorithm>
#include <cstring>

namespace cxxrun::launcher {
namespace {

constexpr auto kBarInterval = std::chrono::seconds(1);
constexpr auto kNewlineFollows = std::chrono::milliseconds(100);  ///< a '\r' may be half of "\r\n"

/// How many bytes to take so that no character of UTF-8 is cut; `bytes.size()` > `room` > 0.
std::size_t whole_characters(std::string_view bytes, std::size_t room) {
  std::size_t at = room;
  for (int back = 0; back < 3 && at > 0 && (static_cast<unsigned char>(bytes[at]) & 0xc0) == 0x80; ++back)
    --at;
  return at == 0 || (static_cast<unsigned char>(bytes[at]) & 0xc0) == 0x80 ? room : at;
}

}  // namespace

void LineSplitter::feed(std::string_view bytes, std::string& out, Time now) {
  if (style_.bars != Bars::Keep &&
      (after_return_ || in_bar_ || std::memchr(bytes.data(), '\r', bytes.size()) != nullptr)) {
    return feed_bars(bytes, out, now);
  }
  const char* at = bytes.data();
  const char* const end = at + bytes.size();
  while (at < end) {
    const auto* newline = static_cast<const char*>(std::memchr(at, '\n', static_cast<std::size_t>(end - at)));
    if (newline == nullptr) return hold({at, static_cast<std::size_t>(end - at)}, out);
    const auto length = static_cast<std::size_t>(newline + 1 - at);
    if (style_.json || !waiting_.empty() || length > style_.line_bytes_max) {
      hold({at, length - 1}, out);
      end_line("\n", out);
    } else {
      out += style_.prefix;
      out.append(at, length);
      left_open_ = false;
    }
    at = newline + 1;
  }
}

void LineSplitter::feed_bars(std::string_view bytes, std::string& out, Time now) {
  while (!bytes.empty()) {
    if (after_return_) {
      if (bytes.front() == '\n') {
        end_line("\r\n", out);
        bytes.remove_prefix(1);
        continue;
      }
      end_state(out, now);
    }
    const auto* const end =
        std::find_if(bytes.begin(), bytes.end(), [](char c) { return c == '\n' || c == '\r'; });
    const auto length = static_cast<std::size_t>(end - bytes.begin());
    hold(bytes.substr(0, length), out);
    if (end == bytes.end()) break;
    if (*end == '\n') {
      end_line("\n", out);
    } else {
      after_return_ = true;
      returned_ = now;
    }
    bytes.remove_prefix(length + 1);
  }
  const bool state = in_bar_ || after_return_;
  if (style_.bars == Bars::Redraw && state && !waiting_.empty() && !shown_) {
    emit(waiting_, "\r", out);
    shown_ = true;
  }
}

void LineSplitter::hold(std::string_view bytes, std::string& out) {
  if (!bytes.empty()) shown_ = false;
  const std::size_t max = style_.line_bytes_max;
  if (waiting_.size() + bytes.size() <= max) {
    waiting_ += bytes;
    return;
  }
  // Rare: a line that is too long. Cut so that no character is torn.
  std::string joined = std::move(waiting_);
  joined += bytes;
  std::string_view rest = joined;
  while (rest.size() > max) {
    const std::size_t size = whole_characters(rest, max);
    emit_piece(rest.substr(0, size), out);
    rest.remove_prefix(size);
  }
  waiting_ = rest;
}

void LineSplitter::emit(std::string_view line, std::string_view ending, std::string& out) {
  if (style_.json) {
    style_.json->append(line, true, std::chrono::system_clock::now(), out);
  } else {
    out += style_.prefix;
    out += line;
    out += ending;
  }
  left_open_ = ending == "\r";
  cut_ = false;
}

void LineSplitter::emit_piece(std::string_view piece, std::string& out) {
  if (!style_.json) {
    emit(piece, "\n", out);
  } else {
    style_.json->append(piece, false, std::chrono::system_clock::now(), out);
  }
  cut_ = true;
}

void LineSplitter::end_line(std::string_view ending, std::string& out) {
  const bool thinned = style_.bars == Bars::Thin;
  const bool last_is_hidden = waiting_.empty() && thinned && !hidden_.empty();
  const bool all_out = waiting_.empty() ? in_bar_ && hidden_.empty() : shown_;
  if (!thinned || !all_out) emit(last_is_hidden ? hidden_ : waiting_, ending, out);
  waiting_.clear();
  hidden_.clear();
  after_return_ = in_bar_ = shown_ = false;
}

/// waiting_ was closed by a '\r' that no '\n' follows.
void LineSplitter::end_state(std::string& out, Time now) {
  after_return_ = false;
  in_bar_ = true;
  if (waiting_.empty()) return;
  if (style_.bars == Bars::Redraw) {
    if (!shown_) emit(waiting_, "\r", out);
    hidden_.swap(waiting_);
  } else if (cut_ || (!shown_ && now - last_shown_ >= kBarInterval)) {
    emit(waiting_, "\n", out);
    last_shown_ = now;
    hidden_.clear();
  } else if (!shown_) {
    hidden_.swap(waiting_);
  }
  waiting_.clear();
  shown_ = false;
}

std::optional<Time> LineSplitter::due() const {
  if (style_.bars != Bars::Thin) return std::nullopt;
  const bool state = (in_bar_ || after_return_) && !waiting_.empty() && !shown_;
  if (!state && hidden_.empty()) return std::nullopt;
  const Time next = last_shown_ + kBarInterval;
  return after_return_ ? std::max(next, returned_ + kNewlineFollows) : next;
}

void LineSplitter::show(std::string& out, Time now) {
  if (!due()) return;
  const bool newest_waits = !waiting_.empty() && !shown_;
  emit(newest_waits ? waiting_ : hidden_, "\n", out);
  shown_ = shown_ || newest_waits;
  hidden_.clear();
  last_shown_ = now;
}

void LineSplitter::finish(std::string& out) {
  if (!waiting_.empty() && (!shown_ || style_.bars == Bars::Redraw)) {
    emit(waiting_, "\n", out);
  } else if (waiting_.empty() && !hidden_.empty()) {
    emit(hidden_, "\n", out);
  }
  waiting_.clear();
  hidden_.clear();
  after_return_ = in_bar_ = shown_ = false;
}

}  // namespace cxxrun::launcher
