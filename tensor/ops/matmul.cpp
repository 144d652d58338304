// The matrix products of the table: mm, bmm, mv, dot, addmm, baddbmm, and matmul, linear and outer made of them.
// Place: extern.cpp calls register_matmul_ops; the kernels are in tensor/cpu/blas.h and gemm.h.
#include "tensor/cpu/blas.h"
#include "tensor/ops/check.h"
#include "tensor/ops/entry.h"
#include "tensor/ops/matmul_cuda.h"
#include "tensor/ops/register.h"
#include "tensor/ops/view.h"

namespace weft {
namespace {

// ---- Rules ------------------------------------------------------------------------------------------------------------

void check_rank(const char* op, const char* name, const Tensor& x, int64_t rank, SourceLocation where) {
  WEFT_CHECK_AT(where, x.dim() == rank, op, ": ", name, " is ", describe(x), ", but needs ", rank,
                rank == 1 ? " dimension" : " dimensions");
}

void check_types(const char* op, const char* name_a, const Tensor& a, const char* name_b, const Tensor& b,
                 SourceLocation where) {
  WEFT_CHECK_AT(where, a.dtype() == b.dtype(), op, ": ", name_a, " is ", describe(a), " and ", name_b, " is ",
                describe(b), "; both must have the same dtype: convert one with to()");
  WEFT_CHECK_AT(where, a.dtype() != DType::Bool, op, ": ", name_a, " and ", name_b,
                " are bool, which has no products; convert them with to()");
}

// a.size(i) and b.size(j) are summed over.
void check_contracted(const char* op, const Tensor& a, int64_t i, const Tensor& b, int64_t j,
                      SourceLocation where, const char* name_a = "a", const char* name_b = "b") {
  WEFT_CHECK_AT(where, a.size(i) == b.size(j), op, ": ", name_a, " ", a.sizes(), " and ", name_b, " ",
                b.sizes(), " disagree on the contracted dimension: ", name_a, ".size(", i, ") is ", a.size(i),
                ", ", name_b, ".size(", j, ") is ", b.size(j));
}

OutputSpecs result(const Tensor& like, Sizes sizes) {
  return {OutputSpec{std::move(sizes), like.dtype(), like.device()}};
}

OutputSpecs product_spec(const Call& call, const Tensor& a, const char* name_a, const Tensor& b,
                         const char* name_b, int64_t rank) {
  check_rank(call.name(), name_a, a, rank, call.where);
  check_rank(call.name(), name_b, b, rank, call.where);
  check_types(call.name(), name_a, a, name_b, b, call.where);
  if (rank == 3)
    WEFT_CHECK(a.size(0) == b.size(0), call.name(), ": ", name_a, " ", a.sizes(), " and ", name_b, " ",
               b.sizes(), " disagree on the batch: ", name_a, ".size(0) is ", a.size(0), ", ", name_b,
               ".size(0) is ", b.size(0));
  check_contracted(call.name(), a, rank - 1, b, rank - 2, call.where, name_a, name_b);
  Sizes sizes;
  if (rank == 3) sizes.push_back(a.size(0));
  sizes.push_back(a.size(rank - 2));
  sizes.push_back(b.size(rank - 1));
  return result(a, std::move(sizes));
}

OutputSpecs infer_mm(const Call& call) {
  return product_spec(call, call.tensor(0), "a", call.tensor(1), "b", 2);
}
OutputSpecs infer_bmm(const Call& call) {
  return product_spec(call, call.tensor(0), "a", call.tensor(1), "b", 3);
}

OutputSpecs infer_mv(const Call& call) {
  const Tensor &a = call.tensor(0), &x = call.tensor(1);
  check_rank(call.name(), "a", a, 2, call.where);
  check_rank(call.name(), "x", x, 1, call.where);
  check_types(call.name(), "a", a, "x", x, call.where);
  check_contracted(call.name(), a, 1, x, 0, call.where, "a", "x");
  return result(a, {a.size(0)});
}

OutputSpecs infer_dot(const Call& call) {
  const Tensor &a = call.tensor(0), &b = call.tensor(1);
  check_rank(call.name(), "a", a, 1, call.where);
  check_rank(call.name(), "b", b, 1, call.where);
  check_types(call.name(), "a", a, "b", b, call.where);
  check_contracted(call.name(), a, 0, b, 0, call.where);
  return result(a, {});
}

Scalar number(const Call& call, size_t slot) {
  return slot < call.operands.size() && call.operands[slot].is_scalar ? call.operands[slot].scalar
                                                                      : Scalar(1);
}

// addmm and baddbmm: x broadcasts to the product.
OutputSpecs infer_added(const Call& call) {
  const Tensor& x = call.tensor(0);
  OutputSpecs specs =
      product_spec(call, call.tensor(1), "a", call.tensor(2), "b", call.tensor(1).dim() == 3 ? 3 : 2);
  const Sizes& sizes = specs[0].sizes;
  check_types(call.name(), "x", x, "a", call.tensor(1), call.where);
  bool fits = x.dim() <= static_cast<int64_t>(sizes.size());
  for (int64_t d = 1; fits && d <= x.dim(); ++d) {
    const Sym size = x.size(-d);
    fits = size == sizes[sizes.size() - static_cast<size_t>(d)] || size == 1;
  }
  WEFT_CHECK(fits, call.name(), ": x ", x.sizes(), " does not broadcast to the product's sizes ", sizes);
  if (!is_floating(x.dtype())) {
    for (size_t slot : {3, 4})
      WEFT_CHECK(!number(call, slot).is_floating(), call.name(), ": ", slot == 3 ? "beta" : "alpha", " is ",
                 number(call, slot), ", but the tensors are ", x.dtype(), ": it must be an integer");
  }
  return specs;
}
OutputSpecs infer_addmm(const Call& call) {
  check_rank(call.name(), "a", call.tensor(1), 2, call.where);
  return infer_added(call);
}
OutputSpecs infer_baddbmm(const Call& call) {
  check_rank(call.name(), "a", call.tensor(1), 3, call.where);
  return infer_added(call);
}

// ---- Kernels ----------------------------------------------------------------------------------------------------------

// Operands of rank 2 or 3; a vector goes in as a matrix of one column.
cpu::Gemm make_gemm(const Tensor& a, const Tensor& b, const Tensor& out) {
  const bool batched = a.dim() == 3;
  const int64_t *a_sizes = int_sizes(a) + batched, *a_strides = int_strides(a) + batched;
  const int64_t *b_sizes = int_sizes(b) + batched, *b_strides = int_strides(b) + batched;
  const bool vector = b.dim() == 1;
  cpu::Gemm gemm{.dtype = out->dtype,
                 .batch = batched ? int_sizes(a)[0] : 1,
                 .m = a_sizes[0],
                 .n = vector ? 1 : b_sizes[1],
                 .k = a_sizes[1],
                 .a = bytes_of(a),
                 .a_batch = batched ? int_strides(a)[0] : 0,
                 .a_row = a_strides[0],
                 .a_col = a_strides[1],
                 .b = bytes_of(b),
                 .b_batch = batched ? int_strides(b)[0] : 0,
                 .b_row = b_strides[0],
                 .b_col = vector ? 1 : b_strides[1],
                 .c = bytes_of(out),
                 .c_batch = 0,
                 .c_row = 0};
  gemm.c_row = gemm.n;
  gemm.c_batch = gemm.m * gemm.n;
  return gemm;
}

void run_product(const Call& call, std::span<Tensor> outputs) {
  cpu::run_gemm(make_gemm(call.tensor(0), call.tensor(1), outputs[0]));
}

void run_dot(const Call& call, std::span<Tensor> outputs) {
  const Tensor &a = call.tensor(0), &b = call.tensor(1);
  cpu::own_dot(a.dtype(), int_numel(a), bytes_of(a), int_strides(a)[0], bytes_of(b), int_strides(b)[0],
               bytes_of(outputs[0]));
}

void run_added(const Call& call, std::span<Tensor> outputs) {
  const Tensor& x = call.tensor(0);
  cpu::Gemm gemm = make_gemm(call.tensor(1), call.tensor(2), outputs[0]);
  const Scalar beta = number(call, 3), alpha = number(call, 4);
  cpu::Epilogue& epilogue = gemm.epilogue;
  if (is_floating(x.dtype())) epilogue.alpha = alpha.to_double(), epilogue.beta = beta.to_double();
  else epilogue.int_alpha = alpha.to_int(), epilogue.int_beta = beta.to_int();
  // With beta 0 nothing of x counts, not even its NaN.
  const bool reads_x = is_floating(x.dtype()) ? epilogue.beta != 0 : epilogue.int_beta != 0;
  if (reads_x) {
    epilogue.x = bytes_of(x);
    const auto stride = [&](int64_t from_right) {
      const int64_t d = x.dim() - from_right;
      return d < 0 || int_sizes(x)[d] == 1 ? 0 : int_strides(x)[d];
    };
    epilogue.x_col = stride(1), epilogue.x_row = stride(2), epilogue.x_batch = stride(3);
  }
  cpu::run_gemm(gemm);
}

// ---- Gradients --------------------------------------------------------------------------------------------------------

Tensor scaled(const Tensor& x, const Scalar& factor) {
  return !factor.is_traced() && factor == Scalar(1) ? x : mul(x, factor);
}
// The gradient of b in a · b. Where b is a transpose (a weight's), so is the result: its gradient is row-major then.
template <int K>
Tensor right_gradient(const Tensor& a, const Tensor& dy, const InSpec<K>& b) {
  const auto& strides = b.spec.strides;
  if (strides && strides->size() == 2 && (*strides)[0] == 1 && (*strides)[1] != 1) return mm(dy.t(), a).t();
  return mm(a.t(), dy);
}

// ---- Composites -------------------------------------------------------------------------------------------------------

Sizes with_matrix(std::span<const Sym> batch, Sym rows, Sym cols) {
  Sizes sizes(batch.begin(), batch.end());
  sizes.push_back(rows);
  sizes.push_back(cols);
  return sizes;
}

// x [*, k] as one matrix [product of *, k].
Tensor fold(const Tensor& x) {
  if (x.dim() == 2) return x;
  const Sizes& sizes = x->layout.sizes;
  return reshape(x, {product({sizes.data(), sizes.size() - 1}), sizes.back()});
}
// The rows of a folded product in the shape that x had.
Tensor unfold_rows(const Tensor& rows, const Tensor& x) {
  if (x.dim() == 2) return rows;
  Sizes sizes = x->layout.sizes;
  sizes.back() = rows.size(1);
  return reshape(rows, sizes);
}

}  // namespace

Tensor mm(const Tensor& a, const Tensor& b, SourceLocation where) {
  return call(WEFT_OP("mm"), {a, b}, where);
}
Tensor bmm(const Tensor& a, const Tensor& b, SourceLocation where) {
  return call(WEFT_OP("bmm"), {a, b}, where);
}
Tensor mv(const Tensor& a, const Tensor& x, SourceLocation where) {
  return call(WEFT_OP("mv"), {a, x}, where);
}
Tensor dot(const Tensor& a, const Tensor& b, SourceLocation where) {
  return call(WEFT_OP("dot"), {a, b}, where);
}
Tensor addmm(const Tensor& x, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha,
             SourceLocation where) {
  return call(WEFT_OP("addmm"), {x, a, b, beta, alpha}, where);
}
Tensor baddbmm(const Tensor& x, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha,
               SourceLocation where) {
  return call(WEFT_OP("baddbmm"), {x, a, b, beta, alpha}, where);
}

Tensor outer(const Tensor& a, const Tensor& b, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("outer"), where, {a, b});
  check_rank("outer", "a", a, 1, where);
  check_rank("outer", "b", b, 1, where);
  return mul(unsqueeze(a, 1), b);
}

