// Pointwise ops: the entries of the table with their gradients and decompositions.
// Place: the plain half of pointwise_ops.h; kernels come from pointwise.isa.cpp.
#include <limits>

#include "tensor/ops/pointwise_kernels.h"
#include "tensor/ops/pointwise_rule.h"
#include "tensor/ops/register.h"

namespace weft {
namespace {

// The operands of a body on terms as its kernel sees them: in the dtype that it computes in.
SmallVector<Term, 4> widened(const Call& call, DType compute) {
  SmallVector<Term, 4> args;
  for (const Operand& operand : call.operands) {
    if (operand.is_tensor()) args.push_back(Term(operand.tensor->to(compute, false, false, call.where)));
    else if (operand.scalar.is_floating() && !is_floating(compute)) args.push_back(operand.scalar.to_int());
    else if (operand.scalar.is_bool() && compute != DType::Bool) args.push_back(operand.scalar.to_int());
    else args.push_back(operand.scalar);
  }
  return args;
}

// The body of the op on terms. It rounds to the op's dtype once, at its end, as the kernel does.
Tensor decompose_pointwise(const Call& call) {
  const PointwiseTypes types = pointwise_types(call.op, call.operands);
  const DType compute = compute_dtype(types.common);
  const TermScope scope(compute);
  const SmallVector<Term, 4> args = widened(call, compute);
  const Tensor result =
      call.op.pointwise->term({args.data(), args.size()}).tensor().to(types.result, false, false, call.where);
  // All operands take part in the sizes, also those that the body does not read.
  const OutputSpec spec = infer_pointwise(call)[0];
  return result.sizes() == SizesView(spec.sizes) ? result : expand(result, SymList(spec.sizes), call.where);
}

class EntryTable {
 public:
  explicit EntryTable(OpTable& table) : table_(table), kernels_(cpu::pointwise_kernels()) {}

  class Entry {
   public:
    explicit Entry(Op& op) : op_(op) {}
    // The slot whose integer zeros are an Error.
    Entry& divisor(int slot) {
      op_.pointwise->divisor = slot;
      return nonzero();
    }
    // The slot in which a negative number is an Error in integer arithmetic.
    Entry& exponent(int slot) {
      op_.pointwise->exponent = slot;
      return *this;
    }
    // Neither operands nor numbers may be bool.
    Entry& no_bool() {
      op_.pointwise->refuses_bool = true;
      return *this;
    }
    // Samples of the last operand keep away from zero.
    Entry& nonzero() {
      op_.samples.nonzero_second = true;
      return *this;
    }

   private:
    Op& op_;
  };

  // Adds to the facts of an entry.
  class Facts {
   public:
    explicit Facts(Algebra& algebra) : algebra_(algebra) {}
    Facts& identity(int slot, double number, int gives) {
      algebra_.identities.push_back({slot, number, gives});
      return *this;
    }
    Facts& commutative() {
      algebra_.is_commutative = true;
      return *this;
    }
    Facts& involution() {
      algebra_.is_involution = true;
      return *this;
    }
    Facts& idempotent() {
      algebra_.is_idempotent = true;
      return *this;
    }
    Facts& choice() {
      algebra_.is_choice = true;
      return *this;
    }

   private:
    Algebra& algebra_;
  };
  Facts facts(std::string_view op) { return Facts(table_.mutable_op(op).algebra); }

  template <Promote P, class Body, class... GradBodies>
  Entry pointwise(const char* schema, PromoteTag<P>, Body, Grads<GradBodies...> grads = Grads<>{},
                  Samples samples = {}) {
    auto op = make<P, Body>(Schema(schema));
    op->samples = std::move(samples);
    const Schema forward = op->schema;
    Op& added = table_.add(std::move(op));
    if constexpr (sizeof...(GradBodies) > 0) {
      added.grad_state = GradState::Formula;
      std::apply([&](const auto&... bodies) { (add_gradient(added, forward, bodies), ...); }, grads.bodies);
    }
    return Entry(added);
  }

