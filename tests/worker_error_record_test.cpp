// SPDX-License-Identifier: Apache-2.0
#include "worker/error_record.hpp"

#include <stdlib.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/limits.hpp"

using namespace cxxrun;

namespace {

/// A folder, and TORCHELASTIC_ERROR_FILE naming a file in it, until the end of the test.
class ErrorFile {
 public:
  ErrorFile() {
    char name[] = "/tmp/cxxrun-test-XXXXXX";
    REQUIRE(::mkdtemp(name) != nullptr);
    folder_ = name;
    point_to(path());
  }
  ~ErrorFile() {
    ::unsetenv("TORCHELASTIC_ERROR_FILE");
    std::filesystem::remove_all(folder_);
  }
  static void point_to(const std::string& path) { ::setenv("TORCHELASTIC_ERROR_FILE", path.c_str(), 1); }
  [[nodiscard]] std::string path() const { return folder_ + "/error.json"; }
  [[nodiscard]] std::string folder() const { return folder_; }
  [[nodiscard]] nlohmann::json read() const {
    std::ifstream file(path());
    return nlohmann::json::parse(
        std::string{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()});
  }

 private:
  std::string folder_;
};

}  // namespace

TEST_CASE("the record has torchrun's form") {
  const auto record = nlohmann::json::parse(
      worker::error_record_json("ValueError", "a \"b\"\nc", "line 1\nline 2", 1234567890));
  CHECK(record == nlohmann::json::parse(R"({"message": {"message": "ValueError: a \"b\"\nc",
      "extraInfo": {"py_callstack": "line 1\nline 2", "timestamp": "1234567890"}}})"));
}

TEST_CASE("the record goes to the file that the launcher named, over an old one") {
  const ErrorFile file;
  REQUIRE(worker::write_error_record("First", "one"));
  REQUIRE(worker::write_error_record("DataError", "text x: No such file or directory", "somewhere"));
  const auto record = file.read();
  CHECK(record["message"]["message"] == "DataError: text x: No such file or directory");
  CHECK(record["message"]["extraInfo"]["py_callstack"] == "somewhere");
  const auto files = std::filesystem::directory_iterator(file.folder());
  CHECK(std::distance(begin(files), end(files)) == 1);
}

TEST_CASE("without the launcher's variable nothing is written") {
  const ErrorFile file;
  ErrorFile::point_to("");
  CHECK(worker::write_error_record("A", "b"));
  ::unsetenv("TORCHELASTIC_ERROR_FILE");
  CHECK(worker::write_error_record("A", "b"));
  CHECK(std::filesystem::is_empty(file.folder()));
}

TEST_CASE("bytes that are no text and endless texts still give a record that launchers read") {
  const ErrorFile file;
  const std::string bytes("\xff\xfe\x00\x80 and \xc3", 9);
  REQUIRE(worker::write_error_record("E", bytes + std::string(10'000'000, '\x01'),
                                     std::string(10'000'000, '\x02')));
  CHECK(std::filesystem::file_size(file.path()) < limits::kErrorFileBytesMax);
  CHECK(file.read()["message"]["message"].get<std::string>().starts_with("E: "));
}

TEST_CASE("a file that cannot be written is an error with its name") {
  const ErrorFile file;
  ErrorFile::point_to(file.folder() + "/missing/error.json");
  const auto written = worker::write_error_record("A", "b");
  REQUIRE_FALSE(written);
  CHECK(written.error().code == std::errc::no_such_file_or_directory);
  CHECK(written.error().message ==
        "error record " + file.folder() + "/missing/error.json: No such file or directory");
}
