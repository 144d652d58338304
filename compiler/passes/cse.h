// cse: computes once what a graph computes twice: equal op, operands (in either order where that is all the same), numbers
// and attributes. Random ops are functions of their seed and counter, which are numbers of theirs, so that two draws differ.
// Before: any graph that will not be differentiated any more: grad mode does not count.
// After:  no two nodes are equal, but where the caller would see it (Note [What the caller sees of memory]) and for ops
//         with an effect of their own. What no node needs any more is left for dce.
// Here:   after simplify, which makes equal what was only equivalent; before partition, so that a value which forward and
//         backward both compute is saved or recomputed, not both.
#pragma once

#include "compiler/trace/graph.h"

namespace weft::compiler {

Graph cse(const Graph& graph);

}  // namespace weft::compiler