 private:
  template <Promote P, class Body>
  std::unique_ptr<Op> make(Schema schema) {
    constexpr int arity = detail::arity_of_body<Expr, Body>();
    auto op = std::make_unique<Op>(std::move(schema), Kind::Pointwise);
    op->pointwise = std::make_shared<PointwiseRule>();
    PointwiseRule& rule = *op->pointwise;
    rule.promote = P;
    rule.arity = arity;
    rule.expr = [](std::span<const Expr> args) {
      return detail::call_body<arity>(Body(), [&](int k) { return args[static_cast<size_t>(k)]; });
    };
    rule.term = [](std::span<const Term> args) {
      return detail::call_body<arity>(Body(), [&](int k) { return args[static_cast<size_t>(k)]; });
    };
    for (size_t p = 0; p < op->schema.params.size(); ++p)
      if (op->schema.params[p].type == ParamType::Number) rule.numbers |= 1u << op->schema.operand_index(p);
    rule.kernels = kernels_[next_++];
    ExprGraph graph;
    const Expr value = build(rule, graph, P == Promote::Integer ? DType::Int32 : DType::Float32);
    rule.cost = graph.cost_of(value);
    op->infer = infer_pointwise;
    op->cpu_whole = run_pointwise;
    op->decompose = decompose_pointwise;
    return op;
  }

  static Expr build(const PointwiseRule& rule, ExprGraph& graph, DType dtype) {
    SmallVector<Expr, 8> inputs;
    for (int k = 0; k < rule.arity; ++k) inputs.push_back(graph.input(k, dtype));
    return rule.expr({inputs.data(), inputs.size()});
  }

  template <class Body>
  void add_gradient(Op& op, const Schema& forward, const Body&) {
    GradRule rule;
    if constexpr (std::is_same_v<Body, ZeroGrad>) {
      rule.body = [](const GradCall& grad, size_t operand) {
        const OutputSpec& spec = grad.input_specs[operand];
        return zeros(SymList(spec.sizes), TensorOptions(spec.dtype).device(spec.device), grad.where);
      };
    } else if constexpr (!std::is_same_v<Body, NoGrad>) {
      // The formula is an op of its own, over (dy, operands…, result): one kernel in eager, one node in a graph.
      std::string text = op.name() + ".grad" + std::to_string(op.grads.size()) + "(Value dy";
      for (const Param& param : forward.params)
        text += (param.type == ParamType::Number ? ", Number " : ", Value ") + param.name;
      auto derived = make<Promote::Common, Body>(Schema(text + ", Value result) -> Tensor"));
      derived->grad_state = GradState::Decomposition;
      derived->samples = op.samples;
      ExprGraph graph;
      const Expr formula = build(*derived->pointwise, graph, DType::Float32);
      const uint64_t uses = graph.inputs_of(formula);
      const int operands = derived->pointwise->arity - 2;
      const Expr dy = graph.input(0, DType::Float32);
      if (formula.id == dy.id) rule.derived_scale = 0;
      for (int slot = 1; slot <= operands; ++slot)
        if (formula.id == (dy * graph.input(slot, DType::Float32)).id) rule.derived_scale = slot;
      rule.derived_uses = uses;
      rule.saved_inputs = static_cast<uint32_t>(uses >> 1) & ((1u << operands) - 1);
      rule.saved_outputs = static_cast<uint32_t>(uses >> (operands + 1)) & 1;
      rule.derived = &table_.add(std::move(derived));
    }
    op.grads.push_back(std::move(rule));
  }

  OpTable& table_;
  std::span<const cpu::ElementwiseKernels> kernels_;
  size_t next_ = 0;
};

}  // namespace

void register_pointwise_ops(OpTable& table) {
  EntryTable entries(table);
  declare_pointwise_ops(entries);
}

}  // namespace weft
