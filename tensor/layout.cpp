// Layout: questions about overlap and extent, on concrete sizes.
// Place: the out-of-line half of tensor/layout.h.
#include "tensor/layout.h"

#include <algorithm>

namespace weft {

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
    (stride < 0 ? low : high) += stride * (size - 1);
  }
  return {low, high + 1};
}

}  // namespace weft
