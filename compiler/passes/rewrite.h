// What passes share: building a graph out of another one, comparing nodes, and knowing what may share memory.
// Needs graph.
#pragma once

#include "compiler/trace/graph.h"

namespace weft::compiler {

// Builds a new graph node by node and keeps which of its values stand for which of the old.
class Rewriter {
 public:
  explicit Rewriter(const Graph& from);

  const Graph& from() const { return from_; }
  Graph& to() { return to_; }
  const Graph& to() const { return to_; }

  // Adds the old input to the new graph.
  void copy_input(ValueId input);
  void copy_inputs();
  // Appends the old node, reading what stands for its operands.
  NodeId copy(NodeId node);
  // The old node over the values of the new graph.
  Node translated(const Node& node) const;
  // `now` stands for `old` from here on.
  void set(ValueId old, ValueId now) { now_[old] = now; }
  bool has(ValueId old) const { return now_[old] != kNoValue; }
  // Defect if nothing stands for it yet.
  ValueId operator[](ValueId old) const;

  // Names the outputs and the items, and gives the graph away.
  Graph finish(std::span<const ValueId> old_outputs);
  // Those of the old graph, which may overwrite the same inputs.
  Graph finish();

 private:
  const Graph& from_;
  Graph to_;
  std::vector<ValueId> now_;
};

// Of op, operands and attributes: equal for nodes that compute the same from the same values of one graph.
uint64_t hash_of(const Node& node);
bool is_same(const Node& a, const Node& b);
bool is_same(const Argument& a, const Argument& b);
bool is_same(const Attr& a, const Attr& b);
bool is_same(const Scalar& a, const Scalar& b);

// Equal in all that a reader can see: sizes, strides, offset, dtype, device; for every size that symbols may take.
bool has_same_spec(const SymTable& syms, const Value& a, const Value& b);
bool has_same_layout(const SymTable& syms, const Value& a, const Value& b);
bool is_equal(const SymTable& syms, Sym a, Sym b);

// Note [What the caller sees of memory]
// Outputs that share memory in eager code are views of one another or of an input, and only those: whoever writes to one
// sees it in the others. A graph does not write, so inside it any two values may share memory. Where a pass lets one value
// stand for two, the outputs that share memory and the outputs that are one tensor must stay the same.
class Memory {
 public:
  explicit Memory(const Rewriter& rewriter);

  // The new value has the place that the old one had: for each value that is copied, inputs too.
  void add(ValueId old, ValueId now);
  // The new value, which is there already, may stand for the old one too; `stands_for` says that it does.
  bool may_stand_for(ValueId now, ValueId old) const;
  void stands_for(ValueId now, ValueId old);
  // Some output shares memory with the old value.
  bool escapes(ValueId old) const { return escapes_[root_[old]]; }

 private:
  struct New {
    ValueId root = kNoValue;    // whose memory it shares
    bool is_visible = false;    // an output, or the caller's input
    bool root_escapes = false;  // of a root: an output or an input shares its memory
  };
  New& of(ValueId now);

  const Graph& from_;
  const Graph& to_;
  std::vector<ValueId> root_;  // by old value
  std::vector<bool> is_output_, escapes_;
  std::vector<New> new_;
  std::vector<ValueId> new_root_;  // by old root
};

}  // namespace weft::compiler
