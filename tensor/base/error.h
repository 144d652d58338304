// The two kinds of failure: the caller's mistake (Error, WEFT_CHECK) and ours (InternalError, WEFT_ASSERT).
// Needs nothing of Weft; every floor uses it.
#pragma once

#include <cstdint>
#include <exception>
#include <source_location>
#include <sstream>
#include <string>

namespace weft {

using SourceLocation = std::source_location;

// The user made a mistake; the text says what was given, the rule it breaks and what would be right.
class Error : public std::exception {
 public:
  explicit Error(std::string message) : message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }

  // Adds a line to the text while the error travels outwards.
  void add_context(const std::string& line) { message_ += "\n  " + line; }
  // Adds the line of the user's program that called the op: the innermost call adds it, the others do not.
  void add_place(SourceLocation where);

 protected:
  void say(std::string message) { message_ = std::move(message); }

 private:
  std::string message_;
  bool has_place_ = false;
};

// An index lies outside its tensor.
class IndexError : public Error {
 public:
  using Error::Error;
  // Element `place`, counted row by row, of a tensor of indices holds `value`.
  IndexError(std::string message, int64_t place, int64_t value)
      : Error(std::move(message)), place_(place), value_(value) {}
  // Negative: it is no element of a tensor.
  int64_t place() const { return place_; }
  int64_t value() const { return value_; }
  using Error::say;

 private:
  int64_t place_ = -1, value_ = 0;
};

// A defect in Weft itself: prints file, line and condition.
class InternalError : public Error {
  using Error::Error;
};

namespace detail {

template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return std::move(out).str();
}

[[noreturn]] void throw_error(std::string message);
[[noreturn]] void throw_internal_error(const char* file, int line, const char* condition,
                                       const std::string& message);

}  // namespace detail

// "train.cpp:41", or an empty string when the place is unknown.
std::string to_string(const SourceLocation& where);

}  // namespace weft

// Throws weft::Error with the streamed parts unless the condition holds.
#define WEFT_CHECK(condition, ...)                                      \
  do {                                                                  \
    if (!(condition)) [[unlikely]]                                      \
      ::weft::detail::throw_error(::weft::detail::concat(__VA_ARGS__)); \
  } while (false)

// Throws weft::InternalError: the condition is a fact that Weft itself guarantees.
#define WEFT_ASSERT(condition, ...)                                              \
  do {                                                                           \
    if (!(condition)) [[unlikely]]                                               \
      ::weft::detail::throw_internal_error(__FILE__, __LINE__, #condition,       \
                                           ::weft::detail::concat(__VA_ARGS__)); \
  } while (false)
