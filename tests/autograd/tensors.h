// Tensors of given numbers for the tests of autograd.
#pragma once

#include <gtest/gtest.h>

#include "autograd/grad.h"
#include "autograd/grad_mode.h"
#include "tensor/dispatch.h"
#include "tests/support/error_text.h"

namespace weft::testing {

using namespace ::testing;  // `testing::Test` in namespace weft is still that of GoogleTest

inline Tensor values(const std::vector<double>& numbers, const std::vector<int64_t>& sizes,
                     DType dtype = kFloat64) {
  Tensor x = make_tensor(Sizes(SymList(sizes)), kFloat64);
  std::copy(numbers.begin(), numbers.end(), x.data_ptr<double>());
  if (dtype == kFloat64) return x;
  Tensor converted = make_tensor(Sizes(SymList(sizes)), dtype);
  copy_data(x, converted);
  return converted;
}
inline Tensor vector(const std::vector<double>& numbers, DType dtype = kFloat64) {
  return values(numbers, {static_cast<int64_t>(numbers.size())}, dtype);
}
inline Tensor number(double value, DType dtype = kFloat64) { return values({value}, {}, dtype); }
inline Tensor leaf(const std::vector<double>& numbers, DType dtype = kFloat64) {
  return vector(numbers, dtype).requires_grad_();
}
inline std::vector<double> list(const Tensor& x) {
  return x.defined() ? x.to_vector<double>() : std::vector<double>();
}
using List = std::vector<double>;

using tests::error_of;
using tests::expect_contains;

}  // namespace weft::testing
