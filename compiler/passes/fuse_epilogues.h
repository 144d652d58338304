// fuse_epilogues: lets the library finish a matrix product while it writes it: bias, addend and activation.
// Before: a lowered graph, after simplify and cse, so that there is one way to write each of them.
// After:  products on a GPU whose results were only biased, added to or activated are mm_epilogue. Values on a GPU may differ
//         from eager code by roundings that are left out; a graph without values on a GPU is as it was.
// Here:   after the cut, which differentiated nothing that has no gradient; before the schedule, which cannot fuse what a
//         library computes.
#pragma once

#include "compiler/trace/graph.h"

namespace weft::compiler {

Graph fuse_epilogues(const Graph& graph);

}  // namespace weft::compiler
