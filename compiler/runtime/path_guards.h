// What a trace relied on, as guards: of the arguments at its entry, and of data-dependent results on the way.
// Needs trace_run and trace/guards. The call path checks them when it chooses a branch.
#pragma once

#include "compiler/runtime/trace_run.h"

namespace weft::compiler {

// Everything that the path takes for granted of the arguments and of global state.
GuardFacts argument_facts(const TracedPath& path, const ArgumentLeaves& leaves, const Callee& callee);

// What the code after a data-dependent op relies on of the sizes of its results; nothing where the segment takes none.
std::optional<SymGuardProgram> size_guards(const Tracer& tracer, const SegmentNode& node);

}  // namespace weft::compiler
