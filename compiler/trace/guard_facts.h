// GuardFacts: what one trace relied on of the arguments and of global state, as data.
// Needs callee, shape_env and sym_guards. The tracer's findings go in; guards.h checks them, explain() prints them.
#pragma once

#include "compiler/trace/callee.h"
#include "compiler/trace/sym_guards.h"

namespace weft::compiler {

// A size, stride, offset or number that must stay as it was, and who asked for it.
struct FixedFact {
  bool is_fixed = false;
  int64_t value = 0;
  Place place = {};
};

struct TensorFacts {
  std::string name;  // "x", "batch.0"
  // C++ code reads these unseen, so they hold for tensors that the graph does not use, too.
  bool is_defined = false;
  DType dtype = DType::Float32;
  Device device = kCPU;
  uint32_t rank = 0;
  // Where it matters: gradients were on while the tensor was used, or C++ code asked.
  std::optional<bool> requires_grad = {};
  // It counts only while grad mode is on: the program records nothing for this tensor.
  bool is_grad_free = false;
  // The program reads or writes its data; what is below counts only then.
  bool is_used = false;
  bool is_written = false;
  bool is_grad_written = false;  // accumulates into its .grad
  bool is_aligned = false;       // its data must start at a multiple of 16 bytes
  // Empty, or one for each dimension.
  SmallVector<FixedFact, kInlineRank> sizes = {}, strides = {};
  FixedFact offset = {}, storage_bytes = {};

  TensorFacts() = default;
  // What can be read unseen of this leaf.
  TensorFacts(std::string leaf_name, const Tensor& x);
};

struct NumberFacts {
  std::string name;
  NumberLeaf::Kind kind = NumberLeaf::Kind::Scalar;
  FixedFact fixed = {};  // a floating value by its bits
};

// A tensor that the function reached without being given it. The entry keeps it alive and checks what it is.
struct CapturedFacts {
  std::string name;
  const TensorImpl* tensor = nullptr;
  bool is_written = false, is_grad_written = false;
};

// Two tensors of which one is written to shared memory in the traced call, and must again in the same way; numbers count
// the leaves first and then the captured tensors.
struct Overlap {
  uint32_t a = 0, b = 0;
  int64_t distance = 0;  // from the first element of a to that of b, in bytes
  friend bool operator==(const Overlap&, const Overlap&) = default;
};

// How a call comes to a tensor: by a leaf of its arguments, or by one that the entry holds; or it is the .grad of that.
struct Route {
  static constexpr uint32_t kHeld = UINT32_MAX;
  std::string name;
  uint32_t leaf = kHeld;
  Tensor held = {};
  bool is_grad = false;

  // Undefined where there is no such gradient.
  const Tensor& find(const ArgumentLeaves& leaves) const;
};
// What is reached by either is one tensor: the program has one input for both.
struct SameTensor {
  Route a, b;
  bool holds(const ArgumentLeaves& leaves) const { return a.find(leaves).is_same(b.find(leaves)); }
};

struct SymbolRead {
  SymbolSource source;
  uint32_t symbol = 0;
};

// ---- Global state, in one word ----------------------------------------------------------------------------------------
inline constexpr uint64_t kGradModeBits = 0x1, kDefaultDTypeBits = 0xFF00;
uint64_t current_global_word();
// A fixed number in words; of a Float, its bits.
std::string text_of_number(NumberLeaf::Kind kind, int64_t bits);

// The tensors that guards look at: the leaves of the arguments, then gradients. None is null.
using GuardedTensors = std::span<const Tensor* const>;

struct GuardFacts {
  std::vector<TensorFacts> tensors;  // by leaf, then by gradient
  std::vector<Route> gradients;
  std::vector<NumberFacts> numbers;
  std::vector<CapturedFacts> captured;
  std::vector<Overlap> overlaps;
  std::vector<SameTensor> same;
  uint64_t structure = 0;
  uint64_t global_word = 0, global_mask = 0;  // the bits that matter
  std::vector<SymbolRead> reads;
  std::shared_ptr<const Expressions> tables;  // of the symbols
  size_t num_symbols = 0;                     // of the arguments: those of data-dependent results come later
  SymGuardProgram symbols;

  // What can be read unseen of the arguments of this call: their types and the plain numbers.
  GuardFacts() = default;
  GuardFacts(const ArgumentLeaves& leaves, const Callee& callee);

  size_t num_leaves() const { return tensors.size() - gradients.size(); }
  // Adds a gradient that the trace relied on, which it calls leaf `leaf`. Returns its facts.
  TensorFacts& add_gradient(uint32_t leaf, Route route, const Tensor& gradient);

  // Fixes the sizes, strides and numbers that the trace relied on, and reads the symbols that it needs. After the trace, and
  // when all gradients are there.
  void add_shapes(const ShapeEnv& shapes, std::shared_ptr<const Expressions> expressions);
  // Notes which tensors shared memory in this call, where one of them is written. After is_used and its like are set.
  void add_overlaps(const ArgumentLeaves& leaves);
  // What is guarded in this call; `room` holds it where there are gradients.
  GuardedTensors guarded(const ArgumentLeaves& leaves, SmallVector<const Tensor*, 8>& room) const;

  // "x: float32 [120, s0] cpu", "dim 0 of x fixed at 120 by view at net.cpp:12", …: a line for each thing that is checked.
  std::vector<std::string> describe() const;

 private:
  // The place in `tensors` of what the trace calls leaf `leaf`.
  uint32_t place_of(uint32_t leaf) const;
  std::vector<uint32_t> gradient_leaves_;  // by gradient
};

}  // namespace weft::compiler
