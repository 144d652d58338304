// Throwing, kept out of line so that checks stay small.
// Needs nothing of Weft.
#include "tensor/base/error.h"

#include <cstring>

namespace weft {
namespace detail {

void throw_error(std::string message) { throw Error(std::move(message)); }

void throw_internal_error(const char* file, int line, const char* condition, const std::string& message) {
  throw InternalError(concat("internal error at ", file, ":", line, ": ", condition,
                             message.empty() ? "" : ": ", message,
                             "\n  This is a defect in Weft, not in your program; please report it."));
}

}  // namespace detail

void Error::add_place(SourceLocation where) {
  const std::string place = to_string(where);
  if (has_place_ || place.empty()) return;
  has_place_ = true;
  add_context("at " + place);
}

std::string to_string(const SourceLocation& where) {
  const char* file = where.file_name();
  if (file == nullptr || *file == '\0') return {};
  if (const char* slash = std::strrchr(file, '/')) file = slash + 1;
  return detail::concat(file, ":", where.line());
}

}  // namespace weft
