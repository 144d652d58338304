// cond() in a trace: both arms as graphs in one node, and its gradient.
// Place: the out-of-line half of compiler/runtime/cond.h; while_loop.cpp has the other op.
#include "compiler/runtime/cond.h"

#include <algorithm>

#include "autograd/engine.h"
#include "autograd/tape.h"
#include "compiler/runtime/arm.h"
#include "compiler/runtime/routine_op.h"
#include "tensor/ops/check.h"

namespace weft {

bool Predicate::value() const {
  return is_tensor_ ? compiler::detail::value_of("cond: the predicate", tensor_) : decided_;
}

namespace compiler {
namespace {

class CondArms final : public Arms {
 public:
  OutputSpecs infer(const Call&) const override { return specs_of(0); }
  void run(const Call& call, std::span<Tensor> outputs) const override {
    SmallVector<const Tensor*, 16> tensors;
    for (const Operand& operand : call.operands.subspan(1)) tensors.push_back(operand.tensor);
    const bool decided = call.tensor(0).item<bool>();
    run_part(decided ? 0 : 1, {tensors.data(), tensors.size()},
             Values(*this, call.operands.subspan(1), call.attr(1).as_sizes()), outputs);
  }
  std::pair<const Op*, RoutinePtr> without_effects() const override;
  std::vector<Tensor> record_again(const RoutinePtr& self, const Call& node,
                                   size_t num_outputs) const override;

  std::vector<bool> requires_grad;  // by result
  bool has_functions = false;
};

// An op that has an effect is another one: some arm prints or calls the host.
const Op& cond_op(bool has_effect) {
  constexpr const char* schema =
      "cond(Tensor pred, Tensor[] tensors, *, Routine arms, SymInt[] symbols) -> Tensor[]";
  static const Op pure = routine_op(schema, false), effectful = routine_op(schema, true);
  return has_effect ? effectful : pure;
}

std::pair<const Op*, RoutinePtr> CondArms::without_effects() const {
  auto silent = std::make_shared<CondArms>();
  silent->take_silent(*this);
  silent->requires_grad = requires_grad;
  silent->has_functions = has_functions;
  return {&cond_op(false), silent};
}

std::string describe(const Value& value) {
  return weft::detail::concat(SizesView(value.sizes), ' ', value.dtype);
}

void check_agree(const Arm& a, const Arm& b) {
  WEFT_CHECK(a.graph.outputs.size() == b.graph.outputs.size(), "cond: the arms must give the same: ", a.name,
             " gives ", a.graph.outputs.size(), " tensors, ", b.name, " ", b.graph.outputs.size());
  for (size_t i = 0; i < a.graph.outputs.size(); ++i) {
    const Value &x = a.graph[a.graph.outputs[i]], &y = b.graph[b.graph.outputs[i]];
    const char* what = x.sizes.size() != y.sizes.size() ? "number of dimensions"
                       : x.dtype != y.dtype             ? "dtype"
                       : x.device != y.device           ? "device"
                                                        : nullptr;
    for (size_t d = 0; what == nullptr && d < x.sizes.size(); ++d)
      if (!(x.sizes[d] == y.sizes[d])) what = "size";
    WEFT_CHECK(what == nullptr, "cond: the arms must give tensors of the same sizes and dtypes, but result ",
               i, " differs in its ", what, ": ", a.name, " gives ", describe(x), ", ", b.name, " gives ",
               describe(y));
  }
}

// ---- The node and its gradient ----------------------------------------------------------------------------------------

std::vector<Tensor> call_arms(const Tensor& predicate, std::vector<Arm> arms,
                              std::span<const Tensor> parameters, SourceLocation where);

// The step of the tape. Its backward is a cond of the backward graphs of both arms, each of which computes what it needs of
// its arm again: what the arms would save differs.
class CondNode final : public autograd::Node {
 public:
  CondNode(Tensor predicate, const ArmsCall& call, std::shared_ptr<const CondArms> arms, SourceLocation place)
      : predicate_(std::move(predicate)),
        tensors_(call.tensors),
        arms_(std::move(arms)),
        num_tensors_(call.tensors.size() - arms_->numbers.size()) {
    where = place;
    for (uint32_t i = 0; i < num_tensors_; ++i) {
      const Tensor& tensor = call.histories[i];
      if (!tensor.defined() || !tensor->needs_grad()) continue;
      const autograd::Edge edge = autograd::gradient_edge(tensor);
      edges.push_back(edge);
      wanted_.push_back(i);
      // As it was, whatever is written into the tensor later; for gradients of gradients with the same history.
      autograd::set_producer(tensors_[i], edge.node, edge.slot);
    }
  }

