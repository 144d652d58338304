// DynamicState: which sizes, strides and numbers of the arguments of one compiled object become symbols.
// Needs trace/guards and trace/marks. The call path asks it before each trace and tells it what calls bring.
#pragma once

#include <map>

#include "compiler/trace/guards.h"
#include "compiler/trace/marks.h"

namespace weft::compiler {

// What the calls that were compiled so far say of one size or stride. Note [Lattice of sizes]
struct DimHistory {
  enum class Kind : uint8_t {
    Unset,
    Value,    // always `value`
    Follows,  // a stride: the size times the stride of the dimension next below it in memory
    Mixed,    // a stride that follows in some calls only: each layout gets a program of its own
    Differs,
  };
  Kind kind = Kind::Unset;
  int64_t value = 0;
  friend bool operator==(const DimHistory&, const DimHistory&) = default;
};
DimHistory join(const DimHistory& a, const DimHistory& b);

// How a plain number of the arguments enters the next trace.
enum class NumberPolicy : uint8_t {
  Fixed,   // guarded by value
  Lifted,  // it has changed too often: read at each call, by a function that is followed
};

// Not thread-safe: used under the lock of the compiled object.
class DynamicState {
 public:
  // As CompileOptions::dynamic: true makes every size a symbol from the first call, false none; marks hold in any case.
  explicit DynamicState(std::optional<bool> dynamic = {}) : dynamic_(dynamic) {}

  // Takes in the arguments of a call that is about to be compiled. Before the questions below.
  void observe(const ArgumentLeaves& leaves);

  // One for each dimension of tensor leaf `leaf`, which is x in this call.
  std::vector<DimPolicy> policies(uint32_t leaf, const Tensor& x) const;
  // Bit d: the stride of dimension d should become a symbol unless it follows from the sizes.
  uint64_t dynamic_strides(uint32_t leaf, const Tensor& x) const;
  // For a number leaf of kind Size.
  DimPolicy size_policy(uint32_t leaf) const;
  // For one of kind Float, Int or Bool: a float is lifted at its second value, the others at their fifth.
  NumberPolicy number_policy(uint32_t leaf) const;

  // Takes in why a call missed, after observe(). True at the fifth value of a symbolic size that the function itself
  // fixes, as one does that turns it into an int64_t: the function should be followed instead.
  bool is_fixed_too_often(const GuardFailure& failure, const ArgumentLeaves& leaves);

 private:
  struct TensorHistory {
    SmallVector<DimHistory, kInlineRank> sizes, strides;
  };
  struct NumberHistory {
    SmallVector<uint64_t, 5> values;  // distinct ones, as many as are of interest
    NumberLeaf::Kind kind = NumberLeaf::Kind::Float;
  };
  const TensorHistory* find(uint32_t leaf, const Tensor& x) const;

  std::optional<bool> dynamic_;
  std::map<std::pair<uint32_t, size_t>, TensorHistory> tensors_;  // by leaf and rank
  std::vector<NumberHistory> numbers_;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t>
      fixed_;  // by leaf and dim: how often it missed as a fixed size
};

}  // namespace weft::compiler
