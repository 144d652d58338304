// A step that depends on its data: as a tree of traced segments, and in one graph with where().
// Needs weft.h only.
#include <weft.h>

#include <iostream>

using namespace weft;

int entered = 0;

// Damps a gradient that has become too large. The condition needs a value, so the graph ends there and each outcome has a
// path of its own.
Tensor damp(Tensor gradient) {
  ++entered;
  const Tensor norm = gradient.norm();
  if (norm > 1) return gradient / norm;
  return gradient * 1;
}

// The same without a break: both sides are computed, and where() picks.
Tensor damp_in_one_graph(Tensor gradient) {
  ++entered;
  const Tensor norm = gradient.norm();
  return gradient / where(norm > 1, norm, ones_like(norm));
}

template <class F>
void run(const char* what, F function, bool fullgraph) {
  std::cout << "== " << what << "\n\n";
  entered = 0;
  auto f =
      compile(function, {.fullgraph = fullgraph, .audit = false, .name = what, .arguments = {"gradient"}});
  for (int i = 0; i < 10; ++i)
    for (const double size : {0.1, 5.0}) f(full({4}, size));
  std::cout << "entered " << entered << (entered == 1 ? " time" : " times") << " in 20 calls\n"
            << f.core().explanation() << '\n';
}

int main() {
  run("damp", damp, false);
  run("damp_in_one_graph", damp_in_one_graph, true);
  // With fullgraph a break is an error that names the line.
  try {
    compile(damp, {.fullgraph = true, .name = "damp"})(ones({4}));
  } catch (const Error& error) {
    std::cout << error.what() << '\n';
  }
}
