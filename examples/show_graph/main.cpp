// A backend that prints what compile() traced: graphs of a forward pass, of its backward, and of a whole training step.
// Needs weft.h, and graph.h to look into a graph.
#include <weft.h>

#include <iostream>

#include "compiler/trace/graph.h"

using namespace weft;

// A backend gets each graph once and gives a callable; this one leaves the running to the kernels of eager mode.
GraphProgram print_graph(const compiler::Graph& graph, std::span<const Tensor> examples) {
  std::cout << graph << "which reads";
  for (const Tensor& x : examples) std::cout << ' ' << x.sizes();
  std::cout << "\n\n";
  return eager_program(graph);
}

int main() {
  manual_seed(0);
  nn::Linear layer(3, 2);
  optim::SGD optimizer(layer->parameters(), optim::SGDOptions(0.1));
  const Tensor x = ones({4, 3}), target = zeros({4}, kInt64);

  std::cout << "== forward, and its backward when it is asked for\n\n";
  auto forward = compile([&](Tensor x) { return silu(layer(x)).sum(); },
                         {.backend = Backend(print_graph), .name = "forward", .arguments = {"x"}});
  forward(x).backward();
  optimizer.zero_grad();

  std::cout << "== a whole step: forward, backward and optimizer in one graph\n\n";
  auto step = compile(
      [&](Tensor x, Tensor target) {
        const Tensor loss = cross_entropy(layer(x), target);
        loss.backward();
        optimizer.step();
        optimizer.zero_grad();
        return loss;
      },
      {.backend = Backend(print_graph), .name = "step", .arguments = {"x", "target"}});
  for (int i = 0; i < 3; ++i) std::cout << "loss " << step(x, target).item<float>() << '\n';
}
