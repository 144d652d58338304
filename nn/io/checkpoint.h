// save() and load(): the state of modules and optimizers in a safetensors file.
// Needs tensor/state_visitor and safetensors.h; neither modules nor optimizers: what can visit its state takes part.
#pragma once

#include <string>
#include <vector>

#include "nn/io/safetensors.h"
#include "tensor/state_visitor.h"

namespace weft {
namespace io {

// Names that did not meet, where the caller allowed it.
struct LoadReport {
  std::vector<std::string> missing;     // of the owner's, not in what was loaded
  std::vector<std::string> unexpected;  // loaded, not the owner's
};

namespace detail {

// The handles of a state in the order of its visit.
class StateList : public StateVisitor {
 public:
  struct Entry {
    std::string name;
    Tensor tensor;         // undefined for a cell
    Cell* cell = nullptr;  // the owner's own
  };
  void tensor(const std::string& name, Tensor& handle, StateRole) override {
    entries.push_back({name, handle, nullptr});
  }
  void cell(const std::string& name, Cell& cell) override { entries.push_back({name, {}, &cell}); }
  void fact(const std::string&, double) override {}

  std::vector<Entry> entries;
};

NamedTensors to_named_tensors(const StateList& list);
LoadReport load_state(const StateList& list, const NamedTensors& state, bool strict);
LoadReport load_file(const StateList& list, const std::string& path, bool strict);

// A shared_ptr to a module, or a module handle such as nn::Linear.
template <class P>
concept PointsToState = requires(const P& pointer) {
  { *pointer } -> VisitsState;
};

template <class T>
StateList list_state(T& owner) {
  StateList list;
  if constexpr (VisitsState<T>) owner.visit_state(list);
  else (*owner).visit_state(list);
  return list;
}

}  // namespace detail

// A module or an optimizer, or what points to one.
template <class T>
concept HasState = VisitsState<T> || detail::PointsToState<T>;

// The state of a module ("fc1.weight") or an optimizer ("state.0.exp_avg"): the tensors themselves, not copies, and each
// cell, such as a learning rate or a step count, as a float64 tensor of no dimensions. Options that are no cells (the rate
// of a dropout, a weight decay) belong to the program and are not part of it.
template <HasState T>
NamedTensors state_dict(T& owner) {
  return detail::to_named_tensors(detail::list_state(owner));
}

// Writes into the owner's state; its tensors stay the same objects and keep their dtype and device. All or nothing:
// everything is compared first.  Errors: names that do not meet (if `strict`) and shapes that differ, all in one text.
template <HasState T>
LoadReport load_state_dict(T& owner, const NamedTensors& state, bool strict = true) {
  return detail::load_state(detail::list_state(owner), state, strict);
}

}  // namespace io

// As torch::save and torch::load. A module's file is one that PyTorch's safetensors package reads and writes, with the
// same names. Loading reads the whole file before it changes anything.
template <io::HasState T>
void save(T& owner, const std::string& path, const io::Metadata& metadata = {}) {
  io::save_safetensors(path, io::state_dict(owner), metadata);
}
template <io::HasState T>
io::LoadReport load(T& owner, const std::string& path, bool strict = true) {
  return io::detail::load_file(io::detail::list_state(owner), path, strict);
}
// Tensors without names are stored as "0", "1", …; load() replaces the handles.
void save(const Tensor& x, const std::string& path);
void load(Tensor& x, const std::string& path);
void save(const std::vector<Tensor>& tensors, const std::string& path);
void load(std::vector<Tensor>& tensors, const std::string& path);

}  // namespace weft
