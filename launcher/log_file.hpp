// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "launcher/line_splitter.hpp"

namespace cxxrun::launcher {

/// Opens a log file to append to; made if it is not there. Errors: errno with the path.
Result<UniqueFd> open_log(const std::string& path);

/// The end of a file, at most `bytes_max` of it; nothing if it cannot be read.
[[nodiscard]] std::string end_of_file(const std::string& path, std::size_t bytes_max);

/// A log file that we write. A write that fails (a full disk) is told, and costs what it should have written:
/// the next one tries again.
class LogFile {
 public:
  using OnError = std::function<void(const std::string& path, int error)>;
  static Result<std::unique_ptr<LogFile>> open(const std::string& path, OnError on_error);
  LogFile(UniqueFd fd, std::string path, OnError on_error)
      : fd_(std::move(fd)), path_(std::move(path)), on_error_(std::move(on_error)) {}

  /// One system call where the file takes it in one piece. `on_error` may be called from inside.
  void write(std::string_view bytes);
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  UniqueFd fd_;
  std::string path_;
  OnError on_error_;
};

/// Copies the lines that contain one of some texts to a file, with a prefix.
class LineCopier {
 public:
  LineCopier(std::unique_ptr<LogFile> file, std::string prefix, std::vector<std::string> texts)
      : file_(std::move(file)),
        prefix_bytes_(prefix.size()),
        lines_(std::move(prefix)),
        texts_(std::move(texts)) {}
  void feed(std::string_view bytes);
  void finish();

 private:
  void copy_matches();

  std::unique_ptr<LogFile> file_;
  std::size_t prefix_bytes_;
  LineSplitter lines_;
  std::vector<std::string> texts_;
  std::string scratch_, matches_;
};

}  // namespace cxxrun::launcher
