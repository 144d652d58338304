// GraphBuilder: graphs written by hand, for tests of passes and of what runs graphs; and running them.
// Needs compiler/trace and the runner. Ops are named as in the table; the specs of results come from the shape rules.
#pragma once

#include "compiler/runtime/graph_runner.h"
#include "compiler/trace/infer.h"
#include "compiler/trace/table_environment.h"

namespace weft::compiler::tests {

struct GraphBuilder {
  Graph graph;

  ValueId input(const SymList& sizes, DType dtype = DType::Float32, const char* name = "",
                std::optional<Sizes> strides = {}, Sym offset = {}) {
    return graph.add_input({sizes, dtype, kCPU, std::move(strides), offset}, name);
  }

  // The first result of the op.
  ValueId add(const char* op, std::initializer_list<Argument> operands, Attrs attrs = {},
              SourceLocation where = {}) {
    Node node;
    node.op = &OpTable::instance().get(op);
    node.operands.assign(operands);
    node.attrs = std::move(attrs);
    node.where = where;
    return add(std::move(node));
  }
  ValueId add(Node node) {
    const TableEnvironment environment(*graph.expressions);
    HollowValues hollow(graph);
    const std::optional<OutputSpecs> specs =
        infer_results(Call{*node.op, hollow.operands(node), node.attrs, node.where});
    WEFT_ASSERT(specs.has_value(), node.op->name(), " has no shape rule");
    return graph.add_node(std::move(node), *specs);
  }
  Graph& returns(std::initializer_list<ValueId> outputs) {
    graph.outputs.assign(outputs);
    return graph;
  }
};

inline Argument value(ValueId id) { return Argument::of(id); }
inline Argument number(Scalar n) { return Argument::of(n); }

// The outputs for these inputs, without tape.
inline std::vector<Tensor> run(const GraphRunner& runner, std::span<const Tensor> inputs,
                               RunValues values = {}) {
  std::vector<const Tensor*> given;
  for (const Tensor& input : inputs) given.push_back(&input);
  std::vector<Tensor> outputs(runner.graph().outputs.size());
  runner.run(given, values, outputs);
  return outputs;
}
inline std::vector<Tensor> run(const GraphRunner& runner, std::initializer_list<Tensor> inputs,
                               RunValues values = {}) {
  return run(runner, std::span(inputs.begin(), inputs.size()), values);
}
inline std::vector<Tensor> run(const Graph& graph, std::span<const Tensor> inputs, RunValues values = {}) {
  return run(GraphRunner(graph), inputs, values);
}

}  // namespace weft::compiler::tests
