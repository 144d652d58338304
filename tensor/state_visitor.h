// StateVisitor: how a tool walks through the state of a module or optimizer without knowing either.
// Needs tensor and cell. Any type with `void visit_state(StateVisitor&)` takes part; the compiler asks for no more.
#pragma once

#include <string>

#include "tensor/cell.h"
#include "tensor/tensor.h"

namespace weft {

enum class StateRole : uint8_t { Parameter, Buffer, Optimizer };

class StateVisitor {
 public:
  virtual ~StateVisitor() = default;
  // A tensor that is part of the state, under its dotted name ("fc1.weight"). The handle is the owner's own.
  virtual void tensor(const std::string& name, Tensor& handle, StateRole role) = 0;
  // A number that the program reads and writes at each call.
  virtual void cell(const std::string& name, Cell& cell) = 0;
  // A number that C++ code branches on: train mode, the rate of a dropout. Changing one bumps the state epoch.
  virtual void fact(const std::string& name, double value) = 0;
};

template <class T>
concept VisitsState = requires(T& owner, StateVisitor& visitor) {
  owner.visit_state(visitor);
};

}  // namespace weft
