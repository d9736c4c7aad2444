// SPDX-License-Identifier: Apache-2.0
#include "store/admission.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <catch2/catch.hpp>
#include <cstring>

using namespace cxxrun;
using namespace cxxrun::store;

namespace {

AddressBytes address(const std::string& numeric) {
  sockaddr_storage storage{};
  in_addr v4{};
  if (::inet_pton(AF_INET, numeric.c_str(), &v4) == 1) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_addr = v4;
    std::memcpy(&storage, &in, sizeof in);
  } else {
    sockaddr_in6 in{};
    in.sin6_family = AF_INET6;
    REQUIRE(::inet_pton(AF_INET6, numeric.c_str(), &in.sin6_addr) == 1);
    std::memcpy(&storage, &in, sizeof in);
  }
  return *address_bytes(storage);
}

}  // namespace

TEST_CASE("who is admitted") {
  struct Row {
    const char* rule;
    const char* address;
    bool allowed;
  };
  const std::vector<Row> rows{
      {"10.0.0.7", "10.0.0.7", true},
      {"10.0.0.7", "::ffff:10.0.0.7", true},
      {"10.0.0.7", "10.0.0.8", false},
      {"10.0.0.0/8", "10.200.1.1", true},
      {"10.0.0.0/8", "11.0.0.1", false},
      {"10.1.2.0/23", "10.1.3.255", true},
      {"10.1.2.0/23", "10.1.4.0", false},
      {"0.0.0.0/0", "8.8.8.8", true},
      {"0.0.0.0/0", "fd00::1", false},
      {"fd00::/64", "fd00::1234", true},
      {"fd00::/64", "fd00:0:0:1::1", false},
      {"::/0", "192.0.2.1", true},
      {"fe80::1%eth0", "fe80::1", true},
      {"any", "203.0.113.9", true},
      {"10.0.0.7", "127.0.0.1", true},
      {"10.0.0.7", "127.8.8.8", true},
      {"10.0.0.7", "::1", true},
      {"::ffff:10.0.0.7", "10.0.0.7", true},
  };
  for (const Row& row : rows) {
    INFO(row.rule << " and " << row.address);
    Admission admission;
    REQUIRE(admission.add(row.rule));
    CHECK(admission.allows(address(row.address)) == row.allowed);
  }
}

TEST_CASE("a rule that is none is named") {
  for (const char* rule : {"", "node1", "10.0.0", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/", "10.0.0.0/8x",
                           "fd00::/129", "/8", "members"}) {
    INFO(rule);
    Admission admission;
    const auto added = admission.add(rule);
    REQUIRE_FALSE(added);
    CHECK_THAT(added.error().message, Catch::Contains(std::string("'") + rule + "'"));
  }
}

TEST_CASE("addresses are written the short way") {
  CHECK(text(address("::ffff:10.0.0.7")) == "10.0.0.7");
  CHECK(text(address("fd00:0:0:0::7")) == "fd00::7");
}
