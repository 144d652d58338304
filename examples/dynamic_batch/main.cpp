// How often a function is compiled when its batch size changes, counted by a backend.
// Needs weft.h only.
#include <weft.h>

#include <iostream>

using namespace weft;

int compiled = 0;

GraphProgram count_graphs(const compiler::Graph& graph, std::span<const Tensor>) {
  ++compiled;
  return eager_program(graph);
}

Tensor layer(const Tensor& x, const Tensor& w) { return silu(x.matmul(w)); }

// Calls the function with growing batches and says how many graphs that took.
template <class Prepare>
void run(const char* what, CompileOptions options, Prepare prepare) {
  compiled = 0;
  options.backend = Backend(count_graphs);
  options.audit = false;
  options.arguments = {"x", "w"};
  auto f = compile(layer, options);
  const Tensor w = ones({8, 3});
  for (const int64_t batch : {4, 4, 8, 16, 32}) {
    Tensor x = arange(batch * 8, kFloat32).view({batch, 8}) / 100;
    prepare(x);
    if (!allclose(f(x, w), layer(x, w))) std::cout << "wrong for a batch of " << batch << '\n';
  }
  std::cout << what << ": " << compiled << (compiled == 1 ? " graph\n" : " graphs\n");
  for (const std::string& reason : f.core().explanation().recompiles)
    std::cout << "  compiled again: " << reason << '\n';
}

int main() {
  std::cout << "batches of 4, 4, 8, 16 and 32\n";
  const auto nothing = [](Tensor&) {};
  run("the second size makes it dynamic", {}, nothing);
  run("mark_dynamic(x, 0)", {}, [](Tensor& x) { mark_dynamic(x, 0, {.min = 2}); });
  run("dynamic = true", {.dynamic = true}, nothing);
  run("dynamic = false", {.dynamic = false}, nothing);
}
