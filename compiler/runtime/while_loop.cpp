// while_loop() in a trace: condition and body as graphs in one node.
// Place: the other half of compiler/runtime/cond.h.
#include "autograd/tape.h"
#include "compiler/runtime/arm.h"
#include "compiler/runtime/cond.h"
#include "compiler/runtime/routine_op.h"
#include "tensor/ops/check.h"

namespace weft::compiler {
namespace {

class LoopArms final : public Arms {
 public:
  OutputSpecs infer(const Call&) const override { return specs_of(1); }
  void run(const Call& call, std::span<Tensor> outputs) const override {
    const Values values(*this, call.operands, call.attr(1).as_sizes());
    SmallVector<const Tensor*, 16> tensors;
    for (const Operand& operand : call.operands) tensors.push_back(operand.tensor);
    const std::span<const Tensor* const> all(tensors.data(), tensors.size());
    std::vector<Tensor> carried, next(outputs.size());
    for (;;) {
      Tensor asked;
      run_part(0, all, values, {&asked, 1});
      if (!asked.item<bool>()) break;
      run_part(1, all, values, next);
      carried.swap(next);
      next.assign(outputs.size(), Tensor());
      for (size_t i = 0; i < outputs.size(); ++i) tensors[i] = &carried[i];
    }
    for (size_t i = 0; i < outputs.size(); ++i)
      outputs[i] = carried.empty() ? clone(*tensors[i], call.where) : std::move(carried[i]);
  }
  std::pair<const Op*, RoutinePtr> without_effects() const override;
  std::vector<Tensor> record_again(const RoutinePtr&, const Call& node, size_t num_outputs) const override {
    std::vector<Tensor> outputs(num_outputs);
    call_into(node.op, node.operands, node.attrs, node.where, outputs);
    return outputs;
  }
};

const Op& while_loop_op(bool has_effect) {
  constexpr const char* schema =
      "while_loop(Tensor[] tensors, *, Routine arms, SymInt[] symbols) -> Tensor[]";
  static const Op pure = routine_op(schema, false), effectful = routine_op(schema, true);
  return has_effect ? effectful : pure;
}

std::pair<const Op*, RoutinePtr> LoopArms::without_effects() const {
  auto silent = std::make_shared<LoopArms>();
  silent->take_silent(*this);
  return {&while_loop_op(false), silent};
}

void check_no_gradient(bool requires_grad, const std::string& what) {
  WEFT_CHECK(!grad_mode_enabled() || !requires_grad, "while_loop: ", what,
             " requires grad, but a loop in a compiled function has no gradient; put it under a NoGradGuard, "
             "detach() "
             "what goes in, or write a loop with a fixed number of steps");
}

void check_step(const Arm& body, std::span<const OutputSpec> carried) {
  detail::check_count("body_fn of while_loop", body.graph.outputs.size(), carried.size());
  for (size_t i = 0; i < carried.size(); ++i) {
    const Value& made = body.graph[body.graph.outputs[i]];
    bool is_same = made.dtype == carried[i].dtype && made.sizes.size() == carried[i].sizes.size();
    for (size_t d = 0; is_same && d < made.sizes.size(); ++d) is_same = made.sizes[d] == carried[i].sizes[d];
    WEFT_CHECK(is_same,
               "while_loop: each step must give tensors of the sizes and dtypes that it was given, but "
               "body_fn makes ",
               SizesView(made.sizes), ' ', made.dtype, " of tensor ", i, ", which is ",
               SizesView(carried[i].sizes), ' ', carried[i].dtype);
  }
}

std::vector<Tensor> record(const detail::Body& cond_fn, const detail::Body& body_fn,
                           std::span<const Tensor> given, SourceLocation where) {
  Tracer& tracer = current_tracer();
  std::vector<Tensor> carried;
  std::vector<OutputSpec> specs;
  for (size_t i = 0; i < given.size(); ++i) {
    WEFT_CHECK(given[i].defined(), "while_loop: tensor ", i, " is undefined");
    const Tensor& x = tracer.stand_in(given[i]);
    check_no_gradient(x->needs_grad(), weft::detail::concat("tensor ", i, " (", describe(x), ')'));
    carried.push_back(contiguous(x));
    specs.push_back(tracer.graph()[tracer.output_of(carried.back())].spec());
  }
  std::vector<Arm> arms;
  arms.push_back(trace_arm(tracer, "cond_fn of while_loop", specs, cond_fn));
  const Graph& asks = arms[0].graph;
  Sym elements = Sym::from_int(1);
  for (const Sym size : asks[asks.outputs[0]].sizes) elements = elements * size;
  WEFT_CHECK(elements == 1, "while_loop: cond_fn gives a tensor of sizes ",
             SizesView(asks[asks.outputs[0]].sizes), ", not one element; use any() or all()");
  arms.push_back(trace_arm(tracer, "body_fn of while_loop", specs, body_fn));
  check_step(arms[1], specs);
  for (size_t i = 0; i < carried.size(); ++i)
    check_no_gradient(arms[1].requires_grad[i], weft::detail::concat("what body_fn gives for tensor ", i));
  auto routine = std::make_shared<LoopArms>();
  const ArmsCall call = assemble(tracer, std::move(arms), carried, *routine);
  const std::vector<Operand> operands(call.tensors.begin(), call.tensors.end());
  std::vector<Tensor> outputs(carried.size());
  call_into(while_loop_op(call.has_effect), operands, {Attr(RoutinePtr(routine)), Attr(call.symbols)}, where,
            outputs);
  return outputs;
}

}  // namespace

std::vector<Tensor> detail::record_while_loop(const Body& cond_fn, const Body& body_fn,
                                              std::span<const Tensor> carried, SourceLocation where) {
  try {
    return record(cond_fn, body_fn, carried, where);
  } catch (Error& error) {
    error.add_place(where);
    throw;
  }
}

}  // namespace weft::compiler
