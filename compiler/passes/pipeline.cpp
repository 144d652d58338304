// The list of passes.
// Place: the out-of-line half of compiler/passes/pipeline.h.
#include "compiler/passes/pipeline.h"

namespace weft::compiler {

Graph prepare(const Graph& graph, bool) { return graph; }

}  // namespace weft::compiler