Tensor matmul(const Tensor& a, const Tensor& b, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("matmul"), where, {a, b});
  const int64_t rank_a = a.dim(), rank_b = b.dim();
  WEFT_CHECK_AT(where, rank_a > 0 && rank_b > 0, "matmul: a is ", describe(a), " and b is ", describe(b),
                "; both need at least one dimension: multiply 0-d tensors with *");
  check_types("matmul", "a", a, "b", b, where);
  check_contracted("matmul", a, rank_a - 1, b, rank_b == 1 ? 0 : rank_b - 2, where);
  if (rank_b == 1) {
    if (rank_a == 1) return dot(a, b);
    if (rank_a == 2) return mv(a, b);
    const Sizes& sizes = a->layout.sizes;
    return reshape(mv(fold(a), b), SymList(std::span(sizes.data(), sizes.size() - 1)));
  }
  if (rank_b == 2) return rank_a == 1 ? mv(b.t(), a) : unfold_rows(mm(fold(a), b), a);
  // b has a batch.
  const Sizes &sizes_a = a->layout.sizes, &sizes_b = b->layout.sizes;
  const std::span batch_a(sizes_a.data(), sizes_a.size() - std::min<size_t>(sizes_a.size(), 2));
  const std::span batch_b(sizes_b.data(), sizes_b.size() - 2);
  const Sizes batch = broadcast_sizes(batch_a, batch_b, "matmul");
  const Tensor left = rank_a == 1 ? unsqueeze(a, 0) : a;
  const Sym m = left.size(-2), k = left.size(-1), n = b.size(-1), count = product(batch);
  // Stretched to the common batch, then one batch dimension; a matrix without a batch is stretched along that one, so it
  // is never copied.
  const auto batched = [&](const Tensor& x, std::span<const Sym> own, Sym rows, Sym cols) {
    if (product(own) == 1) return expand(reshape(x, {1, rows, cols}), {count, rows, cols});
    const Tensor full = SizesView(own) == SizesView(batch) ? x : expand(x, with_matrix(batch, rows, cols));
    return full.dim() == 3 ? full : reshape(full, {count, rows, cols});
  };
  const Tensor product = bmm(batched(left, batch_a, m, k), batched(b, batch_b, k, n));
  if (rank_a == 1) {
    Sizes sizes = batch;
    sizes.push_back(n);
    return reshape(product, sizes);
  }
  return batch.size() == 1 ? product : reshape(product, with_matrix(batch, m, n));
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("linear"), where, {x, weight, bias});
  WEFT_CHECK_AT(where, x.dim() >= 1, "linear: x is ", describe(x), ", but needs at least one dimension");
  check_rank("linear", "weight", weight, 2, where);
  check_types("linear", "x", x, "weight", weight, where);
  check_contracted("linear", x, x.dim() - 1, weight, 1, where, "x", "weight");
  if (bias.defined()) {
    check_types("linear", "x", x, "bias", bias, where);
    WEFT_CHECK_AT(where, bias.dim() == 1 && (bias.size(0) == weight.size(0) || bias.size(0) == 1),
                  "linear: bias is ", bias.sizes(), ", but weight ", weight.sizes(), " gives ",
                  weight.size(0), " outputs: bias must be [", weight.size(0), "]");
  }
  const Tensor columns = weight.t();
  if (x.dim() == 1) {
    const Tensor row = unsqueeze(x, 0);
    return squeeze(bias.defined() ? addmm(bias, row, columns) : mm(row, columns), 0);
  }
  const Tensor rows = fold(x);
  return unfold_rows(bias.defined() ? addmm(bias, rows, columns) : mm(rows, columns), x);
}

