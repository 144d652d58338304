// Running a body that was written by hand on tensors, and comparing what it gives with eager ops.
// For tests of the interpreter and of code generators.
#pragma once

#include <gtest/gtest.h>

#include <weft.h>

#include "compiler/loops/interpreter.h"
#include "tests/compiler/body_builder.h"
#include "tests/compiler/number_slot.h"
#include "tests/support/compare.h"

namespace weft::compiler::tests {

using weft::tests::difference_of_bits;
using Axis = BodyFold::Axis;
using Each = BodyStore::Each;
using Tensors = std::vector<Tensor>;

constexpr DType f32 = DType::Float32, f64 = DType::Float64, i64 = DType::Int64, i32 = DType::Int32;

// A body with the arithmetic of its indices.
struct Body : BodyBuilder {
  Body(int64_t batches, int64_t rows, int64_t columns) : BodyBuilder(batches, rows, columns) {}
  Body() = default;

  Sym div(Sym a, int64_t d) { return table().binary(SymOp::FloorDiv, a, Sym::from_int(d)); }
  // The index of an element in a dense array over the loops.
  Sym dense() { return (b * body.rows + r) * body.columns + c; }

  std::vector<uint64_t> numbers;
  std::vector<int64_t> sizes;
  TableEnvironment environment{*body.expressions};
};

inline KernelError run(const Body& body, const Tensors& tensors, int threads = 3) {
  verify(body.body);
  const Interpreter interpreter(body.body);
  std::vector<void*> buffers;
  for (const Tensor& tensor : tensors) buffers.push_back(tensor.data_ptr());
  KernelError error;
  interpreter.run(buffers.data(), body.numbers.data(), body.sizes.data(), &error, threads);
  return error;
}
// The same with one thread and with several gives the same bits.
inline void expect_result(const Body& body, Tensors tensors, size_t out, const Tensor& want,
                          const std::string& what = "") {
  const Tensor start = tensors[out].clone();
  for (const int threads : {1, 2, 5}) {
    tensors[out].copy_(start);
    EXPECT_EQ(run(body, tensors, threads).check, 0);
    ASSERT_EQ(difference_of_bits(tensors[out], want), "") << what << " on " << threads << " threads\n"
                                                          << to_string(body.body);
  }
}

inline Tensor values(const SymList& sizes, DType dtype) {
  if (is_floating(dtype)) return randn(sizes).to(dtype);
  if (dtype == DType::Bool) return randint(2, sizes).to(dtype);
  return randint(dtype == DType::UInt8 ? 0 : -100, 101, sizes).to(dtype);
}

}  // namespace weft::compiler::tests
