// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// What message_encode.cpp and message_decode.cpp share: limits, names, and the reader of one object's
/// fields.
namespace cxxrun::rendezvous::wire {

using Json = nlohmann::json;

inline constexpr std::size_t kTextBytesMax = 4u << 10;  // one sentence
inline constexpr std::size_t kNameBytesMax = 256;
inline constexpr std::size_t kListMax = 1'024;                 // interface addresses, capabilities
inline constexpr std::size_t kAdmitMax = 1u << 20;             // every address of every node
inline constexpr std::size_t kTracebackBytesMax = 128u << 10;  // a longer one loses its middle
inline constexpr std::int64_t kBig = std::numeric_limits<std::int64_t>::max();
inline constexpr const char* kOutcomes[] = {"succeeded", "failed", "interrupted", "nodes_missing", "refused"};
inline constexpr const char* kLeavings[] = {"politely", "stop_job", "broken_host"};

/// Reads fields of one object; remembers the first that is wrong. A field that is missing keeps its default.
class Fields {
 public:
  explicit Fields(const Json& object, std::string where = "") : object_(object), where_(std::move(where)) {}
  [[nodiscard]] const std::string& wrong() const { return wrong_; }

  template <class Number>
  void number(const char* key, Number& into, std::int64_t min, std::int64_t max) {
    const Json* field = find(key);
    if (field == nullptr) return;
    if (!field->is_number_integer()) return fail(key, "is no integer");
    if (field->is_number_unsigned() && field->get<std::uint64_t>() > static_cast<std::uint64_t>(kBig)) {
      return fail(key, "is out of range");
    }
    const auto value = field->get<std::int64_t>();
    if (value < min || value > max) return fail(key, "is out of range");
    into = static_cast<Number>(value);
  }
  void boolean(const char* key, bool& into) {
    const Json* field = find(key);
    if (field == nullptr) return;
    if (!field->is_boolean()) return fail(key, "is neither true nor false");
    into = field->get<bool>();
  }
  void string(const char* key, std::string& into, std::size_t bytes_max) {
    const Json* field = find(key);
    if (field == nullptr) return;
    if (!field->is_string()) return fail(key, "is no text");
    const auto& value = field->get_ref<const std::string&>();
    if (value.size() > bytes_max) return fail(key, "is too long");
    into = value;
  }
  void strings(const char* key, std::vector<std::string>& into, std::size_t count_max,
               std::size_t bytes_max) {
    const Json* field = find(key);
    if (field == nullptr) return;
    if (!field->is_array() || field->size() > count_max) return fail(key, "is no list, or too long");
    for (const Json& entry : *field) {
      if (!entry.is_string() || entry.get_ref<const std::string&>().size() > bytes_max) {
        return fail(key, "holds what is no short text");
      }
      into.push_back(entry.get<std::string>());
    }
  }
  void hex(const char* key, std::string& into, std::size_t bytes_max) {
    std::string digits;
    string(key, digits, bytes_max * 2);
    if (!from_hex(digits, into)) fail(key, "is no text of hex digits");
  }
  void hexes(const char* key, std::vector<std::string>& into, std::size_t count_max, std::size_t bytes_max) {
    std::vector<std::string> digits;
    strings(key, digits, count_max, bytes_max * 2);
    for (const auto& d : digits) {
      if (!from_hex(d, into.emplace_back())) return fail(key, "is no text of hex digits");
    }
  }
  /// A nested object; nullptr: missing, null, or wrong.
  const Json* object(const char* key) {
    const Json* field = find(key);
    if (field == nullptr) return nullptr;
    if (!field->is_object()) {
      fail(key, "is no object");
      return nullptr;
    }
    return field;
  }
  void adopt(const Fields& inner) {
    if (wrong_.empty()) wrong_ = inner.wrong_;
  }
  [[nodiscard]] bool has(const char* key) const { return find(key) != nullptr; }

 private:
  const Json* find(const char* key) const {
    const auto it = object_.find(key);
    return it == object_.end() || it->is_null() ? nullptr : &*it;
  }
  void fail(const char* key, const char* what) {
    if (wrong_.empty()) wrong_ = "field '" + where_ + key + "' " + what;
  }
  static int digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
  }
  static bool from_hex(std::string_view digits, std::string& into) {
    if (digits.size() % 2 != 0) return false;
    for (std::size_t i = 0; i < digits.size(); i += 2) {
      const int high = digit(digits[i]), low = digit(digits[i + 1]);
      if (high < 0 || low < 0) return false;
      into += static_cast<char>(high * 16 + low);
    }
    return true;
  }

  const Json& object_;
  std::string where_;
  std::string wrong_;
};

}  // namespace cxxrun::rendezvous::wire