void register_matmul_ops(OpTable& table) {
  // a · b.  Shapes: a [m, k], b [k, n] -> [m, n].  Dtypes: all but bool; halves accumulate in f32 and round once.
  entry(table, "mm(Tensor a, Tensor b) -> Tensor", Kind::Extern)
      .infer(infer_mm)
      .cpu(run_product)
      .cuda(run_product_on_cuda)
      .grad([](Dy<> dy, In<1> b) { return mm(dy, b.t()); },
            [](Dy<> dy, In<0> a, InSpec<1> b) { return right_gradient(a, dy, b); })
      .samples({.specials = false,
                .calls = {"a=[3,4] b=[4,5]", "a=[1,4] b=[4,3]", "a=[3,0] b=[0,2]", "a=[0,4] b=[4,2]"}});
  // Shapes: a [batch, m, k], b [batch, k, n] -> [batch, m, n].
  entry(table, "bmm(Tensor a, Tensor b) -> Tensor", Kind::Extern)
      .infer(infer_bmm)
      .cpu(run_product)
      .cuda(run_product_on_cuda)
      .grad([](Dy<> dy, In<1> b) { return bmm(dy, b.transpose(1, 2)); },
            [](Dy<> dy, In<0> a) { return bmm(a.transpose(1, 2), dy); })
      .samples({.specials = false,
                .calls = {"a=[2,3,4] b=[2,4,5]", "a=[1,2,0] b=[1,0,3]", "a=[0,2,3] b=[0,3,1]"}});
  // Shapes: a [m, k], x [k] -> [m].
  entry(table, "mv(Tensor a, Tensor x) -> Tensor", Kind::Extern)
      .infer(infer_mv)
      .cpu(run_product)
      .cuda(run_product_on_cuda)
      .grad([](Dy<> dy, In<1> x) { return outer(dy, x); }, [](Dy<> dy, In<0> a) { return mv(a.t(), dy); })
      .samples({.specials = false, .calls = {"a=[3,4] x=[4]", "a=[3,0] x=[0]", "a=[1,5] x=[5]"}});
  // Shapes: a [n], b [n] -> [].
  entry(table, "dot(Tensor a, Tensor b) -> Tensor", Kind::Extern)
      .infer(infer_dot)
      .cpu(run_dot)
      .cuda(run_product_on_cuda)
      .grad([](Dy<> dy, In<1> b) { return mul(dy, b); }, [](Dy<> dy, In<0> a) { return mul(dy, a); })
      .samples({.specials = false, .calls = {"a=[5] b=[5]", "a=[0] b=[0]", "a=[1] b=[1]"}});
  // beta · x + alpha · (a · b): the product, then each step rounded on its own; x broadcasts to [m, n].
  entry(table, "addmm(Tensor x, Tensor a, Tensor b, *, Number beta=1, Number alpha=1) -> Tensor",
        Kind::Extern)
      .infer(infer_addmm)
      .cpu(run_added)
      .cuda(run_added_on_cuda)
      .grad([](Dy<> dy, InSpec<0> x, Number<3> beta) { return sum_to(scaled(dy, beta), x.sizes()); },
            [](Dy<> dy, In<2> b, Number<4> alpha) { return scaled(mm(dy, b.t()), alpha); },
            [](Dy<> dy, In<1> a, InSpec<2> b, Number<4> alpha) {
              return scaled(right_gradient(a, dy, b), alpha);
            })
      .samples({.specials = false,
                .calls = {"x=[3,5] a=[3,4] b=[4,5]", "x=[5] a=[3,4] b=[4,5] beta=2 alpha=3",
                          "x=[3,1] a=[3,0] b=[0,5]"}});
  entry(table, "baddbmm(Tensor x, Tensor a, Tensor b, *, Number beta=1, Number alpha=1) -> Tensor",
        Kind::Extern)
      .infer(infer_baddbmm)
      .cpu(run_added)
      .cuda(run_added_on_cuda)
      .grad([](Dy<> dy, InSpec<0> x, Number<3> beta) { return sum_to(scaled(dy, beta), x.sizes()); },
            [](Dy<> dy, In<2> b, Number<4> alpha) { return scaled(bmm(dy, b.transpose(1, 2)), alpha); },
            [](Dy<> dy, In<1> a, Number<4> alpha) { return scaled(bmm(a.transpose(1, 2), dy), alpha); })
      .samples({.specials = false,
                .calls = {"x=[2,3,5] a=[2,3,4] b=[2,4,5]", "x=[3,1] a=[2,3,4] b=[2,4,5] beta=2 alpha=3"}});
  composite(table, "outer(Tensor a, Tensor b) -> Tensor", outer).samples({.calls = {"a=[3] b=[4]"}});
  composite(table, "matmul(Tensor a, Tensor b) -> Tensor", matmul)
      .samples(
          {.specials = false,
           .calls = {"a=[5] b=[5]", "a=[5] b=[5,3]", "a=[2,5] b=[5]", "a=[2,3,4,5] b=[5,6]",
                     "a=[2,1,4,5] b=[3,5,6]", "a=[4,5] b=[2,5,3]", "a=[5] b=[2,5,3]", "a=[2,4,5] b=[5]"}});
  composite(table, "linear(Tensor x, Tensor weight, Tensor? bias=None) -> Tensor", linear)
      .samples(
          {.specials = false, .calls = {"x=[2,3,4] weight=[5,4] bias=[5]", "x=[4] weight=[5,4] bias=[5]"}});
  register_product_epilogue_ops(table);
}

}  // namespace weft
