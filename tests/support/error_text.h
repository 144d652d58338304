// The text of what a function throws, and the test that it says something.
// Needs GoogleTest and tensor/base.
#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <functional>
#include <string>
#include <typeinfo>

#include "tensor/base/error.h"

namespace weft::tests {

// The text of what the function throws, or "no error". An Error of another kind than E, where that is given, says so; a
// defect of ours does in any case.
template <class E = Error>
std::string error_of(const std::function<void()>& function) {
  try {
    function();
  } catch (const InternalError& error) {
    return std::string("INTERNAL ") + error.what();
  } catch (const Error& error) {
    const bool is_kind = typeid(E) == typeid(Error) || typeid(error) == typeid(E);
    return std::string(is_kind ? "" : "another kind: ") + error.what();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}
// Without the lines that say where.
inline std::string first_line_of_error(const std::function<void()>& function) {
  const std::string text = error_of(function);
  return text.substr(0, text.find('\n'));
}

inline void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text << "\nshould contain: " << part;
}
// The statements throw an Error that says `part`.
#define EXPECT_ERROR(part, ...) \
  ::weft::tests::expect_contains(::weft::tests::error_of([&] { __VA_ARGS__; }), part)

}  // namespace weft::tests
