// Products that finish their result while they write it: bias, addend and activation in one op each.
// Needs functions.h. Users call linear(), relu() and their like; the compiler puts these in their place on a GPU.
#pragma once

#include "tensor/tensor.h"

namespace weft {

class OpTable;
void register_product_epilogue_ops(OpTable& table);  // register_matmul_ops calls it

enum class Activation : uint8_t { None, Relu, GeluTanh };

// activation(a · b + bias + addend), rounded once.
// Shapes: a [m, k], b [k, n], bias [n] or undefined, addend [m, n] or undefined -> [m, n].  Dtypes: floating, all the same.
Tensor mm_epilogue(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& addend,
                   Activation activation, SourceLocation where = SourceLocation::current());

}  // namespace weft
