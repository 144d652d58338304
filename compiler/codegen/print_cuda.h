// CudaPrinter: expressions as scalar CUDA C++ over the names of the CUDA prelude.
// Needs cuda_prelude and tensor/expr. What it prints computes the bits of the CPU's kernels, but for the functions of
// Note [Functions with CUDA's instructions].
#pragma once

#include "compiler/codegen/cuda_prelude.h"
#include "tensor/expr/print_cpp.h"

namespace weft::compiler {

// Note [Functions with CUDA's instructions]
// A kernel at the speed of memory has some 40 instructions for an element of four bytes read and written, half as many for
// two bytes. exp, tanh and sigmoid of float take much of that by their bodies on the CPU, so they are CUDA's expf and tanhf,
// which use the chip's ex2 and rcp, and sigmoid by expf and an approximate reciprocal. Neither the speed of the bodies on the
// GPU nor the errors of these three have been measured yet. All other functions, and these for double, are the bodies of
// tensor/expr/math.h.
class CudaPrinter : public CppPrinter {
 public:
  std::string definitions() const override { return definitions_; }
  std::string type_of(DType dtype) const override { return cuda_type(dtype); }
  // The value in another dtype, rounded as memory of that dtype would.
  static CppValue cast(const CppValue& value, DType from, DType to);

 protected:
  CppValue constant(const ExprGraph::Node& node) override;
  CppValue operation(const ExprGraph& graph, const ExprGraph::Node& node,
                     std::span<const CppValue> args) override;
  std::string math_function(Prim prim, DType dtype) override;

 private:
  void define_remainder(const std::string& name, DType dtype);
  void define_angle(const std::string& name, Prim prim, DType dtype);
};

}  // namespace weft::compiler
