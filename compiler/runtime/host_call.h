// print() and host_call(): what happens on the host at every call of a compiled function, in the order of the program.
// Needs tensor. Outside of a trace they simply happen.
#pragma once

#include "tensor/tensor.h"

namespace weft {

// Writes the values of x to std::cout, after `text` if there is one, in one piece and with a line break. In a compiled
// function it does so at every call, which `std::cout << x` cannot: while the function is traced x has no values.
void print(const Tensor& x, WEFT_HERE);
void print(std::string_view text, const Tensor& x, WEFT_HERE);

// Calls `function` with the values of `tensors`: without history, and with the tape off. In a compiled function it is
// called at every call, after what stands before it and before what stands behind it; what it throws reaches the caller.
// - It may only read the tensors, and should get what it reads as `tensors`: one that it captures is seen as it was at the
//   start of the call. Error if it wrote into one.
// - It is called after the compiled function was traced, and by later calls: hold by value what is local to the function.
//   When the function is traced again, the closure of that time takes the place of the one before.
void host_call(std::function<void(const std::vector<Tensor>&)> function, const std::vector<Tensor>& tensors,
               WEFT_HERE);
// Of one tensor: host_call([&](const Tensor& loss) { losses.push_back(loss.item<float>()); }, loss).
template <std::invocable<const Tensor&> F>
void host_call(F function, const Tensor& tensor, WEFT_HERE) {
  host_call(
      [function = std::move(function)](const std::vector<Tensor>& tensors) mutable { function(tensors[0]); },
      std::vector<Tensor>{tensor}, where);
}

}  // namespace weft
