// SPDX-License-Identifier: Apache-2.0
#include "base/text.hpp"

#include <catch2/catch.hpp>

using namespace cxxrun;

TEST_CASE("printable: UTF-8 without control characters") {
  for (const char* good : {"", "a b", "job-1", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xc2\xa0"}) {
    INFO(good);
    CHECK(printable(good));
    CHECK(cleaned(good) == good);
  }
  for (const char* bad :
       {"a\nb", "\t", "\x1b[31m", "\x7f", "\xff", "\xc2", "\xc2\x9b", "\xc0\xaf", "\xe0\x80\x80",
        "\xed\xa0\x80", "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "a\xe2\x82"}) {
    CHECK_FALSE(printable(bad));
    CHECK(printable(cleaned(bad)));
  }
  CHECK_FALSE(printable(std::string_view("a\0b", 3)));
  CHECK(cleaned("a\x1b[1m\xff") == "a?[1m?");
}

TEST_CASE("quoted: a plain word stays, everything else shows where it begins and ends") {
  CHECK(quoted("h:29400") == "h:29400");
  CHECK(quoted("") == "''");
  CHECK(quoted(" 2") == "' 2'");
  CHECK(quoted("a\nb") == "'a\\nb'");
  CHECK(quoted("\x1b[31m") == "'\\x1b[31m'");
  CHECK(quoted("\xc2\x9b") == "'\\xc2\\x9b'");
  CHECK(quoted("\xc3\xa4") == "\xc3\xa4");
  CHECK(quoted(std::string(120, 'x')) == std::string(120, 'x'));
  CHECK(quoted(std::string(100'000, 'x')) == "'" + std::string(120, 'x') + "...'");
}
