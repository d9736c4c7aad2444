// SPDX-License-Identifier: Apache-2.0
#include "agent/error_file.hpp"

#include <catch2/catch.hpp>
#include <string>

using namespace cxxrun::agent;

TEST_CASE("an error file that nests without end costs no stack") {
  const std::string deep = std::string(500'000, '[') + std::string(500'000, ']');
  const auto inside = parse_error_file(R"({"message": {"message": )" + deep + "}}");
  REQUIRE(inside);
  CHECK(inside->message.size() < 100);
  CHECK_FALSE(parse_error_file(deep));
}

TEST_CASE("a message that is no text is shown as it stands") {
  const auto file = parse_error_file(R"({"message": {"message": {"code": [1, null]}}})");
  REQUIRE(file);
  CHECK(file->message == R"({"code":[1,null]})");
}
