// SPDX-License-Identifier: Apache-2.0
#include "store/wire.hpp"

#include <catch2/catch.hpp>

#include "tests/support/store_driver.hpp"

using namespace cxxrun;
using namespace cxxrun::store;
using namespace cxxrun::store::test;

namespace {

RequestParser::Status parse(RequestParser& parser, std::string_view bytes) {
  return parser.parse(bytes, WireLimits{});
}

/// The whole golden stream, cut into pieces of `size` bytes.
std::string replies_to_pieces(std::size_t size) {
  std::string sent;
  for (const Frame& frame : golden_frames()) sent += frame.sent;
  PureDriver driver;
  std::string received;
  for (std::size_t at = 0; at < sent.size(); at += size)
    received += driver.talk(0, std::string_view(sent).substr(at, size));
  return received;
}

}  // namespace

TEST_CASE("golden bytes, frame by frame") {
  PureDriver driver;
  for (const Frame& frame : golden_frames()) {
    INFO(frame.name);
    CHECK((driver.talk(0, frame.sent) == frame.received));
  }
}

TEST_CASE("the golden stream is what it should be") {
  std::size_t sent = 0, received = 0;
  for (const Frame& frame : golden_frames()) {
    sent += frame.sent.size();
    received += frame.received.size();
  }
  CHECK(sent == 572);
  CHECK(received == 182);
}

TEST_CASE("H8, H9: however a stream is cut, the replies are the same") {
  std::string received;
  for (const Frame& frame : golden_frames()) received += frame.received;
  for (const std::size_t size : {1u, 2u, 3u, 5u, 7u, 13u, 64u, 571u, 572u}) {
    INFO("pieces of " << size);
    CHECK((replies_to_pieces(size) == received));
  }
}

TEST_CASE("H2, H5, H6: only a handshake may come first") {
  struct Row {
    const char* name;
    std::string bytes;
    RequestParser::Status status;
  };
  const std::vector<Row> rows{
      {"nothing yet", "", RequestParser::Status::NeedMore},
      {"a part of it", hex("00 cef785"), RequestParser::Status::NeedMore},
      {"all of it", hex("00 cef7853c"), RequestParser::Status::Ready},
      {"wrong magic", hex("00 cef7853d"), RequestParser::Status::Bad},
      {"wrong magic, seen early", hex("00 cf"), RequestParser::Status::Bad},
      {"a ping first", ping(1), RequestParser::Status::Bad},
      {"HTTP", "GET / HTTP/1.1\r\n", RequestParser::Status::Bad},
      {"TLS hello", hex("16 0301"), RequestParser::Status::Bad},
      {"an old dialect's SET", hex("00 0200000000000000 2f6b 0100000000000000 76"),
       RequestParser::Status::Bad},
      {"an old dialect's ADD", hex("03 0500000000000000 696e69742f 0100000000000000"),
       RequestParser::Status::Bad},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    RequestParser parser;
    CHECK(parse(parser, row.bytes) == row.status);
    CHECK(parser.validated() == (row.status == RequestParser::Status::Ready));
  }
}

TEST_CASE("a length is refused when it is there, not when its bytes are") {
  RequestParser parser;
  REQUIRE(parse(parser, validate()) == RequestParser::Status::Ready);
  CHECK(parse(parser, hex("01 ffffffffffffffff")) == RequestParser::Status::Bad);
  CHECK(std::string(parser.why()) == "key too long");
}

TEST_CASE("an incomplete request says how many bytes it needs") {
  RequestParser parser;
  REQUIRE(parse(parser, validate()) == RequestParser::Status::Ready);
  const std::string request = set("key", "value");
  CHECK(parse(parser, request.substr(0, 1)) == RequestParser::Status::NeedMore);
  CHECK(parser.needed() == 9);
  CHECK(parse(parser, request.substr(0, 9)) == RequestParser::Status::NeedMore);
  CHECK(parser.needed() == 12);
  CHECK(parse(parser, request.substr(0, 20)) == RequestParser::Status::NeedMore);
  CHECK(parser.needed() == request.size());
  REQUIRE(parse(parser, request) == RequestParser::Status::Ready);
  CHECK(parser.size() == request.size());
  CHECK(parser.request().string(1) == "value");
}

TEST_CASE("a request of many values is limited as a whole") {
  RequestParser parser;
  WireLimits limits;
  limits.request_bytes_max = 64;
  REQUIRE(parser.parse(validate(), limits) == RequestParser::Status::Ready);
  const std::string request = multi_set({{"a", std::string(30, 'x')}, {"b", std::string(30, 'x')}});
  CHECK(parser.parse(request, limits) == RequestParser::Status::Bad);
}
