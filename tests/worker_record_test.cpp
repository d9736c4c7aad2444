// SPDX-License-Identifier: Apache-2.0
#include "worker/record.hpp"

#include <stdlib.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>

using namespace cxxrun;

namespace {

struct ShardError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// TORCHELASTIC_ERROR_FILE names a file in a folder of the test's own.
class ErrorFile {
 public:
  ErrorFile() {
    char name[] = "/tmp/cxxrun-test-XXXXXX";
    REQUIRE(::mkdtemp(name) != nullptr);
    folder_ = name;
    ::setenv("TORCHELASTIC_ERROR_FILE", path().c_str(), 1);
  }
  ~ErrorFile() {
    ::unsetenv("TORCHELASTIC_ERROR_FILE");
    std::filesystem::remove_all(folder_);
  }
  [[nodiscard]] std::string path() const { return folder_ + "/error.json"; }
  [[nodiscard]] bool written() const { return std::filesystem::exists(path()); }
  [[nodiscard]] std::string message() const { return read()["message"]["message"]; }
  [[nodiscard]] std::string details() const { return read()["message"]["extraInfo"]["py_callstack"]; }

 private:
  [[nodiscard]] nlohmann::json read() const {
    std::ifstream file(path());
    return nlohmann::json::parse(
        std::string{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()});
  }
  std::string folder_;
};

}  // namespace

TEST_CASE("record: what does not throw returns as it is and writes nothing") {
  const ErrorFile file;
  CHECK(worker::record([] {}) == 0);
  CHECK(worker::record([] { return 7; }) == 7);
  CHECK(worker::record_and_rethrow([] { return std::string("x"); }) == "x");
  CHECK_FALSE(file.written());
}

TEST_CASE("record: an exception becomes 1 and a record with its class") {
  const ErrorFile file;
  CHECK(worker::record([] { throw ShardError("shard 3 has a bad magic"); }) == 1);
  CHECK_THAT(file.message(), Catch::EndsWith("ShardError: shard 3 has a bad magic"));
  CHECK(file.details().empty());
}

TEST_CASE("record: what an exception was thrown for is told too") {
  const ErrorFile file;
  const auto load = [] {
    try {
      throw std::out_of_range("offset 12");
    } catch (...) {
      std::throw_with_nested(std::runtime_error("cannot load"));
    }
  };
  CHECK(worker::record(load) == 1);
  CHECK(file.message() == "std::runtime_error: cannot load");
  CHECK_THAT(file.details(), Catch::Contains("caused by std::out_of_range: offset 12"));
}

TEST_CASE("record: things that are no std::exception") {
  const ErrorFile file;
  CHECK(worker::record([] { throw "a text"; }) == 1);
  CHECK(file.message() == "const char*: a text");
  CHECK(worker::record([] { throw 42; }) == 1);
  CHECK(file.message() == "int: ");
}

TEST_CASE("record: the exception can go on") {
  const ErrorFile file;
  CHECK_THROWS_AS(worker::record_and_rethrow([] { throw ShardError("x"); }), ShardError);
  CHECK(file.written());
}

TEST_CASE("record: the end of a thread is no failure") {
  const ErrorFile file;
  bool after = false;
  std::thread thread([&] {
    worker::record([] { ::pthread_exit(nullptr); });
    after = true;
  });
  thread.join();
  CHECK_FALSE(after);
  CHECK_FALSE(file.written());
}

TEST_CASE("record: no launcher, no file, still 1") {
  ::unsetenv("TORCHELASTIC_ERROR_FILE");
  CHECK(worker::record([] { throw ShardError("x"); }) == 1);
  worker::record_current_exception(true);  // nothing is being handled: nothing happens
}
