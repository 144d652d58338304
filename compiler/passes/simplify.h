// simplify: replaces nodes by simpler ones that give the same bits, by the rules listed in simplify.cpp.
// Before: any graph that will not be differentiated any more.
// After:  outputs, their strides and what they share are as before; -0, NaN and infinities come out as before. No rule
//         applies any more, seen from operands to results. What no node needs any more is left for dce.
// Here:   after decompose, which makes most of what is simplified; before cse, so that equivalent nodes have become equal.
#pragma once

#include "compiler/trace/graph.h"

namespace weft::compiler {

Graph simplify(const Graph& graph);

}  // namespace weft::compiler
