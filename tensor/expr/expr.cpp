// Expr graphs: consing, facts, text.
// Place: the out-of-line half of tensor/expr/expr.h.
#include "tensor/expr/expr.h"

#include <bit>
#include <cmath>
#include <sstream>

namespace weft {
namespace {

struct PrimRow {
  const char* name;
  int arity;
  bool is_math;
};

constexpr PrimRow kPrims[] = {{"Input", 0, false},
                              {"Constant", 0, false},
#define WEFT_PRIM(name, arity) {#name, arity, false},
                              WEFT_FOR_EACH_ARITHMETIC_PRIM(WEFT_PRIM)
#undef WEFT_PRIM
#define WEFT_PRIM(name, function, arity) {#function, arity, true},
                                  WEFT_FOR_EACH_MATH_PRIM(WEFT_PRIM)
#undef WEFT_PRIM
};

const PrimRow& row(Prim prim) { return kPrims[static_cast<int>(prim)]; }

// A math function is a polynomial with its range reduction: bench micro/math puts most between 10 and 30 additions.
constexpr double kMathCost = 16;
constexpr double kDivisionCost = 4;

}  // namespace

const char* name_of(Prim prim) { return row(prim).name; }
int arity_of(Prim prim) { return row(prim).arity; }
bool is_math(Prim prim) { return row(prim).is_math; }

DType Expr::dtype() const { return graph->node(*this).dtype; }

size_t ExprGraph::Hash::operator()(const Node& node) const {
  uint64_t hash = static_cast<uint64_t>(node.prim) * 0x9E3779B97F4A7C15u + static_cast<uint64_t>(node.dtype);
  for (uint64_t part : {uint64_t{node.args[0]}, uint64_t{node.args[1]}, uint64_t{node.args[2]}, node.imm}) {
    hash = (hash ^ part) * 0xD6E8FEB86659FD93u;
    hash ^= hash >> 32;
  }
  return hash;
}

Expr ExprGraph::input(int slot, DType dtype) {
  return make(Prim::Input, dtype, {}, static_cast<uint64_t>(slot));
}

Expr ExprGraph::constant(double value, DType dtype) {
  switch (dtype) {
    case DType::Float32:
      return make(Prim::Constant, dtype, {}, std::bit_cast<uint32_t>(static_cast<float>(value)));
    case DType::Float64: return make(Prim::Constant, dtype, {}, std::bit_cast<uint64_t>(value));
    default: return integer(static_cast<int64_t>(value), dtype);
  }
}

Expr ExprGraph::integer(int64_t value, DType dtype) {
  switch (dtype) {
    case DType::Float32:
    case DType::Float64: return constant(static_cast<double>(value), dtype);
    case DType::Int32: return make(Prim::Constant, dtype, {}, static_cast<uint32_t>(value));
    case DType::Bool: return make(Prim::Constant, dtype, {}, value != 0);
    default: return make(Prim::Constant, dtype, {}, static_cast<uint64_t>(value));
  }
}

Expr ExprGraph::make(Prim prim, DType dtype, std::span<const Expr> args, uint64_t imm) {
  Node node{prim, dtype, {0, 0, 0}, imm};
  WEFT_ASSERT(static_cast<int>(args.size()) == arity_of(prim), name_of(prim));
  for (size_t i = 0; i < args.size(); ++i) {
    WEFT_ASSERT(args[i].graph == this, "operands of one expression come from different graphs");
    node.args[i] = args[i].id;
  }
  const auto [found, is_new] = ids_.emplace(node, static_cast<uint32_t>(nodes_.size()));
  if (is_new) nodes_.push_back(node);
  return {this, found->second};
}

Expr ExprGraph::lookup(LookupTable table, Expr index) {
  size_t i = 0;
  while (i < tables_.size() && !(tables_[i] == table)) ++i;
  if (i == tables_.size()) tables_.push_back(table);
  return make(Prim::Lookup, table.dtype, std::span(&index, 1), i);
}

uint64_t ExprGraph::inputs_of(Expr e) const {
  std::vector<bool> needed(nodes_.size());
  needed[e.id] = true;
  uint64_t inputs = 0;
  for (size_t id = e.id + 1; id-- > 0;) {
    if (!needed[id]) continue;
    const Node& node = nodes_[id];
    if (node.prim == Prim::Input) inputs |= uint64_t{1} << node.imm;
    for (int i = 0; i < arity_of(node.prim); ++i) needed[node.args[i]] = true;
  }
  return inputs;
}

double ExprGraph::cost_of(Expr e) const {
  std::vector<bool> needed(nodes_.size());
  needed[e.id] = true;
  double cost = 0;
  for (size_t id = e.id + 1; id-- > 0;) {
    if (!needed[id]) continue;
    const Node& node = nodes_[id];
    for (int i = 0; i < arity_of(node.prim); ++i) needed[node.args[i]] = true;
    if (node.prim == Prim::Input || node.prim == Prim::Constant) continue;
    const bool slow = node.prim == Prim::Div || node.prim == Prim::Sqrt || node.prim == Prim::FloorDiv ||
                      node.prim == Prim::FloorMod || node.prim == Prim::TruncDiv ||
                      node.prim == Prim::TruncMod;
    cost += is_math(node.prim) ? kMathCost : slow ? kDivisionCost : 1;
  }
  return cost;
}

std::string to_string(const ExprGraph& graph, Expr result) {
  std::ostringstream out;
  for (size_t id = 0; id <= result.id; ++id) {
    const ExprGraph::Node& node = graph.nodes()[id];
    out << '%' << id << ": " << short_name_of(node.dtype) << " = " << name_of(node.prim);
    if (node.prim == Prim::Input) out << ' ' << node.imm;
    if (node.prim == Prim::Constant) {
      if (node.dtype == DType::Float32) out << ' ' << std::bit_cast<float>(static_cast<uint32_t>(node.imm));
      else if (node.dtype == DType::Float64) out << ' ' << std::bit_cast<double>(node.imm);
      else out << ' ' << static_cast<int64_t>(node.imm);
    }
    for (int i = 0; i < arity_of(node.prim); ++i) out << " %" << node.args[i];
    out << '\n';
  }
  out << "return %" << result.id << '\n';
  return std::move(out).str();
}

namespace {

// A number as a constant of the graph; values pass.
Expr in_graph(ExprGraph& graph, const Expr& x, DType dtype) {
  if (!x.is_number()) return x;
  return x.is_floating ? graph.constant(x.floating, dtype) : graph.integer(x.integer, dtype);
}

}  // namespace

namespace detail {

Expr expr_call(Prim prim, std::initializer_list<Expr> args, bool is_comparison) {
  ExprGraph* graph = nullptr;
  DType dtype = DType::Float32;
  for (const Expr& arg : args) {
    if (arg.is_number()) continue;
    WEFT_ASSERT(graph == nullptr || dtype == arg.dtype(), name_of(prim), " of ", dtype, " and ", arg.dtype());
    graph = arg.graph;
    dtype = arg.dtype();
  }
  WEFT_ASSERT(graph != nullptr, name_of(prim), " of numbers alone");
  Expr values[3];
  size_t count = 0;
  for (const Expr& arg : args) values[count++] = in_graph(*graph, arg, dtype);
  return graph->make(prim, is_comparison ? DType::Bool : dtype, std::span<const Expr>(values, count));
}

}  // namespace detail

namespace {

// What a condition compared: the dtype of a choice between two numbers, which say nothing themselves.
DType compared_dtype(const ExprGraph& graph, Expr condition) {
  while (true) {
    const ExprGraph::Node& node = graph.node(condition);
    if (node.dtype != DType::Bool) return node.dtype;
    if (arity_of(node.prim) == 0) return graph.number_dtype();
    condition.id = node.args[0];
  }
}

}  // namespace

Expr where(const Expr& condition, const Expr& a, const Expr& b) {
  WEFT_ASSERT(!condition.is_number() && condition.dtype() == DType::Bool, "where without a condition");
  ExprGraph& graph = *condition.graph;
  const DType dtype = !a.is_number()   ? a.dtype()
                      : !b.is_number() ? b.dtype()
                                       : compared_dtype(graph, condition);
  const Expr args[] = {condition, in_graph(graph, a, dtype), in_graph(graph, b, dtype)};
  WEFT_ASSERT(args[1].dtype() == args[2].dtype(), "where of ", args[1].dtype(), " and ", args[2].dtype());
  return graph.make(Prim::Where, dtype, args);
}

Expr constant_like(const Expr& x, double value) { return in_graph(*x.graph, Expr(value), x.dtype()); }

namespace {
Expr convert(Prim prim, const Expr& x, DType dtype) { return x.graph->make(prim, dtype, std::span(&x, 1)); }
}  // namespace

Expr cast(const Expr& x, DType dtype) { return x.dtype() == dtype ? x : convert(Prim::Cast, x, dtype); }
Expr bitcast(const Expr& x, DType dtype) {
  WEFT_ASSERT(size_of(x.dtype()) == size_of(dtype), "bitcast between widths");
  return x.dtype() == dtype ? x : convert(Prim::Bitcast, x, dtype);
}
Expr as_int(const Expr& x) { return bitcast(x, x.dtype() == DType::Float64 ? DType::Int64 : DType::Int32); }
Expr as_float(const Expr& x) {
  return bitcast(x, x.dtype() == DType::Int64 ? DType::Float64 : DType::Float32);
}
Expr to_int(const Expr& x) {
  return convert(Prim::ToInt, x, x.dtype() == DType::Float64 ? DType::Int64 : DType::Int32);
}
Expr to_float(const Expr& x) {
  return convert(Prim::ToFloat, x, x.dtype() == DType::Int64 ? DType::Float64 : DType::Float32);
}

}  // namespace weft