  const char* name() const override { return "cond"; }
  void release() override {
    tensors_.clear();
    predicate_.reset();
  }

  void apply(autograd::Step& step) override {
    WEFT_CHECK(predicate_.defined(), "backward: ", autograd::describe(*this),
               " was walked a second time, but what it had saved was freed by the first backward.\n  Pass "
               "retain_graph=true to the first one, or compute the result again.");
    WEFT_CHECK(!arms_->has_functions, "backward: an arm of ", autograd::describe(*this),
               " applies a user-defined autograd::Function, whose backward cannot be part of a cond; apply "
               "it outside");
    std::vector<Tensor> parameters(tensors_.begin(),
                                   tensors_.begin() + static_cast<std::ptrdiff_t>(num_tensors_));
    std::vector<size_t> given;  // results whose gradient arrived
    for (size_t k = 0; k < step.grads.size(); ++k) {
      if (!step.grads[k].defined()) continue;
      given.push_back(k);
      parameters.push_back(contiguous(step.grads[k]));
    }
    std::vector<size_t> edges_wanted;
    for (size_t e = 0; e < edges.size(); ++e)
      if (step.wanted[e]) edges_wanted.push_back(e);
    // A tensor to which only one arm leads has a gradient of zeros in the other.
    std::vector<bool> is_reached(edges_wanted.size());
    std::vector<Arm> arms;
    for (const bool fills : {false, true}) {
      arms.clear();
      bool is_uneven = false;
      for (size_t part = 0; part < 2; ++part) {
        std::vector<bool> reached(edges_wanted.size());
        arms.push_back(
            trace_pullback(part, parameters, given, edges_wanted, fills ? &is_reached : nullptr, reached));
        if (fills) continue;
        for (size_t i = 0; i < reached.size(); ++i) {
          is_uneven = is_uneven || (part == 1 && reached[i] != is_reached[i]);
          is_reached[i] = is_reached[i] || reached[i];
        }
      }
      if (!is_uneven) break;
    }
    std::vector<Tensor> gradients = call_arms(predicate_, std::move(arms), parameters, where);
    size_t next = 0;
    for (size_t i = 0; i < edges_wanted.size(); ++i)
      if (is_reached[i]) step.results[edges_wanted[i]] = std::move(gradients[next++]);
  }

 private:
  // The backward of one arm as an arm: parameters are the tensors of the node and the gradients that arrived; it gives the
  // wanted gradients that exist, or those that `fill` names, with zeros where none exists.
  Arm trace_pullback(size_t part, std::span<const Tensor> parameters, const std::vector<size_t>& given,
                     const std::vector<size_t>& edges_wanted, const std::vector<bool>* fill,
                     std::vector<bool>& reached) const {
    Tracer& around = current_tracer();
    std::vector<OutputSpec> specs;
    for (const Tensor& parameter : parameters)
      specs.push_back(around.graph()[around.output_of(parameter)].spec());
    const bool create_graph = grad_mode_enabled();
    const Arms::Part& forward = arms_->parts[part];
    return trace_arm(around, "backward of " + forward.name, specs, [&](std::span<const Tensor> own) {
      std::vector<Tensor> gradients;
      const AutoGradMode on(true);
      std::vector<autograd::Target> targets;
      std::vector<Tensor> leaves(own.begin(), own.end());
      for (const size_t e : edges_wanted) {
        Tensor& leaf = leaves[wanted_[e]];
        if (!leaf->needs_grad()) leaf.requires_grad_();
        targets.push_back({autograd::gradient_edge(leaf), {}});
      }
      std::vector<Tensor> inputs;
      for (const uint32_t tensor : forward.reads) inputs.push_back(leaves[tensor]);
      const std::vector<Tensor> outputs = replay(current_tracer(), forward.graph, inputs);
      std::vector<autograd::Root> roots;
      for (size_t i = 0; i < given.size(); ++i) {
        const Tensor& output = outputs[given[i]];
        if (output->needs_grad())
          roots.push_back({autograd::gradient_edge(output), leaves[num_tensors_ + i]});
      }
      if (!roots.empty())
        autograd::walk(roots, targets,
                       {.retain_graph = false, .create_graph = create_graph, .accumulate = false});
      for (size_t i = 0; i < targets.size(); ++i) {
        Tensor& gradient = targets[i].gradient;
        reached[i] = gradient.defined();
        if (fill != nullptr && (*fill)[i] && !gradient.defined()) {
          const Tensor& leaf = leaves[wanted_[edges_wanted[i]]];
          gradient = zeros(SymList(leaf->layout.sizes), TensorOptions(leaf->dtype).device(leaf->device));
        }
        if (gradient.defined()) gradients.push_back(gradient);
      }
      return gradients;
    });
  }

