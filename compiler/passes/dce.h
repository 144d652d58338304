// dce: drops the nodes whose results nobody needs.
// Before: any graph.
// After:  every node has a result that is an output or is read by a node that stays, or its op has an effect of its own
//         (Op::has_effect). Inputs stay, so that a call brings the same tensors. Items whose value went are kNoValue.
// Here:   first, since much of a trace is computed for nothing; and after every pass that only redirects readers.
#pragma once

#include "compiler/trace/graph.h"

namespace weft::compiler {

Graph dce(const Graph& graph);

}  // namespace weft::compiler
