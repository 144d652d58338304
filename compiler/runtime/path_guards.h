// What a trace relied on, as guards: of the arguments at its entry, and of data-dependent results on the way.
// Needs trace_run and trace/guards. The call path checks them when it chooses a branch.
#pragma once

#include "compiler/runtime/trace_run.h"

namespace weft::compiler {

// Everything that the path takes for granted of the arguments and of global state.
GuardFacts argument_facts(const TracedPath& path, const ArgumentLeaves& leaves, const Callee& callee);

// These very sizes, strides, numbers and shared memory: of a call that could not be captured.
GuardFacts exact_facts(const ArgumentLeaves& leaves, const Callee& callee);

// What the path relies on of the sizes of data-dependent results that are there when the segment begins, beyond what was
// checked for the segment before it; nothing if there are none. `is_first`: none was, this one begins what was traced.
std::optional<SymGuardProgram> size_guards(const Tracer& tracer, const SegmentNode& node, bool is_first);

}  // namespace weft::compiler
