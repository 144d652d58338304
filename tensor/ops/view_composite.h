// The functions that are made of views: reshape, flatten, narrow, split and their like.
// Needs op; view.cpp calls it.
#pragma once

#include "tensor/op.h"

namespace weft {

void register_view_composites(OpTable& table);

}  // namespace weft
