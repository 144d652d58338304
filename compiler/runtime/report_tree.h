// How an Explanation is filled in: graphs, breaks and guards of a trace tree, and the events of a function.
// Needs trace_tree and report. CompiledFunction::explanation() calls it.
#pragma once

#include "compiler/runtime/report.h"
#include "compiler/runtime/trace_tree.h"

namespace weft::compiler {

// "item of a number that code compares", with the place of the question.
Explanation::Break explain_break(const Break& stop);
// What was made of one graph.
Explanation::Graph explain_graph(const Plan& plan, std::string name);
// The program that a call enters by this branch; of a break with several outcomes, all that follows.
Explanation::Entry explain_entry(const Branch& branch);
// Recompilations go to their list, breaks are told by entries, and what else happened becomes a note.
void add_events(Explanation& explanation, const std::vector<Event>& events);

}  // namespace weft::compiler
