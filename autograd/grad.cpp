// From tensors to the roots and targets of a walk.
#include "autograd/grad.h"

#include "autograd/engine.h"
#include "autograd/grad_mode.h"
#include "autograd/tape.h"
#include "tensor/dispatch.h"

namespace weft::autograd {
namespace {

std::vector<Root> make_roots(const char* op, const variable_list& tensors, const variable_list& gradients,
                             SourceLocation where) {
  WEFT_CHECK(gradients.empty() || gradients.size() == tensors.size(), op, ": ", tensors.size(),
             " tensors but ", gradients.size(),
             " gradients; give one for each (undefined for a scalar), or none");
  std::vector<Root> roots;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& x = tensors[i];
    WEFT_CHECK(x.defined(), op, ": tensor ", i, " is undefined");
    Edge edge = gradient_edge(x);
    WEFT_CHECK(
        edge, op, ": ", weft::describe(x),
        " does not require grad and has no history; call requires_grad_() on what it is made from, with grad "
        "mode on");
    Tensor gradient = gradients.empty() ? Tensor() : gradients[i];
    if (!gradient.defined()) {
      WEFT_CHECK(
          x.numel() == 1, op, ": ", weft::describe(x),
          " has more than one element, so its gradient must be given; or reduce it first, as in x.sum()");
      const AutoGradMode off(false);
      gradient = ones_like(x, {}, where);
    }
    WEFT_CHECK(gradient.sizes() == x.sizes(), op, ": the gradient has sizes ", gradient.sizes(),
               ", but the tensor has sizes ", x.sizes());
    WEFT_CHECK(gradient->dtype == x->dtype, op, ": the gradient is ", gradient->dtype, ", but the tensor is ",
               x->dtype);
    roots.push_back({std::move(edge), std::move(gradient)});
  }
  return roots;
}

}  // namespace

void backward(const variable_list& tensors, const variable_list& grad_tensors,
              std::optional<bool> retain_graph, bool create_graph, const variable_list& inputs,
              SourceLocation where) {
  try {
    std::vector<Root> roots = make_roots("backward", tensors, grad_tensors, where);
    std::vector<Target> targets;
    for (const Tensor& input : inputs) {
      Edge edge = gradient_edge(input);
      WEFT_CHECK(edge, "backward: an input does not require grad");
      targets.push_back({std::move(edge), {}});
    }
    walk(roots, targets, {retain_graph.value_or(create_graph), create_graph, true});
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (targets[i].edge.node->cell() == nullptr && targets[i].gradient.defined())
        grad_cell(inputs[i]).add(targets[i].gradient, false);
    }
  } catch (Error& error) {
    error.add_place(where);
    throw;
  }
}

variable_list grad(const variable_list& outputs, const variable_list& inputs,
                   const variable_list& grad_outputs, std::optional<bool> retain_graph, bool create_graph,
                   bool allow_unused, SourceLocation where) {
  try {
    WEFT_CHECK(!inputs.empty(), "grad: no inputs are given");
    std::vector<Root> roots = make_roots("grad", outputs, grad_outputs, where);
    std::vector<Target> targets;
    for (size_t i = 0; i < inputs.size(); ++i) {
      Edge edge = gradient_edge(inputs[i]);
      WEFT_CHECK(edge, "grad: input ", i, " does not require grad; call requires_grad_() before it is used");
      targets.push_back({std::move(edge), {}});
    }
    walk(roots, targets, {retain_graph.value_or(create_graph), create_graph, false});
    variable_list gradients;
    for (size_t i = 0; i < targets.size(); ++i) {
      WEFT_CHECK(allow_unused || targets[i].gradient.defined(), "grad: the outputs do not depend on input ",
                 i, " (", weft::describe(inputs[i]),
                 "); pass allow_unused=true to get an undefined tensor for it");
      gradients.push_back(std::move(targets[i].gradient));
    }
    return gradients;
  } catch (Error& error) {
    error.add_place(where);
    throw;
  }
}

}  // namespace weft::autograd
