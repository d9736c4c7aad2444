// SPDX-License-Identifier: Apache-2.0
#include "worker/record.hpp"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <typeinfo>

#include "worker/error_record.hpp"

namespace cxxrun::worker {
namespace {

constexpr int kNestedMax = 16;

struct Told {
  std::string kind;
  std::string text;
};

std::string class_name(const std::type_info* type) {
  if (type == nullptr) return "exception";
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(type->name(), nullptr, nullptr, &status), &std::free);
  std::string out = status == 0 && name ? name.get() : type->name();
  // What std::throw_with_nested throws, under its name in both standard libraries: the class inside is meant.
  for (const std::string_view nested : {"std::_Nested_exception<", "std::__nested<"}) {
    if (out.starts_with(nested) && out.ends_with('>'))
      out = out.substr(nested.size(), out.size() - nested.size() - 1);
  }
  return out;
}

std::string sentence(const Told& told) { return told.kind + (told.text.empty() ? "" : ": " + told.text); }

/// What is being handled, and into `nested` what it was thrown for.
Told told(std::string& nested, int depth) {
  try {
    throw;
  } catch (const std::exception& error) {
    const Told out{class_name(&typeid(error)), error.what()};
    try {
      if (depth < kNestedMax) std::rethrow_if_nested(error);
    } catch (...) {
      std::string deeper;
      const Told cause = told(deeper, depth + 1);
      nested = "caused by " + sentence(cause) + "\n" + deeper;
    }
    return out;
  } catch (const std::string& text) {
    return {"std::string", text};
  } catch (const char* text) {
    return {"const char*", text == nullptr ? "" : text};
  } catch (...) {
    return {class_name(abi::__cxa_current_exception_type()), ""};
  }
}

}  // namespace

void record_current_exception(bool aloud) noexcept {
  if (!std::current_exception()) return;
  try {
    std::string nested;
    const Told what = told(nested, 0);
    if (aloud) std::fprintf(stderr, "%s\n%s", sentence(what).c_str(), nested.c_str());
    // Where the file cannot be written the launcher still has the exit code and the last lines.
    const auto written =
        write_error_record(what.kind, what.text, nested.empty() ? "" : sentence(what) + "\n" + nested);
    if (!written && aloud) std::fprintf(stderr, "%s\n", written.error().message.c_str());
  } catch (const std::exception&) {  // no memory: the failure itself goes on
  }
}

}  // namespace cxxrun::worker
