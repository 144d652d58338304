// Samples: what the table harness feeds an op.
// Needs the standard library only, so that kernel files do not depend on tensors.
#pragma once

#include <string>
#include <vector>

namespace weft {

struct Samples {
  double low = -3, high = 3;
  bool specials = true;         // NaN, infinities, zeros and subnormals too
  bool distinct = false;        // avoid ties
  bool check_gradient = true;   // compare with finite differences
  bool nonzero_second = false;  // a divisor: keep away from 0
  // Calls that a generic sampler cannot invent: text of boxed arguments, e.g. "x=[3,4] dims=[0] keepdim=True". A tensor is
  // its sizes; "[3]:i64<5" holds indices below 5, "[3]:bool" a mask; a list is "[[2,3],[2,4]]".
  std::vector<std::string> calls = {};
};

}  // namespace weft
