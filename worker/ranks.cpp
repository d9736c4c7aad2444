// SPDX-License-Identifier: Apache-2.0
#include "worker/ranks.hpp"

#include <charconv>
#include <cstdlib>
#include <limits>
#include <string_view>

namespace cxxrun::worker {
namespace {

/// Reads numbers until the first one that is wrong, so that the caller checks once, at the end.
class Reader {
 public:
  explicit Reader(const Lookup& lookup) : lookup_(lookup) {}

  /// `fallback` nothing: the variable must be there.
  std::int64_t number(const char* name, std::int64_t low, std::int64_t high,
                      std::optional<std::int64_t> fallback) {
    const std::optional<std::string> text = lookup_(name);
    if (!text || text->empty()) {
      if (!fallback) fail(std::string(name) + " is not set: start this program with cxxrun (or torchrun)");
      return fallback.value_or(low);
    }
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
    if (error != std::errc{} || end != text->data() + text->size())
      fail(std::string(name) + "='" + *text + "' is not a number");
    else if (value < low || value > high)
      fail(std::string(name) + "=" + *text + " is not in " + std::to_string(low) + ".." +
           std::to_string(high));
    return value;
  }
  int small(const char* name, std::int64_t low, std::int64_t high, std::optional<std::int64_t> fallback) {
    return static_cast<int>(number(name, low, high, fallback));
  }
  std::optional<std::string> text(const char* name) const { return lookup_(name); }
  void fail(std::string message) {
    if (!error_) error_ = plain_error(std::move(message));
  }
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  const Lookup& lookup_;
  std::optional<Error> error_;
};

}  // namespace

Result<Ranks> ranks_from(const Lookup& lookup) {
  constexpr std::int64_t kMax = std::numeric_limits<int>::max();
  Reader reader(lookup);
  Ranks ranks;
  ranks.world_size = reader.small("WORLD_SIZE", 1, kMax, {});
  ranks.rank = reader.small("RANK", 0, ranks.world_size - 1, {});
  ranks.local_world_size = reader.small("LOCAL_WORLD_SIZE", 1, ranks.world_size, 1);
  ranks.local_rank = reader.small("LOCAL_RANK", 0, ranks.local_world_size - 1, 0);
  // Without the group's numbers (a run by hand): nodes of equal size, filled in order.
  const int local_size = ranks.local_world_size > 0 ? ranks.local_world_size : 1;
  const int nodes = (ranks.world_size + local_size - 1) / local_size;
  ranks.group_world_size = reader.small("GROUP_WORLD_SIZE", 1, ranks.world_size, nodes);
  ranks.group_rank = reader.small("GROUP_RANK", 0, ranks.group_world_size - 1, ranks.rank / local_size);
  ranks.restart_count = reader.small("TORCHELASTIC_RESTART_COUNT", 0, kMax, 0);
  ranks.round =
      reader.number("CXXRUN_ROUND", 0, std::numeric_limits<std::int64_t>::max(), ranks.restart_count);
  ranks.run_id = reader.text("TORCHELASTIC_RUN_ID").value_or("");
  ranks.master_addr = reader.text("MASTER_ADDR").value_or("");
  if (ranks.master_addr.empty())
    reader.fail("MASTER_ADDR is not set: start this program with cxxrun (or torchrun)");
  ranks.master_port = static_cast<std::uint16_t>(reader.number("MASTER_PORT", 1, 65'535, {}));
  if (reader.error()) return *reader.error();
  return ranks;
}

Result<Ranks> ranks_from_environment() {
  return ranks_from([](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    if (value == nullptr) return std::nullopt;
    return std::string(value);
  });
}

}  // namespace cxxrun::worker
