// The patterns of products and what may be done with their results.
// Place: compiler/passes/fuse_epilogues.h says where it stands.
#include "compiler/passes/fuse_epilogues.h"

#include <algorithm>

#include "compiler/passes/pattern.h"
#include "compiler/passes/rewrite.h"
#include "compiler/trace/table_environment.h"
#include "tensor/functions.h"
#include "tensor/ops/product_epilogue.h"

namespace weft::compiler {
namespace {

// What cuBLASLt has epilogues for.
bool can_finish(const Tensor& a) {
  return a.device().is_cuda() && is_floating(a.dtype()) && a.dtype() != DType::Float64;
}

// On an H200 the GELU of float32 makes 4096x4096 results 40 us slower, bfloat16's 5 us; a loop over them takes 30 us. A launch
// that is saved counts more where there are few elements.
bool is_worth_activating(const Tensor& a, const Tensor& b, Activation activation) {
  constexpr int64_t kMostElements = int64_t{1} << 20;
  return activation != Activation::GeluTanh || a.dtype() != DType::Float32 ||
         hint_of(a.size(0)) * hint_of(b.size(1)) <= kMostElements;
}

// A row that is added to all rows of the product, or a matrix of its sizes.
bool is_row(const Tensor& x, const Tensor& b) { return x.dim() == 1 && x.size(0) == b.size(1); }
bool is_matrix(const Tensor& x, const Tensor& a, const Tensor& b) {
  return x.dim() == 2 && x.size(0) == a.size(0) && x.size(1) == b.size(1);
}

Tensor finished(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& addend,
                Activation activation) {
  const auto fits = [&](const Tensor& x) { return !x.defined() || x.dtype() == a.dtype(); };
  if (!can_finish(a) || !fits(bias) || !fits(addend) || !is_worth_activating(a, b, activation)) return {};
  return mm_epilogue(a, b, bias, addend, activation);
}

// x is either.
Tensor finished(const Tensor& a, const Tensor& b, const Tensor& x, Activation activation) {
  if (is_row(x, b)) return finished(a, b, x, {}, activation);
  if (is_matrix(x, a, b)) return finished(a, b, {}, x, activation);
  return {};
}

Tensor finished_both(const Tensor& a, const Tensor& b, const Tensor& x, const Tensor& r,
                     Activation activation) {
  if (is_row(x, b) && is_matrix(r, a, b)) return finished(a, b, x, r, activation);
  return {};
}

template <class F>
void add_rules(std::vector<CompiledRule>& rules, Activation activation, F f) {
  using T = Tensor;
  using Examples = std::vector<std::vector<int64_t>>;
  const auto rule = [&](const char* name, const Examples& examples, auto pattern, auto replacement) {
    rules.emplace_back(pattern_rule(name, examples, std::move(pattern), std::move(replacement)));
  };
  using weft::add;
  const auto with_both = [=](const T& x, const T& a, const T& b, const T& r) {
    return finished_both(a, b, x, r, activation);
  };
  const auto with_one = [=](const T& x, const T& a, const T& b) { return finished(a, b, x, activation); };
  const auto with_none = [=](const T& a, const T& b) { return finished(a, b, {}, {}, activation); };
  const Examples x_a_b_r = {{5}, {3, 4}, {4, 5}, {3, 5}}, x_a_b = {{5}, {3, 4}, {4, 5}},
                 a_b = {{3, 4}, {4, 5}};
  rule(
      "addmm + r", x_a_b_r,
      [f](const T& x, const T& a, const T& b, const T& r) { return f(add(addmm(x, a, b), r)); }, with_both);
  rule(
      "r + addmm", x_a_b_r,
      [f](const T& x, const T& a, const T& b, const T& r) { return f(add(r, addmm(x, a, b))); }, with_both);
  rule(
      "mm + x", x_a_b, [f](const T& x, const T& a, const T& b) { return f(add(mm(a, b), x)); }, with_one);
  rule(
      "x + mm", x_a_b, [f](const T& x, const T& a, const T& b) { return f(add(x, mm(a, b))); }, with_one);
  // addmm has its bias, and mm nothing to finish.
  if (activation == Activation::None) return;
  rule(
      "addmm", x_a_b, [f](const T& x, const T& a, const T& b) { return f(addmm(x, a, b)); }, with_one);
  rule(
      "mm", a_b, [f](const T& a, const T& b) { return f(mm(a, b)); }, with_none);
}

// Larger patterns first.
const std::vector<CompiledRule>& rules() {
  static const std::vector<CompiledRule>& all = *[] {
    auto* made = new std::vector<CompiledRule>;
    add_rules(*made, Activation::Relu, [](const Tensor& x) { return relu(x); });
    add_rules(*made, Activation::GeluTanh, [](const Tensor& x) { return gelu(x, "tanh"); });
    add_rules(*made, Activation::None, [](const Tensor& x) { return x; });
    return made;
  }();
  return all;
}

// ---- Views ------------------------------------------------------------------------------------------------------------

// f(view(product)) becomes view(f(product)), so that f stands next to the product: linear() of more than two dimensions
// multiplies matrices and gives its result back their dimensions.
class ViewsLater {
 public:
  explicit ViewsLater(const Graph& graph) : graph_(graph), users_(users_of(graph)) {}

