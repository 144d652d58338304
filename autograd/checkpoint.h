// checkpoint: a part of the forward whose intermediate values are not kept, but computed again in backward.
// Needs grad. Trades one more forward of that part for its activations.
#pragma once

#include "autograd/grad.h"

namespace weft::autograd {

// Calls the function and returns its results, which have their usual gradients: also of what it captures, through grad() and
// with create_graph. The function runs again in backward, with the default generator's numbers of the first time; it must do
// the same computation then. Its inputs stay alive and must not be written. Inside a compiled function it is called once, and
// the ops that it recorded are part of the backward program too.
// Source: torch.utils.checkpoint.checkpoint with use_reentrant=False. Chen et al. 2016.
variable_list checkpoint(std::function<variable_list(const variable_list&)> function,
                         const variable_list& inputs, WEFT_HERE);

// For a function of tensors that returns one: checkpoint([&](const Tensor& x) { return block(x); }, x).
template <class F, class... Tensors>
requires(std::convertible_to<const Tensors&, const Tensor&>&&...) &&
    std::convertible_to<std::invoke_result_t<F, const Tensors&...>, Tensor> Tensor
    checkpoint(F function, const Tensors&... inputs) {
  return checkpoint(
      [function = std::move(function)](const variable_list& list) {
    return variable_list{[&]<size_t... I>(std::index_sequence<I...>){return function(list[I]...); }(
            std::index_sequence_for<Tensors...>())
};
},
      variable_list{inputs...})[0];
}

// The outermost checkpoint() that is called on this thread while a trace is on, by a number of its own; 0 if there is none.
uint64_t checkpoint_being_traced();

}  // namespace weft::autograd
