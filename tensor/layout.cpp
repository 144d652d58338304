// Layout: questions about overlap and extent, on concrete sizes.
// Place: the out-of-line half of tensor/layout.h.
#include "tensor/layout.h"

#include <algorithm>

namespace weft {

namespace {

// True if the elements fill a block of memory, each place once, in some order of the dimensions.
bool is_dense(const Layout<Sym>& layout) {
  SmallVector<size_t, kInlineRank> order;
  for (size_t d = 0; d < layout.sizes.size(); ++d) {
    if (layout.sizes[d] == 0) return true;
    if (layout.sizes[d] != 1) order.push_back(d);
  }
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return layout.strides[a] < layout.strides[b]; });
  Sym expected = Sym::from_int(1);
  for (size_t d : order) {
    if (layout.strides[d] != expected) return false;
    expected = expected * layout.sizes[d];
  }
  return true;
}

}  // namespace

Sizes ordered_strides(const Sizes& sizes, std::span<const Sizes> inputs) {
  // Positive: dimension a must lie outside b; negative: inside; 0: the inputs do not tell.
  const auto compare = [&](size_t a, size_t b) {
    for (const Sizes& strides : inputs) {
      if (strides[a] == 0 || strides[b] == 0) continue;
      if (strides[a] < strides[b]) return -1;
      if (strides[a] > strides[b] || sizes[a] > sizes[b]) return 1;
    }
    return 0;
  };
  SmallVector<size_t, kInlineRank> order;  // innermost first
  for (size_t d = sizes.size(); d-- > 0;) order.push_back(d);
  for (size_t i = 1; i < order.size(); ++i) {
    size_t at = i;
    for (size_t j = i; j-- > 0;) {
      const int outcome = compare(order[j], order[at]);
      if (outcome < 0) break;
      if (outcome == 0) continue;
      std::swap(order[j], order[at]);
      at = j;
    }
  }
  Sizes strides(sizes.size(), Sym::from_int(1));
  Sym step = Sym::from_int(1);
  for (size_t d : order) {
    strides[d] = step;
    if (!statically_known(SymCompare::Eq, sizes[d], Sym::from_int(0))) step = step * sizes[d];
  }
  return strides;
}

Sizes dense_strides(const Layout<Sym>& layout) {
  if (is_contiguous(layout) || is_dense(layout)) return layout.strides;
  return ordered_strides(layout.sizes, {&layout.strides, 1});
}

bool may_self_overlap(const Layout<Sym>& layout) {
  struct Axis {
    int64_t size, stride;
  };
  SmallVector<Axis, kInlineRank> axes;
  for (int64_t d = 0; d < layout.rank(); ++d) {
    const int64_t size = layout.sizes[d];
    if (size == 0) return false;
    if (size > 1) axes.push_back({size, std::abs(static_cast<int64_t>(layout.strides[d]))});
  }
  std::sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) { return a.stride < b.stride; });
  // Every stride must step over all that the smaller ones can reach.
  int64_t reach = 0;
  for (const Axis& axis : axes) {
    if (axis.stride <= reach) return true;
    reach += axis.stride * (axis.size - 1);
  }
  return false;
}

Extent extent(const Layout<Sym>& layout) {
  int64_t low = layout.offset, high = layout.offset;
  for (int64_t d = 0; d < layout.rank(); ++d) {
    const int64_t size = layout.sizes[d], stride = layout.strides[d];
    if (size == 0) return {0, 0};
    int64_t step;
    int64_t& side = stride < 0 ? low : high;
    if (__builtin_mul_overflow(stride, size - 1, &step)) detail::throw_size_overflow("*", stride, size - 1);
    if (__builtin_add_overflow(side, step, &side)) detail::throw_size_overflow("+", side, step);
  }
  int64_t end;
  if (__builtin_add_overflow(high, 1, &end)) detail::throw_size_overflow("+", high, 1);
  return {low, end};
}

}  // namespace weft
