// What the entries of other kinds need from the views: gradients of broadcasting and of writing through a view.
// Needs dispatch.
#pragma once

#include "tensor/dispatch.h"

namespace weft {

// The transpose of broadcasting: sums x over the dimensions that a tensor of `sizes` was stretched along. Leading
// dimensions of size 1 that x lacks are added.
Tensor sum_to(const Tensor& x, const SymList& sizes, WEFT_HERE);

// Zeros of `sizes`, or a copy of x where it is defined, with `source` written through the view that `view_op` makes with
// these attributes. Where the view reaches a place several times, zeros take the sum. Differentiable in x and source.
Tensor scatter_through_view(const Op& view_op, const Attrs& attrs, const SymList& sizes, const Tensor& source,
                            const Tensor& x, SourceLocation where);

}  // namespace weft
