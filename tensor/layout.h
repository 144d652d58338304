// Layout<S>: where the elements of a strided tensor lie, over plain integers or Sym.
// Needs shape. Views are rules on layouts (view_rules.h), shared by eager views, fake tensors and index maps.
#pragma once

#include "tensor/shape.h"

namespace weft {

// Element (i0, i1, …) lies at offset + Σ i_d · strides[d], in elements of the dtype from the start of the storage.
template <class S>
struct Layout {
  SmallVector<S, kInlineRank> sizes;
  SmallVector<S, kInlineRank> strides;
  S offset{};

  int64_t rank() const { return static_cast<int64_t>(sizes.size()); }
};

namespace detail {
template <class S>
S size_of_int(int64_t value) {
  if constexpr (std::is_same_v<S, Sym>) return Sym::from_int(value);
  else return value;
}
}  // namespace detail

template <class S>
S numel(const Layout<S>& layout) {
  S result = detail::size_of_int<S>(1);
  for (const S& size : layout.sizes) result = result * size;
  return result;
}

// Row-major strides for the sizes. A dimension of size 0 counts as 1, as in PyTorch.
template <class S>
SmallVector<S, kInlineRank> contiguous_strides(const SmallVector<S, kInlineRank>& sizes) {
  SmallVector<S, kInlineRank> strides(sizes.size(), detail::size_of_int<S>(1));
  S step = detail::size_of_int<S>(1);
  for (size_t d = sizes.size(); d-- > 0;) {
    strides[d] = step;
    if (!statically_known(SymCompare::Eq, sizes[d], detail::size_of_int<S>(0))) step = step * sizes[d];
  }
  return strides;
}

template <class S>
Layout<S> contiguous_layout(SmallVector<S, kInlineRank> sizes) {
  auto strides = contiguous_strides(sizes);
  return {std::move(sizes), std::move(strides), detail::size_of_int<S>(0)};
}

// True if the elements lie in row-major order without gaps. Strides of size-1 dimensions carry no information. Strides are
// asked before sizes: where all match, nothing need be known of a symbolic size.
template <class S>
bool is_contiguous(const Layout<S>& layout) {
  S expected = detail::size_of_int<S>(1);
  for (size_t d = layout.sizes.size(); d-- > 0;) {
    if (layout.strides[d] == expected) {
      if (d > 0) expected = expected * layout.sizes[d];
      continue;
    }
    if (layout.sizes[d] == 1) continue;
    for (const S& size : layout.sizes)
      if (size == 0) return true;
    return false;
  }
  return true;
}

// Strides without gaps for these sizes, with the dimensions in the order that the inputs' strides have, 0 where one does not tell
// (it broadcasts). The first input that tells two dimensions apart decides; what none tells stays row-major.
Sizes ordered_strides(const Sizes& sizes, std::span<const Sizes> inputs);

// PyTorch's preserve_format: the strides of a new tensor that keeps the order of the dimensions in memory, without gaps;
// those of the layout itself if it has neither gaps nor overlaps.
Sizes dense_strides(const Layout<Sym>& layout);

// True if two different indices may reach the same element (a stride of 0, or strides that interleave).
bool may_self_overlap(const Layout<Sym>& layout);

// The first and one past the last element that the layout reaches, relative to its storage; {0, 0} when it is empty.
struct Extent {
  int64_t begin, end;
};
Extent extent(const Layout<Sym>& layout);

}  // namespace weft
