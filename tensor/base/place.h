// The place that errors of this thread name, set by PlaceScopes.
// Needs error.h; for who runs things aside, within a scope that they are no part of.
#pragma once

#include "tensor/base/error.h"

namespace weft::detail {

// Null outside of every scope.
const SourceLocation*& place_of_errors();

}  // namespace weft::detail
