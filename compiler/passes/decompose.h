// decompose: replaces nodes by what their ops are made of, as the table says (Op::decompose), down to primitives.
// Before: any graph.
// After:  no node of an op in the set is left, but primitives (an op that occurs in its own decomposition), nodes whose
//         decomposition would have to assume something about symbolic sizes that no guard says, and results with strides
//         that no copy has (those of dimensions of size 1 may be anything). Values keep their specs and their bits: half
//         types compute in float and round once at the end, as the kernel does. The new nodes bear the op as their
//         composite tag, its line and its grad mode.
// Here:   before simplify and cse, which find the common parts; after the dce of the trace, since it multiplies nodes.
#pragma once

#include <functional>
#include <unordered_set>

#include "compiler/trace/graph.h"

namespace weft::compiler {

// Gives the result of the call by calling other ops; sees tensors without data.
using Decomposition = std::function<Tensor(const Call&)>;

// Adds a decomposition for an op, or replaces the one of the table, in all later passes. Error for an op that does not
// exist or has several results.
void register_decomposition(std::string_view op, Decomposition decomposition);
// Back to what the table says.
void unregister_decomposition(std::string_view op);
// The registered one or the table's; empty if there is none.
Decomposition decomposition_of(const Op& op);

// Which ops are taken apart.
class DecompositionSet {
 public:
  // All that have a decomposition and are not Kind::Extern.
  DecompositionSet() = default;
  static DecompositionSet none();

  DecompositionSet& add(Kind kind);
  DecompositionSet& remove(Kind kind);
  // One op, whatever its kind. Error if it does not exist.
  DecompositionSet& add(std::string_view op);
  DecompositionSet& remove(std::string_view op);
  bool contains(const Op& op) const;

 private:
  uint32_t kinds_ = ~(1u << static_cast<uint32_t>(Kind::Extern));
  std::unordered_set<const Op*> added_, removed_;
};

Graph decompose(const Graph& graph, const DecompositionSet& set = {});

}  // namespace weft::compiler
