// Whether two traces went the same way: for audits, and for entries whose state epoch is behind.
// Needs trace_tree. The call path compares with it what was traced anew.
#pragma once

#include "compiler/runtime/trace_tree.h"

namespace weft::compiler {

// Both read the same, compute the same (equal segments share their plan) and end in the same way.
bool is_same_node(const SegmentNode& a, const SegmentNode& b);

}  // namespace weft::compiler
