// The two kinds of failure: the caller's mistake (Error, WEFT_CHECK) and ours (InternalError, WEFT_ASSERT).
// Needs nothing of Weft; every floor uses it.
#pragma once

#include <cstdint>
#include <exception>
#include <initializer_list>
#include <ostream>
#include <source_location>
#include <string>

namespace weft {

using SourceLocation = std::source_location;

// The user made a mistake; the text says what was given, the rule it breaks and what would be right.
class Error : public std::exception {
 public:
  // Within a PlaceScope it names that place.
  explicit Error(std::string message);
  const char* what() const noexcept override { return message_.c_str(); }

  // Adds a line to the text while the error travels outwards.
  void add_context(const std::string& line) { message_ += "\n  " + line; }
  // Adds the line of the user's program that called the op: the innermost call adds it, the others do not.
  void add_place(SourceLocation where);

 protected:
  // Another text. What was added is gone; the place may be added again.
  void say(std::string message);

 private:
  std::string message_;
  bool has_place_ = false;
};

// Errors made on this thread while one lives name this line of the user's program, wherever they come from.
class PlaceScope {
 public:
  explicit PlaceScope(SourceLocation where);
  ~PlaceScope();
  PlaceScope(const PlaceScope&) = delete;
  PlaceScope& operator=(const PlaceScope&) = delete;

 private:
  const SourceLocation* outer_;
  SourceLocation where_;
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

// A piece of a message: anything with an operator<<. It borrows its value, for one call. Messages are lists of pieces rather
// than templates over them, so that a check costs the compiler an array and no code for streams.
class Part {
 public:
  Part(const char* text) : value_(text), print_(print_text) {}  // NOLINT: texts of any length
  template <class T>
  Part(const T& value) : value_(&value), print_(print_as<T>) {}  // NOLINT

  friend std::ostream& operator<<(std::ostream& out, const Part& part) {
    part.print_(out, part.value_);
    return out;
  }

 private:
  template <class T>
  static void print_as(std::ostream& out, const void* value) {
    out << *static_cast<const T*>(value);
  }
  static void print_text(std::ostream& out, const void* text);

  const void* value_;
  void (*print_)(std::ostream&, const void*);
};
using Parts = std::initializer_list<Part>;

std::string joined(Parts parts);
template <class... T>
std::string concat(const T&... parts) {
  return joined({Part(parts)...});
}

[[noreturn]] void throw_error(std::string message);
[[noreturn]] void throw_message(Parts parts);
[[noreturn]] void throw_internal_error(const char* file, int line, const char* condition, Parts message);

}  // namespace detail

// "train.cpp:41", or an empty string when the place is unknown.
std::string to_string(const SourceLocation& where);

}  // namespace weft

// Throws weft::Error with the streamed parts unless the condition holds.
#define WEFT_CHECK(condition, ...)                  \
  do {                                              \
    if (!(condition)) [[unlikely]]                  \
      ::weft::detail::throw_message({__VA_ARGS__}); \
  } while (false)

// Throws weft::InternalError: the condition is a fact that Weft itself guarantees.
#define WEFT_ASSERT(condition, ...)                                                        \
  do {                                                                                     \
    if (!(condition)) [[unlikely]]                                                         \
      ::weft::detail::throw_internal_error(__FILE__, __LINE__, #condition, {__VA_ARGS__}); \
  } while (false)
