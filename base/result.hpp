// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cassert>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>

namespace cxxrun {

/// Why an operation failed: a code to branch on and a sentence to print.
struct Error {
  std::error_code code;
  std::string message;

  /// Puts what was being done in front: "spawn rank 3: exec ./train: No such file or directory".
  [[nodiscard]] Error context(std::string_view doing) && {
    message = std::string(doing) + ": " + message;
    return std::move(*this);
  }
};

/// An Error from an errno value: `doing` and the system's text.
[[nodiscard]] inline Error errno_error(int errno_value, std::string_view doing) {
  const std::error_code code(errno_value, std::generic_category());
  return Error{code, std::string(doing) + ": " + code.message()};
}

/// An Error that only people branch on.
[[nodiscard]] inline Error plain_error(std::string message) {
  return Error{std::make_error_code(std::errc::invalid_argument), std::move(message)};
}

/// A value or an Error. Reading the wrong side is a bug and asserts, also in release builds.
template <class T = std::monostate>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit on purpose
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit on purpose

  explicit operator bool() const noexcept { return state_.index() == 0; }
  [[nodiscard]] bool ok() const noexcept { return state_.index() == 0; }

  T& operator*() & { return value(); }
  const T& operator*() const& { return const_cast<Result*>(this)->value(); }
  T&& operator*() && { return std::move(value()); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &const_cast<Result*>(this)->value(); }

  [[nodiscard]] const Error& error() const& {
    assert(!ok());
    return *std::get_if<1>(&state_);
  }
  [[nodiscard]] Error&& error() && {
    assert(!ok());
    return std::move(*std::get_if<1>(&state_));
  }

 private:
  T& value() {
    assert(ok());
    return *std::get_if<0>(&state_);
  }
  std::variant<T, Error> state_;
};

/// What a Result<> holds when all went well.
inline constexpr std::monostate kOk{};

}  // namespace cxxrun
