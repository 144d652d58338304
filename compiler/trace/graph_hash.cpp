// Equality and hashes of graphs, also of graphs over different tables.
// Place: the comparing half of compiler/trace/graph.h.
#include <cstring>

#include <xxhash.h>

#include "compiler/trace/graph.h"

namespace weft::compiler {
namespace {

// A text that two graphs share exactly if they compute the same in the same order. Values are named by where they come
// from, numbers by their bits, symbols by their numbers; for an expression of symbols stands its hash.
class CanonicalForm {
 public:
  explicit CanonicalForm(const Graph& graph) : graph_(graph) {}

  std::string write() {
    for (ValueId id : graph_.inputs) {
      text_ += 'i';
      write_type(graph_[id]);
    }
    for (const Node& node : graph_.nodes) {
      text_ += '\n';
      text_ += node.op->name();
      if (node.checkpoint != 0) text_ += '@' + std::to_string(node.checkpoint);
      text_ += node.grad_mode ? "(" : "~(";
      for (const Argument& argument : node.operands) write_argument(argument);
      text_ += ';';
      for (const Attr& attr : node.attrs) write_attr(attr);
      text_ += ')';
      for (uint32_t k = 0; k < node.num_outputs; ++k) write_type(graph_[node.first_output + k]);
    }
    text_ += '\n';
    for (ValueId id : graph_.outputs) write_value(id);
    for (const auto& [output, input] : graph_.overwrites)
      text_ += '>' + std::to_string(output) + '>' + std::to_string(input);
    return std::move(text_);
  }

 private:
  // ---- Parts
  void write_sym(Sym a) {
    a = graph_.expressions->syms.current(a);
    if (a.is_symbolic()) text_ += 's' + std::to_string(graph_.expressions->syms.hash(a));
    else text_ += std::to_string(a.concrete());
    text_ += ',';
  }
  void write_sizes(const Sizes& sizes) {
    text_ += '[';
    for (Sym size : sizes) write_sym(size);
    text_ += ']';
  }
  void write_type(const Value& value) {
    text_ += ':';
    text_ += short_name_of(value.dtype);
    if (value.device.is_cuda()) text_ += "cuda" + std::to_string(value.device.index);
    write_sizes(value.sizes);
    write_sizes(value.strides);
    write_sym(value.offset);
  }
  void write_value(ValueId id) {
    const Value& value = graph_[id];
    if (value.node == kNoNode) text_ += 'i';
    else text_ += 'n' + std::to_string(value.node) + '.';
    text_ += std::to_string(value.index) + ',';
  }
  void write_double(double value) {
    uint64_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    text_ += 'd' + std::to_string(bits);
  }
  void write_number(const Scalar& number) {
    text_ += "bif"[static_cast<int>(number.category())];
    if (number.is_traced()) write_expression(number.trace_id());
    else if (number.is_floating()) write_double(number.to_double());
    else if (number.is_symbolic()) write_sym(number.sym());
    else text_ += std::to_string(number.to_int());
    text_ += ',';
  }
  // Prefix notation, so that no recursion is needed.
  void write_expression(ScalarId root) {
    std::vector<ScalarId> open = {root};
    while (!open.empty()) {
      const ScalarExpr& expr = graph_.expressions->scalars[open.back()];
      open.pop_back();
      switch (expr.kind) {
        case ScalarExpr::Kind::Constant: write_number(expr.constant); break;
        case ScalarExpr::Kind::Input: text_ += "in" + std::to_string(expr.index) + ','; break;
        case ScalarExpr::Kind::Item:
          text_ += "item ";
          write_value(graph_.items[expr.index]);
          break;
        case ScalarExpr::Kind::Binary:
          text_ += "+-*/^"[static_cast<int>(expr.op)];
          open.push_back(expr.b);
          open.push_back(expr.a);
          break;
      }
    }
  }
  void write_argument(const Argument& argument) {
    switch (argument.kind) {
      case Argument::Kind::None: text_ += "_,"; break;
      case Argument::Kind::Value: write_value(argument.value); break;
      case Argument::Kind::Number: write_number(argument.number); break;
    }
  }
  void write_attr(const Attr& attr) {
    if (attr.is<Sym>()) write_sym(attr.as_int());
    else if (attr.is<Scalar>()) write_number(attr.as<Scalar>());
    else if (attr.is<double>()) write_double(attr.as<double>());
    else if (attr.is<SymList>()) write_sizes(attr.as_sizes());
    else if (attr.is<std::string>())
      text_ += std::to_string(attr.as_string().size()) + '"' + attr.as_string();
    else if (attr.is<RoutinePtr>()) text_ += attr.as_routine().identity();
    else if (attr.is<bool>()) text_ += attr.as<bool>() ? 'T' : 'F';
    else if (attr.is<std::monostate>()) text_ += '_';
    else text_ += weft::detail::concat(attr);
    text_ += '|';
  }

  const Graph& graph_;
  std::string text_;
};

}  // namespace

std::string identity_of(const Graph& graph) { return CanonicalForm(graph).write(); }

uint64_t hash_of(const Graph& graph) {
  const std::string text = identity_of(graph);
  return XXH3_64bits(text.data(), text.size());
}

bool is_same(const Graph& a, const Graph& b) {
  if (a.inputs.size() != b.inputs.size() || a.nodes.size() != b.nodes.size() ||
      a.outputs.size() != b.outputs.size())
    return false;
  return CanonicalForm(a).write() == CanonicalForm(b).write();
}

}  // namespace weft::compiler
