// Throwing, kept out of line so that checks stay small.
// Needs nothing of Weft.
#include "tensor/base/error.h"

#include <cstring>
#include <sstream>

#include "tensor/base/place.h"

namespace weft {
namespace {

thread_local const SourceLocation* current_place = nullptr;

}  // namespace

namespace detail {

void Part::print_text(std::ostream& out, const void* text) { out << static_cast<const char*>(text); }

std::string joined(Parts parts) {
  std::ostringstream out;
  for (const Part& part : parts) out << part;
  return std::move(out).str();
}

void throw_error(std::string message) { throw Error(std::move(message)); }
void throw_message(Parts parts) { throw Error(joined(parts)); }

void throw_internal_error(const char* file, int line, const char* condition, Parts parts) {
  const std::string message = joined(parts);
  throw InternalError(concat("internal error at ", file, ":", line, ": ", condition,
                             message.empty() ? "" : ": ", message,
                             "\n  This is a defect in Weft, not in your program; please report it."));
}

}  // namespace detail

Error::Error(std::string message) : message_(std::move(message)) {
  if (current_place != nullptr) add_place(*current_place);
}

void Error::say(std::string message) {
  message_ = std::move(message);
  has_place_ = false;
  if (current_place != nullptr) add_place(*current_place);
}

const SourceLocation*& detail::place_of_errors() { return current_place; }

PlaceScope::PlaceScope(SourceLocation where) : outer_(current_place), where_(where) {
  current_place = &where_;
}
PlaceScope::~PlaceScope() { current_place = outer_; }

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
  return file + (':' + std::to_string(where.line()));
}

}  // namespace weft