  Tensor predicate_;
  std::vector<Tensor> tensors_;
  std::shared_ptr<const CondArms> arms_;
  size_t num_tensors_;
  std::vector<uint32_t> wanted_;  // by edge: which tensor
};

// Records the node; the tape follows it where something in it requires grad.
std::vector<Tensor> record_node(const Tensor& predicate, const ArmsCall& call,
                                const std::shared_ptr<const CondArms>& routine, SourceLocation where) {
  Tracer& tracer = current_tracer();
  const Tensor asked = tracer.wrap(tracer.value_of(tracer.stand_in(predicate)));
  std::vector<Operand> operands = {asked};
  operands.insert(operands.end(), call.tensors.begin(), call.tensors.end());
  std::vector<Tensor> outputs(routine->requires_grad.size());
  call_into(cond_op(call.has_effect), operands, {Attr(RoutinePtr(routine)), Attr(call.symbols)}, where,
            outputs);
  if (!grad_mode_enabled()) return outputs;
  const auto node = make_intrusive<CondNode>(asked, call, routine, where);
  if (node->edges.empty()) return outputs;
  for (const Tensor& output : outputs) node->results.push_back(autograd::Meta(output));
  for (uint32_t k = 0; k < outputs.size(); ++k)
    if (routine->requires_grad[k]) autograd::set_producer(outputs[k], node, k);
  return outputs;
}

std::vector<Tensor> call_arms(const Tensor& predicate, std::vector<Arm> arms,
                              std::span<const Tensor> parameters, SourceLocation where) {
  auto routine = std::make_shared<CondArms>();
  for (size_t k = 0; k < arms[0].requires_grad.size(); ++k)
    routine->requires_grad.push_back(arms[0].requires_grad[k] || arms[1].requires_grad[k]);
  routine->has_functions = arms[0].has_functions || arms[1].has_functions;
  const ArmsCall call = assemble(current_tracer(), std::move(arms), parameters, *routine);
  return record_node(predicate, call, routine, where);
}

std::vector<Tensor> CondArms::record_again(const RoutinePtr& self, const Call& node, size_t) const {
  Tracer& tracer = current_tracer();
  ArmsCall call;
  for (const Operand& operand : node.operands.subspan(1)) {
    call.tensors.push_back(tracer.wrap(tracer.output_of(tracer.stand_in(*operand.tensor))));
    call.histories.push_back(*operand.tensor);
  }
  call.symbols = node.attr(1).as_sizes();
  call.has_effect = node.op.has_effect;
  return record_node(node.tensor(0), call, std::static_pointer_cast<const CondArms>(self), node.where);
}

}  // namespace

namespace detail {

std::vector<Tensor> record_cond(const Predicate& predicate, const Body& true_fn, const Body& false_fn) {
  Tracer& tracer = current_tracer();
  const SourceLocation where = predicate.where();
  WEFT_CHECK_AT(where, predicate.tensor().defined(), "cond: the predicate is an undefined tensor");
  WEFT_CHECK_AT(where, predicate.tensor().numel() == 1, "cond: the predicate has ",
                predicate.tensor().numel(), " elements (sizes ", predicate.tensor().sizes(),
                "), not one; use any() or all()");
  try {
    std::vector<Arm> arms;
    arms.push_back(trace_arm(tracer, "true_fn of cond", {}, true_fn));
    arms.push_back(trace_arm(tracer, "false_fn of cond", {}, false_fn));
    check_agree(arms[0], arms[1]);
    return call_arms(predicate.tensor(), std::move(arms), {}, where);
  } catch (Error& error) {
    error.add_place(where);
    throw;
  }
}

bool value_of(const char* what, const Tensor& x) {
  WEFT_CHECK(x.defined(), what, " is an undefined tensor");
  WEFT_CHECK(x.numel() == 1, what, " has ", x.numel(), " elements (sizes ", x.sizes(),
             "), not one; use any() or all()");
  return x.item<bool>();
}

void check_count(const char* what, size_t given, size_t wanted) {
  WEFT_CHECK(given == wanted, what, ": gives ", given, " tensors, but was given ", wanted,
             "; it must give one for each");
}

void throw_wrong_count(const char* what, size_t given) {
  weft::detail::throw_error(
      weft::detail::concat(what, ": takes another number of tensors than the ", given, " that it is given"));
}

void throw_number(const char* what) {
  weft::detail::throw_error(weft::detail::concat(what, ": gives a number; only tensors can come from it"));
}

bool is_tracing() { return current_trace() != nullptr; }

}  // namespace detail
}  // namespace compiler
}  // namespace weft
