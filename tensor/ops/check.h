// WEFT_CHECK_AT: a check in a composite function, whose error names the line of the user's call.
// Needs dispatch. Ops that go through call() get their place there and use WEFT_CHECK.
#pragma once

#include "tensor/dispatch.h"

namespace weft::detail {

[[noreturn]] inline void throw_error_at(SourceLocation where, Parts parts) {
  Error error(joined(parts));
  error.add_place(where);  // that of the outermost composite is there already
  throw error;
}

}  // namespace weft::detail

#define WEFT_CHECK_AT(where, condition, ...)                \
  do {                                                      \
    if (!(condition)) [[unlikely]]                          \
      ::weft::detail::throw_error_at(where, {__VA_ARGS__}); \
  } while (false)
