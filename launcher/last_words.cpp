// SPDX-License-Identifier: Apache-2.0
#include "launcher/last_words.hpp"

#include <algorithm>

#include "base/limits.hpp"

namespace cxxrun::launcher {

void LastWords::feed(std::string_view bytes) {
  constexpr std::size_t kKeep = limits::kLastWordsBytesMax;
  if (bytes.size() >= kKeep) {
    cut_ = cut_ || !tail_.empty() || bytes.size() > kKeep;
    tail_.assign(bytes.substr(bytes.size() - kKeep));
    return;
  }
  tail_ += bytes;
  if (tail_.size() <= 2 * kKeep) return;  // trimmed now and then, not for each piece
  tail_.erase(0, tail_.size() - kKeep);
  cut_ = true;
}

std::vector<std::string> LastWords::lines() const {
  std::string_view text = tail_;
  bool cut = cut_;
  if (text.size() > limits::kLastWordsBytesMax) {
    text.remove_prefix(text.size() - limits::kLastWordsBytesMax);
    cut = true;
  }
  std::vector<std::string> found;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    found.emplace_back(line);
    at = end + 1;
  }
  if (cut && found.size() > 1) found.erase(found.begin());
  if (found.size() > limits::kLastWordsLinesMax) {
    found.erase(found.begin(), found.end() - static_cast<std::ptrdiff_t>(limits::kLastWordsLinesMax));
  }
  return found;
}

}  // namespace cxxrun::launcher
