// SPDX-License-Identifier: Apache-2.0
#include "tests/support/store_fuzz.hpp"

#include <catch2/catch.hpp>
#include <random>

using namespace cxxrun::store;
using namespace cxxrun::store::test;

namespace {

/// A request of few names and short lengths, so that random ones meet each other.
std::string likely_request(std::mt19937& random) {
  const auto below = [&](std::uint32_t n) { return random() % n; };
  const auto name = [&] { return std::string(1, static_cast<char>('a' + below(3))); };
  const std::string value(below(20), '7');
  switch (below(14)) {
    case 0: return set(name(), value);
    case 1: return get(name());
    case 2: return add(name(), static_cast<std::int64_t>(below(9)));
    case 3: return compare_set(name(), "", value);
    case 4: return check({name(), name()});
    case 5: return wait({name(), name()});
    case 6: return cancel();
    case 7: return delete_key(name());
    case 8: return append(name(), value);
    case 9: return multi_set({{name(), value}, {name(), value}});
    case 10: return push(name(), value);
    case 11: return pop(name());
    case 12: return barrier(name(), 2);
    default: return list_keys() + queue_len(name()) + num_keys();
  }
}

}  // namespace

TEST_CASE("random bytes break nothing") {
  std::mt19937 random(1);
  for (int i = 0; i < 3'000; ++i) {
    std::string bytes(random() % 200, '\0');
    for (char& c : bytes) c = static_cast<char>(random() % 4 == 0 ? random() % 20 : 0);
    feed_hostile(bytes);
  }
}

TEST_CASE("requests in any order, and damaged ones, break nothing") {
  std::mt19937 random(2);
  for (int i = 0; i < 3'000; ++i) {
    std::string bytes(1, static_cast<char>(0x80u | (random() % 64)));
    for (int n = 0; n < 40; ++n) bytes += likely_request(random);
    for (std::uint32_t n = random() % 4; n > 0; --n)
      bytes[1 + random() % (bytes.size() - 1)] = static_cast<char>(random());
    feed_hostile(bytes);
  }
}

TEST_CASE("the store agrees with itself however its requests were cut") {
  std::mt19937 random(3);
  for (int i = 0; i < 300; ++i) {
    std::string bytes = validate();
    for (int n = 0; n < 40; ++n) bytes += likely_request(random);
    PureDriver whole, cut;
    const std::string expected = whole.talk(0, bytes);
    std::string got;
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t size = 1 + random() % 30;
      got += cut.talk(0, std::string_view(bytes).substr(at, size));
      at += size;
    }
    REQUIRE((got == expected));
    REQUIRE(whole.core().bytes() == cut.core().bytes());
  }
}