  Graph run() {
    std::vector<bool> is_late(graph_.nodes.size());  // views
    Rewriter rewriter(graph_);
    rewriter.copy_inputs();
    const std::vector<NodeId> views = views_before();
    for (const NodeId view : views)
      if (view != kNoNode) is_late[view] = true;
    for (NodeId n = 0; n < graph_.nodes.size(); ++n) {
      if (is_late[n]) continue;
      if (views[n] == kNoNode) {
        rewriter.copy(n);
        continue;
      }
      Node function = graph_.nodes[n], view = graph_.nodes[views[n]];
      const ValueId product = rewriter[view.operands[0].value];
      for (Argument& argument : function.operands)
        if (argument.is_value()) argument.value = product;
      const OutputSpec result = graph_[function.first_output].spec();
      OutputSpec inner = rewriter.to()[product].spec();
      inner.dtype = result.dtype;
      const ValueId computed = rewriter.to().add_node(std::move(function), {&inner, 1});
      view.operands[0].value = computed;
      rewriter.set(graph_.nodes[n].first_output, rewriter.to().add_node(std::move(view), {&result, 1}));
    }
    return rewriter.finish();
  }

 private:
  // By node: the view of a product that it is a function of, if it may change places with it.
  std::vector<NodeId> views_before() const {
    std::vector<NodeId> views(graph_.nodes.size(), kNoNode);
    for (NodeId n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      if (node.op->kind != Kind::Pointwise || node.num_outputs != 1) continue;
      const std::vector<ValueId> reads = values_read_by(graph_, node);
      if (reads.size() != 1 || !is_only_operand(node, reads[0])) continue;
      const NodeId view = graph_[reads[0]].node;
      if (view == kNoNode || graph_.nodes[view].op->kind != Kind::View) continue;
      const ValueId product = graph_.nodes[view].operands[0].value;
      const NodeId maker = graph_[product].node;
      if (maker == kNoNode || graph_.nodes[maker].op->kind != Kind::Extern) continue;
      if (users_[reads[0]] == std::vector<NodeId>{n} && users_[product] == std::vector<NodeId>{view} &&
          values_read_by(graph_, graph_.nodes[view]).size() == 1 && is_plain(product) && is_plain(reads[0]) &&
          is_plain(node.first_output) && graph_[product].dtype == graph_[reads[0]].dtype)
        views[n] = view;
    }
    return views;
  }
  static bool is_only_operand(const Node& node, ValueId value) {
    return std::count_if(node.operands.begin(), node.operands.end(), [&](const Argument& argument) {
             return argument.is_value() && argument.value == value;
           }) == 1;
  }
  // Row-major, so that a place in memory is the same element before and after the view.
  bool is_plain(ValueId value) const {
    const Value& v = graph_[value];
    const Sizes strides = contiguous_strides<Sym>(v.sizes);
    return std::equal(strides.begin(), strides.end(), v.strides.begin(), v.strides.end(),
                      [&](Sym a, Sym b) { return is_equal(graph_.expressions->syms, a, b); });
  }

  const Graph& graph_;
  std::vector<std::vector<NodeId>> users_;
};

}  // namespace

Graph fuse_epilogues(const Graph& graph) {
  const bool on_gpu = std::any_of(graph.values.begin(), graph.values.end(),
                                  [](const Value& value) { return value.device.is_cuda(); });
  if (!on_gpu) return graph;
  const TableEnvironment environment(*graph.expressions);
  return replace_patterns(ViewsLater(graph).run(), rules());
}

}  // namespace weft::compiler
