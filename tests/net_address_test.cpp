// SPDX-License-Identifier: Apache-2.0
#include "net/address.hpp"

#include <catch2/catch.hpp>

#include "net/interfaces.hpp"

using namespace cxxrun;
using namespace cxxrun::net;

TEST_CASE("endpoint text: host and port", "[net]") {
  struct Row {
    const char* text;
    const char* host;
    int port;  // -1: none
  };
  const auto row = GENERATE(values<Row>({
      {"", "localhost", -1},
      {"  ", "localhost", -1},
      {"h", "h", -1},
      {" h:0 ", "h", 0},
      {"job_node-0.ns:65535", "job_node-0.ns", 65535},
      {"[::1]", "::1", -1},
      {"[::1]:5", "::1", 5},
      {"::1", "::1", -1},  // torchrun takes this for host ":" and port 1
      {"fe80::1:2", "fe80::1:2", -1},
      {"[10.0.0.1]:80", "10.0.0.1", 80},
      {"10.0.0.1:80", "10.0.0.1", 80},
  }));
  INFO("'" << row.text << "'");
  const auto got = parse_endpoint(row.text);
  REQUIRE(got);
  CHECK(got->host == row.host);
  CHECK((got->port ? int(*got->port) : -1) == row.port);
}

TEST_CASE("endpoint text: what is refused, and which part is named", "[net]") {
  struct Row {
    const char* text;
    const char* named;
  };
  const auto row = GENERATE(values<Row>({
      {"h:65536", "65536"},
      {"h:", "no port"},
      {"h:a", "a is no port"},
      {"h:-1", "-1"},
      {"h:000080", "000080"},
      {":1", "no host"},
      {"a b:1", "'a b'"},
      {"http://h:1", "HOST:PORT, not a URL"},
      {"[::1", "a [ without ]"},
      {"[::1]5", "after the ]"},
      {"[x y]:5", "'x y'"},
      {"[]", "no host"},
      {"a:b:1", "a:b"},
  }));
  INFO(row.text);
  const auto got = parse_endpoint(row.text);
  REQUIRE_FALSE(got);
  CHECK_THAT(got.error().message, Catch::Contains(row.named));
}

TEST_CASE("addresses: text, kinds, mapped IPv4", "[net]") {
  CHECK(text(*parse_address("::ffff:10.0.0.1")) == "10.0.0.1");
  CHECK(text(*parse_address("fd77:0:0::1")) == "fd77::1");
  CHECK(text(*parse_address("fd77::1"), 80) == "[fd77::1]:80");
  CHECK(parse_address("127.0.1.1")->loopback());
  CHECK(parse_address("::1")->loopback());
  CHECK(parse_address("169.254.3.4")->link_local());
  CHECK(parse_address("fe80::1")->link_local());
  CHECK(parse_address("0.0.0.0")->unspecified());
  CHECK(parse_address("::")->unspecified());
  CHECK(parse_address("ff02::1")->multicast());
  for (const char* bad : {"", "h", "1.2.3", "1.2.3.4.5", "::1%nosuchif", "12345::", "[::1]"}) {
    INFO(bad);
    CHECK_FALSE(parse_address(bad));
  }
}

TEST_CASE("prefixes", "[net]") {
  const auto in = [](const char* prefix, const char* address) {
    return parse_prefix(prefix)->contains(*parse_address(address));
  };
  CHECK(in("10.78.0.0/16", "10.78.255.1"));
  CHECK_FALSE(in("10.78.0.0/16", "10.79.0.1"));
  CHECK(in("10.0.0.0/9", "10.127.0.1"));
  CHECK_FALSE(in("10.0.0.0/9", "10.128.0.1"));
  CHECK(in("0.0.0.0/0", "8.8.8.8"));
  CHECK(in("fd00::/8", "fd77::1"));
  CHECK_FALSE(in("fd00::/8", "10.0.0.1"));
  for (const char* bad : {"10.0.0.0", "10.0.0.0/33", "x/8", "fd00::/129", "10.0.0.0/-1", "10.0.0.0/"}) {
    INFO(bad);
    CHECK_FALSE(parse_prefix(bad));
  }
}

TEST_CASE("--local-addr: address, interface, prefix, name", "[net]") {
  const std::vector<InterfaceAddress> own{{"lo", *parse_address("127.0.0.1")},
                                          {"eth0", *parse_address("fe80::5%1")},
                                          {"eth0", *parse_address("fd77::5")},
                                          {"eth0", *parse_address("10.77.0.5")},
                                          {"ib0", *parse_address("10.78.0.5")}};
  struct Row {
    const char* wanted;
    std::vector<Address> looked_up;
    const char* chosen;  // "": refused
  };
  const std::vector<Row> rows{
      {"10.77.0.5", {}, "10.77.0.5"},
      {"eth0", {}, "10.77.0.5"},
      {"ib0", {}, "10.78.0.5"},
      {"10.78.0.0/16", {}, "10.78.0.5"},
      {"fd00::/8", {}, "fd77::5"},
      {"10.99.0.0/16", {}, ""},
      {"10.0.0.0/x", {}, ""},
      {"node-ib", {*parse_address("10.78.0.5")}, "10.78.0.5"},
      {"nat.example", {*parse_address("192.0.2.1")}, "192.0.2.1"},
  };
  for (const Row& row : rows) {
    INFO(row.wanted);
    const auto got = choose_local_address(row.wanted, own, row.looked_up);
    CHECK((got ? text(*got) : "") == row.chosen);
  }
  CHECK(local_address_is_name("node-ib", own));
  CHECK_FALSE(local_address_is_name("eth0", own));
  CHECK(is_own(*parse_address("127.9.9.9"), own));
  CHECK_FALSE(is_own(*parse_address("10.77.0.6"), own));
}
