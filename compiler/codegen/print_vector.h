// VectorPrinter: expressions as C++ over the sixteen lanes of the vocabulary.
// Needs cpu_prelude and tensor/expr. What it prints computes the bits of the Vec kernels.
#pragma once

#include "compiler/codegen/cpu_prelude.h"
#include "tensor/expr/print_cpp.h"

namespace weft::compiler {

// Values are vectors, truth values masks of the width of what made them. Small integers are i32 within their range, halves
// f32 that memory would hold unchanged. Math functions work on pieces of one register, as the library's do.
class VectorPrinter : public CppPrinter {
 public:
  explicit VectorPrinter(CpuTarget target) : target_(target) {}

  // Of the math functions; what they use of the vocabulary is found in the text.
  std::string definitions() const override { return definitions_; }

  std::string type_of(DType dtype) const override;
  // The value in another dtype, rounded as memory of that dtype would.
  CppValue cast(const CppValue& value, DType from, DType to) const;
  // A mask as one for elements of so many bits.
  std::string mask_for(const CppValue& mask, int bits) const;

 protected:
  CppValue constant(const ExprGraph::Node& node) override;
  CppValue operation(const ExprGraph& graph, const ExprGraph::Node& node,
                     std::span<const CppValue> args) override;
  std::string math_function(Prim prim, DType dtype) override;

 private:
  CppValue compare_masks(Prim prim, const CppValue& a, const CppValue& b) const;
  void define(const std::string& name, Prim prim, DType dtype);
  void define_remainder(const std::string& name, DType dtype);
  void define_angle(const std::string& name, Prim prim, DType dtype);

  CpuTarget target_;
  int lanes_ = kCpuLanes;  // of the values being printed
};

}  // namespace weft::compiler
