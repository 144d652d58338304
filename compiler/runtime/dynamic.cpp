// DynamicState: joins what calls bring, and answers from it.
#include "compiler/runtime/dynamic.h"

#include <algorithm>

#include "compiler/trace/guard_words.h"

namespace weft::compiler {
namespace {

// Plain integers and bools, and sizes that the function turns into integers: a short last batch or a few modes are not
// worth following a function at each call.
constexpr size_t kFixedInts = 4;

// For each dimension the one next below it in memory, or -1 for the innermost; dimensions of size 1 have no place.
SmallVector<int64_t, kInlineRank> inner_neighbours(const int64_t* sizes, const int64_t* strides,
                                                   size_t rank) {
  SmallVector<int64_t, kInlineRank> order, inner(rank, -1);
  for (size_t d = rank; d-- > 0;)
    if (sizes[d] != 1) order.push_back(static_cast<int64_t>(d));
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return strides[a] < strides[b]; });
  for (size_t i = 1; i < order.size(); ++i) inner[order[i]] = order[i - 1];
  return inner;
}

}  // namespace

// Note [Lattice of sizes]
// Unset joins with anything to the other; equal values stay; different ones become Differs, and that is final. The key is
// the leaf together with its rank, so that a [4, 4] after a [4] says nothing about it. A stride that follows from the
// sizes needs no symbol however the sizes move. One that follows in some calls only belongs to tensors of different
// layouts, a transposed one beside a plain one: a symbolic stride would cost both their fast loops.
DimHistory join(const DimHistory& a, const DimHistory& b) {
  using Kind = DimHistory::Kind;
  if (a.kind == Kind::Unset || a == b) return b;
  if (b.kind == Kind::Unset) return a;
  if (a.kind == Kind::Follows || b.kind == Kind::Follows || a.kind == Kind::Mixed || b.kind == Kind::Mixed)
    return {Kind::Mixed, 0};
  return {Kind::Differs, 0};
}

void DynamicState::observe(const ArgumentLeaves& leaves) {
  using Kind = DimHistory::Kind;
  for (uint32_t leaf = 0; leaf < leaves.tensors.size(); ++leaf) {
    const Tensor& x = *leaves.tensors[leaf];
    if (!x.defined()) continue;
    const size_t rank = x->layout.sizes.size();
    const int64_t *const sizes = ints(x->layout.sizes), *const strides = ints(x->layout.strides);
    TensorHistory& history = tensors_[{leaf, rank}];
    history.sizes.resize(rank);
    history.strides.resize(rank);
    // A size that the user holds fixed says nothing about other tensors.
    const auto is_held = [&](size_t d) {
      for (const DimMark& mark : marks_of(x))
        if (mark.dim == d && mark.is_static) return true;
      return false;
    };
    const auto inner = inner_neighbours(sizes, strides, rank);
    for (size_t d = 0; d < rank; ++d) {
      if (!is_held(d)) history.sizes[d] = join(history.sizes[d], {Kind::Value, sizes[d]});
      if (sizes[d] <= 1) continue;  // its stride says nothing
      const bool follows = inner[d] >= 0 && strides[d] == sizes[inner[d]] * strides[inner[d]];
      history.strides[d] = join(history.strides[d],
                                follows ? DimHistory{Kind::Follows, 0} : DimHistory{Kind::Value, strides[d]});
    }
  }
  if (numbers_.size() < leaves.numbers.size()) numbers_.resize(leaves.numbers.size());
  for (uint32_t leaf = 0; leaf < leaves.numbers.size(); ++leaf) {
    const NumberLeaf& number = leaves.numbers[leaf];
    if (number.kind == NumberLeaf::Kind::Scalar) continue;
    NumberHistory& history = numbers_[leaf];
    history.kind = number.kind;
    const uint64_t bits = bits_of(number.value);
    const bool is_known =
        std::find(history.values.begin(), history.values.end(), bits) != history.values.end();
    if (!is_known && history.values.size() <= kFixedInts) history.values.push_back(bits);
  }
}

const DynamicState::TensorHistory* DynamicState::find(uint32_t leaf, const Tensor& x) const {
  const auto found = tensors_.find({leaf, x->layout.sizes.size()});
  return found != tensors_.end() ? &found->second : nullptr;
}

std::vector<DimPolicy> DynamicState::policies(uint32_t leaf, const Tensor& x) const {
  const size_t rank = x->layout.sizes.size();
  std::vector<DimPolicy> result(rank);
  const TensorHistory* history = find(leaf, x);
  for (size_t d = 0; d < rank; ++d) {
    const bool differs = history != nullptr && history->sizes[d].kind == DimHistory::Kind::Differs;
    if (dynamic_.value_or(differs)) result[d].kind = DimPolicy::Kind::Dynamic;
  }
  for (const DimMark& mark : marks_of(x)) {
    if (mark.dim >= rank) continue;  // the tensor has lost dimensions since
    if (mark.is_static) result[mark.dim] = {};
    else result[mark.dim] = {DimPolicy::Kind::Declared, {mark.range.min, mark.range.max}};
  }
  return result;
}

uint64_t DynamicState::dynamic_strides(uint32_t leaf, const Tensor& x) const {
  const TensorHistory* history = find(leaf, x);
  if (history == nullptr || dynamic_ == false) return 0;
  // With symbolic sizes on top, hardly anything would be known of the layout.
  for (const DimPolicy& policy : policies(leaf, x))
    if (policy.kind != DimPolicy::Kind::Static) return 0;
  uint64_t bits = 0;
  for (size_t d = 0; d < history->strides.size() && d < 64; ++d)
    if (history->strides[d].kind == DimHistory::Kind::Differs) bits |= uint64_t{1} << d;
  return bits;
}

DimPolicy DynamicState::size_policy(uint32_t leaf) const {
  const bool differs = leaf < numbers_.size() && numbers_[leaf].values.size() > 1;
  return {dynamic_.value_or(differs) ? DimPolicy::Kind::Dynamic : DimPolicy::Kind::Static, {}};
}

NumberPolicy DynamicState::number_policy(uint32_t leaf) const {
  if (leaf >= numbers_.size()) return NumberPolicy::Fixed;
  const NumberHistory& history = numbers_[leaf];
  const size_t allowed = history.kind == NumberLeaf::Kind::Float ? 1 : kFixedInts;
  return history.values.size() > allowed ? NumberPolicy::Lifted : NumberPolicy::Fixed;
}

bool DynamicState::is_fixed_too_often(const GuardFailure& failure, const ArgumentLeaves& leaves) {
  if (failure.field != GuardFailure::Field::Size || failure.leaf >= leaves.tensors.size()) return false;
  // 0 and 1 have programs of their own by rule, and static sizes were fixed by us.
  if (failure.got <= 1 || failure.expected <= 1) return false;
  const auto policy = policies(failure.leaf, *leaves.tensors[failure.leaf])[failure.dim];
  if (policy.kind == DimPolicy::Kind::Static) return false;
  return ++fixed_[{failure.leaf, failure.dim}] >= kFixedInts;
}

}  // namespace weft::compiler
