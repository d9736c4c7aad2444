// SPDX-License-Identifier: Apache-2.0
#include "store/core.hpp"

#include <catch2/catch.hpp>

#include "tests/support/store_driver.hpp"

using namespace cxxrun;
using namespace cxxrun::store;
using namespace cxxrun::store::test;

TEST_CASE("W15: a client that leaves takes its waits along") {
  PureDriver driver;
  const std::size_t before = driver.core().bytes();
  Names names;
  for (int i = 0; i < 1000; ++i) names.push_back("name " + std::to_string(i));
  for (int client = 0; client < 20; ++client) CHECK((driver.talk(client, validate() + wait(names)).empty()));
  CHECK(driver.core().waits() == 20'000);
  for (int client = 0; client < 20; ++client) driver.hang_up(client);
  CHECK(driver.core().waits() == 0);
  CHECK(driver.core().bytes() == before);
}

TEST_CASE("what is deleted costs nothing") {
  PureDriver driver;
  driver.talk(
      0, validate() + set("a", "value") + add("n", 7) + append("t", "x") + push("q", "1") + push("q", "2"));
  driver.talk(0, barrier("b", 2));
  driver.talk(0, cancel());
  CHECK(driver.core().bytes() > 0);
  driver.talk(0, delete_key("a") + delete_key("n") + delete_key("t") + delete_key("b") + pop("q") + pop("q"));
  CHECK(driver.core().bytes() == 0);
  CHECK(driver.core().keys() == 0);
}

TEST_CASE("a full store refuses what would add to it, and nothing else") {
  struct Row {
    const char* name;
    std::string request;
  };
  const std::string big(5'000, 'x');
  const std::vector<Row> rows{
      {"set", set("new", big)},
      {"append", append("key", big)},
      {"multi_set", multi_set({{"a", std::string(2'500, 'x')}, {"b", std::string(2'500, 'x')}})},
      {"compare_set", compare_set("new", "", big)},
      {"queue_push", push("q", big)},
      {"wait", wait({std::string(5'000, 'k')})},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    PureDriver driver(CoreLimits{.bytes_max = 10'000, .reply_bytes_max = 1'000'000});
    driver.talk(0, validate() + set("key", std::string(5'500, 'v')));
    REQUIRE_FALSE(driver.closed(0));
    const std::size_t before = driver.core().bytes();
    driver.talk(1, validate() + row.request);
    CHECK(driver.closed(1));
    CHECK(driver.core().bytes() == before);
    CHECK((driver.talk(0, get("key")) == str(std::string(5'500, 'v'))));
  }
}

TEST_CASE("a million names of one byte are counted for what they cost") {
  PureDriver driver(CoreLimits{.bytes_max = 100'000, .reply_bytes_max = 1'000'000});
  driver.talk(0, validate());
  for (int i = 0; i < 10'000 && !driver.closed(0); ++i) driver.talk(0, set(std::to_string(i), ""));
  CHECK(driver.closed(0));
  CHECK(driver.core().keys() < 1'000);
}

TEST_CASE("a reply that would be too long is refused before it is made") {
  PureDriver driver(CoreLimits{.bytes_max = 1'000'000, .reply_bytes_max = 10'000});
  driver.talk(0, validate() + set("k", std::string(1'000, 'v')));
  CHECK(driver.talk(0, multi_get(Names(9, "k"))).size() == 9 * 1'008);
  driver.talk(0, multi_get(Names(10, "k")));
  CHECK(driver.closed(0));
}

TEST_CASE("W13: thousands wait for one key") {
  PureDriver driver;
  for (int client = 1; client <= 4'000; ++client) driver.talk(client, validate() + wait({"id"}));
  driver.talk(0, validate() + set("id", "x"));
  int released = 0;
  for (int client = 1; client <= 4'000; ++client) released += driver.talk(client, "") == kStop ? 1 : 0;
  CHECK(released == 4'000);
  CHECK(driver.core().waits() == 0);
}

TEST_CASE("keys hash by content, and by seed") {
  const KeyHash one{1}, two{2};
  CHECK(one("abc") == one(std::string("abc")));
  CHECK(one("abc") != two("abc"));
  CHECK(one(std::string("a\0", 2)) != one("a"));
  CHECK(one("12345678") != one("123456789"));
}
