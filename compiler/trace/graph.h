// Graph: a straight-line functional program of table ops over values with symbolic sizes. The first of the four IRs.
// Needs scalar_table and tensor/op. Traces make it; passes rewrite it into new graphs; backends run it.
#pragma once

#include <functional>
#include <iosfwd>

#include "compiler/trace/scalar_table.h"
#include "tensor/dispatch.h"

namespace weft::compiler {

using ValueId = uint32_t;
inline constexpr ValueId kNoValue = ~ValueId{0};
using NodeId = uint32_t;
inline constexpr NodeId kNoNode = ~NodeId{0};

// What stands in one operand slot of a node.
struct Argument {
  enum class Kind : uint8_t { None, Value, Number };
  Kind kind = Kind::None;
  ValueId value = kNoValue;
  Scalar number;  // may be traced or symbolic

  static Argument of(ValueId value) { return {Kind::Value, value, {}}; }
  static Argument of(const Scalar& number) { return {Kind::Number, kNoValue, number}; }
  bool is_value() const { return kind == Kind::Value; }
};

// A tensor of the program: an input, or one result of a node.
struct Value {
  Sizes sizes;
  Sizes strides;
  Sym offset = {};  // of an input that is a view
  DType dtype = DType::Float32;
  Device device = kCPU;
  NodeId node = kNoNode;  // kNoNode: an input
  uint32_t index = 0;     // which result of the node, or which input

  OutputSpec spec() const { return {sizes, dtype, device, strides, offset}; }
};

// One op applied. Functional: no node writes to what it reads; a view's result may share memory with its operand.
struct Node {
  const Op* op = nullptr;
  SmallVector<Argument, 4> operands;  // by operand slot of the op
  Attrs attrs;                        // sizes and numbers may be expressions of the graph's tables
  ValueId first_output = kNoValue;    // the results are numbered consecutively
  uint32_t num_outputs = 1;
  SourceLocation where;           // the user's line
  const Op* composite = nullptr;  // the outermost composite or decomposed op that made it
  bool grad_mode = true;          // recorded while gradients were on
  uint32_t checkpoint = 0;        // the checkpoint() around it, which backward computes again; 0: none
};

// What a call leaves in one of its inputs: the value of this output. Says that the two may share memory; who runs the graph
// need not make use of it.
struct Overwrite {
  uint32_t output = 0, input = 0;  // positions in Graph::outputs and Graph::inputs
};

struct Graph {
  std::string name = "graph";                // "forward", "backward", …
  std::shared_ptr<Expressions> expressions;  // shared by all graphs of a path
  std::vector<Value> values;
  std::vector<Node> nodes;               // in an order in which every operand is there
  std::vector<ValueId> inputs;           // values without node, in the order in which a call brings them
  std::vector<ValueId> outputs;          // may repeat, and may be inputs
  std::vector<std::string> input_names;  // "x", "net.fc1.weight", "tangent0"; may be shorter than inputs
  // By ScalarExpr::Item's index: the tensor of one element that is read. The index is the same in all graphs of a path;
  // the value differs, and is kNoValue in a graph that does not have it. A pass that renumbers values maps these too. A
  // node whose numbers name an item depends on its value.
  std::vector<ValueId> items;
  std::vector<Overwrite> overwrites;  // each input and each output at most once

  Graph() : expressions(std::make_shared<Expressions>()) {}
  explicit Graph(std::shared_ptr<Expressions> tables) : expressions(std::move(tables)) {}

  ValueId add_input(const OutputSpec& spec, std::string input_name = {});
  // Appends a node whose results have these specs; returns the first result.
  ValueId add_node(Node node, std::span<const OutputSpec> results);
  const Value& operator[](ValueId id) const { return values[id]; }
};

// The listing: one line for each input, node and output, with sizes, dtypes and the user's lines.
std::string to_string(const Graph& graph);
std::ostream& operator<<(std::ostream& out, const Graph& graph);

// InternalError with the listing unless: operands precede their node, slots and attributes fit the op's schema, no
// mutation or composite is left, specs are what the op infers, outputs exist, and ids are consistent.
void verify(const Graph& graph);

// Equal for graphs that compute the same in the same order: ops, attributes, numbers, operands, specs, inputs and outputs
// (expressions by structure); names and lines do not count. Of graphs over different tables too.
uint64_t hash_of(const Graph& graph);
// A text that two graphs share exactly if they are the same.
std::string identity_of(const Graph& graph);
bool is_same(const Graph& a, const Graph& b);

// The values that a node needs: its operands, and those whose item() stands in its numbers; each once, operands first.
std::vector<ValueId> values_read_by(const Graph& graph, const Node& node);

// For each value, the nodes that need it, in order; and kNoNode after them if it is an output.
std::vector<std::vector<NodeId>> users_of(const Graph& graph);

// Calls f(scalar) for each number among a node's operands and attributes.
template <class F>
void for_each_number(const Node& node, const F& f) {
  for (const Argument& argument : node.operands)
    if (argument.kind == Argument::Kind::Number) f(argument.number);
  for (const Attr& attr : node.attrs)
    if (attr.is<Scalar>()) f(attr.as<Scalar>());
}

}  // namespace weft::compiler
