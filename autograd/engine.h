// The engine: walks the tape backwards from some results, adds up what reaches each step and runs it.
// Needs node. Users call it through grad.h and Tensor::backward.
#pragma once

#include "autograd/node.h"

namespace weft::autograd {

struct Root {
  Edge edge;
  Tensor gradient;
};

// A gradient that the caller asks for.
struct Target {
  Edge edge;
  Tensor gradient;  // filled where one arrived
  std::vector<Tensor> parts =
      {};  // instead of it, what arrived one by one, in order; where the walk keeps parts
};

struct WalkOptions {
  bool retain_graph = false;
  bool create_graph = false;
  bool accumulate = true;  // into leaves: all of them, or with targets only those
  bool keeps_parts = false;
};

// With targets only the steps that lead to them run. Reentrant: a step may call backward itself.
void walk(std::span<Root> roots, std::span<Target> targets, const WalkOptions& options);

// Whether nothing has come to this place yet in the walk that this thread is in, so that parts which a step gives it are added up
// before all others: the step may as well give their sum. False where parts are kept, and outside of walks.
bool is_untouched(const Edge& edge);

// The gradient summed to the sizes and converted to the dtype of the value it belongs to; Error if it cannot be.
Tensor fit(Tensor gradient, const Meta& meta, const Node& from);

}  // namespace weft::autograd
