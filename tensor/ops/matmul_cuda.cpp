// Describing strided row-major products to cuBLASLt, which thinks in columns.
// Place: the out-of-line half of tensor/ops/matmul_cuda.h.
#include "tensor/ops/matmul_cuda.h"

#include <algorithm>

#include "tensor/cuda/matmul_precision.h"
#include "tensor/cuda/products.h"
#include "tensor/functions.h"
#include "tensor/ops/on_cpu.h"
#include "tensor/view_rules.h"

namespace weft {
namespace {

// One factor, [batch, rows, columns] in elements.
struct Factor {
  Tensor x;  // keeps a copy
  int64_t batch = 1, rows = 1, columns = 1;
  int64_t batch_stride = 0, row_stride = 0, column_stride = 0;

  // The stride between rows, or between columns where those are not adjacent; 0 if neither are.
  bool is_transposed = false;
  int64_t leading = 0;

  void choose() {
    if ((column_stride == 1 || columns == 1) && (row_stride >= columns || rows == 1)) {
      is_transposed = false;
      leading = rows == 1 ? columns : row_stride;
    } else if ((row_stride == 1 || rows == 1) && (column_stride >= rows || columns == 1)) {
      is_transposed = true;
      leading = columns == 1 ? rows : column_stride;
    } else {
      leading = 0;
    }
  }
};

// A vector is a row on the left and a column on the right. What has no adjacent elements is copied.
Factor factor_of(const Tensor& given, bool is_left) {
  for (const bool is_copy : {false, true}) {
    Factor f;
    f.x = given;
    if (is_copy) {
      f.x = make_tensor(given->layout.sizes, given->dtype, given->device);
      copy_data(given, f.x);
    }
    const int64_t *sizes = int_sizes(f.x), *strides = int_strides(f.x);
    if (f.x.dim() == 1) {
      (is_left ? f.columns : f.rows) = sizes[0];
      (is_left ? f.column_stride : f.row_stride) = strides[0];
      // The other dimension has one element.
      (is_left ? f.row_stride : f.column_stride) = is_left ? sizes[0] : 1;
    } else {
      const size_t first = f.x.dim() == 3 ? 1 : 0;
      if (first == 1) f.batch = sizes[0], f.batch_stride = strides[0];
      f.rows = sizes[first], f.columns = sizes[first + 1];
      f.row_stride = strides[first], f.column_stride = strides[first + 1];
    }
    f.choose();
    if (f.leading > 0) return f;
  }
  return {};
}

std::optional<cuda::Matmul::Type> type_of(DType dtype) {
  switch (dtype) {
    case DType::Float32: return cuda::Matmul::Type::F32;
    case DType::Float64: return cuda::Matmul::Type::F64;
    case DType::BFloat16: return cuda::Matmul::Type::BF16;
    case DType::Float16: return cuda::Matmul::Type::F16;
    default: return std::nullopt;  // integers: the CPU computes
  }
}

// The largest power of two up to 16 that divides the address.
uint8_t alignment_of(const void* address) {
  uintptr_t bits = reinterpret_cast<uintptr_t>(address) | 16;
  return static_cast<uint8_t>(bits & -bits);
}

// What is done with a product before it is written.
struct Finish {
  double alpha = 1, beta = 0;
  const Tensor* added =
      nullptr;  // beta times this; row-major, of the sizes of the result. Null: what is there
  const Tensor* bias = nullptr;  // [columns of the result]
  Activation activation = Activation::None;
};

cuda::Matmul::Epilogue epilogue_of(const Finish& finish) {
  using E = cuda::Matmul::Epilogue;
  const bool has_bias = finish.bias != nullptr;
  switch (finish.activation) {
    case Activation::Relu: return has_bias ? E::ReluBias : E::Relu;
    case Activation::GeluTanh: return has_bias ? E::GeluBias : E::Gelu;
    default: return has_bias ? E::Bias : E::None;
  }
}

// False, with nothing done, if cuBLASLt cannot do it so.
bool multiply(const Tensor& a, const Tensor& b, const Tensor& out, const Finish& finish) {
  const Factor left = factor_of(a, true), right = factor_of(b, false);
  cuda::Matmul what;
  what.type = what.out_type = *type_of(out->dtype);
  what.compute = out->dtype == DType::Float64                          ? cuda::Matmul::Compute::F64
                 : out->dtype == DType::Float32 && cuda::allows_tf32() ? cuda::Matmul::Compute::TF32
                                                                       : cuda::Matmul::Compute::F32;
  what.epilogue = epilogue_of(finish);
  what.reads_c = finish.beta != 0;
  // out is row-major [m, n]: in columns [n, m], the transposed factors change places.
  what.m = right.columns, what.n = left.rows, what.k = left.columns;
  what.transpose_a = right.is_transposed, what.transpose_b = left.is_transposed;
  what.lda = right.leading, what.ldb = left.leading, what.ldd = what.m;
  what.batch = left.batch;
  if (what.batch > 1) {
    what.stride_a = right.batch_stride, what.stride_b = left.batch_stride;
    what.stride_d = what.m * what.n;
  }
  cuda::ProductOperands operands{.a = bytes_of(right.x), .b = bytes_of(left.x), .d = bytes_of(out)};
  operands.alpha = finish.alpha, operands.beta = finish.beta;
  if (finish.bias != nullptr) operands.bias = bytes_of(*finish.bias);
  if (finish.added != nullptr) operands.c = bytes_of(*finish.added);
  what.alignment = std::min({alignment_of(operands.a), alignment_of(operands.b), alignment_of(operands.d),
                             alignment_of(operands.bias), alignment_of(operands.c)});
  const cuda::DeviceGuard guard(out->device.index);
  return cuda::multiply(what, operands);
}

void multiply_plainly(const Tensor& a, const Tensor& b, const Tensor& out, const Finish& finish) {
  WEFT_CHECK(multiply(a, b, out, finish), "matmul: cuBLASLt has no algorithm for ", describe(a), " and ",
             describe(b));
}

// Every element of out.
void fill_zero(const Tensor& out) {
  const cuda::Driver& driver = cuda::driver();
  const cuda::DeviceGuard guard(out->device.index);
  cuda::check(driver, driver.memset(bytes_of(out), 0, out.nbytes(), cuda::current_stream(out->device.index)),
              "filling with zeros");
}

// x is a row that is added to every row of out.
bool is_row_of(const Tensor& x, const Tensor& out) {
  return x->is_contiguous && int_numel(x) == int_sizes(out)[out.dim() - 1] &&
         (x.dim() == 0 || int_sizes(x)[x.dim() - 1] == int_numel(x));
}

Scalar number_in(const Call& call, size_t slot) {
  return slot < call.operands.size() && call.operands[slot].is_scalar ? call.operands[slot].scalar
                                                                      : Scalar(1);
}

}  // namespace

void run_product_on_cuda(const Call& call, std::span<Tensor> outputs) {
  const Tensor &a = call.tensor(0), &b = call.tensor(1), &out = outputs[0];
  if (!type_of(out->dtype)) return run_on_cpu(call, outputs);
  if (int_numel(out) == 0) return;
  if (int_numel(a) == 0) return fill_zero(out);
  multiply_plainly(a, b, out, {});
}

void run_added_on_cuda(const Call& call, std::span<Tensor> outputs) {
  const Tensor &x = call.tensor(0), &a = call.tensor(1), &b = call.tensor(2), &out = outputs[0];
  if (!type_of(out->dtype)) return run_on_cpu(call, outputs);
  if (int_numel(out) == 0) return;
  Finish finish;
  finish.alpha = number_in(call, 4).to_double(), finish.beta = number_in(call, 3).to_double();
  if (finish.beta == 1 && int_numel(a) > 0 && is_row_of(x, out) && out->dtype != DType::Float64) {
    Finish with_bias{.alpha = finish.alpha, .bias = &x};
    if (multiply(a, b, out, with_bias)) return;
  }
  // With beta 0 nothing of x counts, not even its NaN.
  if (finish.beta == 0) return int_numel(a) > 0 ? multiply_plainly(a, b, out, finish) : fill_zero(out);
  if (int_numel(a) > 0 && x->is_contiguous && x.sizes() == out.sizes()) {
    finish.added = &x;
    return multiply_plainly(a, b, out, finish);
  }
  copy_data(make_view(x, view_rules::expand<Sym>(x->layout, out->layout.sizes)), out);
  if (int_numel(a) > 0) return multiply_plainly(a, b, out, finish);
  if (finish.beta != 1) {
    const AutoGradMode off(false);
    copy_data(mul(out, Scalar(finish.beta), call.where), out);
  }
}

bool finish_product_on_cuda(const Call& call, const Tensor& out, Activation activation) {
  const Tensor &a = call.tensor(0), &b = call.tensor(1);
  if (!type_of(out->dtype) || out->dtype == DType::Float64 || int_numel(out) == 0 || int_numel(a) == 0)
    return false;
  Finish finish;
  finish.activation = activation;
  if (call.has_tensor(2)) {
    finish.bias = &call.tensor(2);
    if (!(*finish.bias)->is_contiguous) return false;
  }
  if (call.has_tensor(3)) {
    finish.added = &call.tensor(3);
    finish.beta = 1;
    if (!(*finish.added)->is_contiguous) return false;
  }
  return multiply(a, b, out, finish);
}

}  // namespace weft
