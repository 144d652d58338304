// The passes that a graph goes through before a backend gets it: one visible list.
// Needs the passes. Plans run it once for each graph.
#pragma once

#include "compiler/trace/graph.h"

namespace weft::compiler {

// `decomposes`: the backend wants ops taken apart.
Graph prepare(const Graph& graph, bool decomposes);

}  // namespace weft::compiler
