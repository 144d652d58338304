// mm_epilogue and its like: their rules, and what they are made of.
// Place: the out-of-line half of tensor/ops/product_epilogue.h; matmul.cpp registers them.
#include "tensor/ops/product_epilogue.h"

#include "tensor/functions.h"
#include "tensor/ops/check.h"
#include "tensor/ops/entry.h"
#include "tensor/ops/matmul_cuda.h"

namespace weft {
namespace {

constexpr std::pair<Activation, const char*> kActivations[] = {
    {Activation::None, "none"}, {Activation::Relu, "relu"}, {Activation::GeluTanh, "gelu_tanh"}};

Activation activation_of(const Call& call) {
  for (const auto& [activation, name] : kActivations)
    if (call.attr(0).as_string() == name) return activation;
  WEFT_CHECK_AT(call.where, false, call.name(), ": activation is \"", call.attr(0).as_string(),
                "\"; it must be \"none\", \"relu\" or \"gelu_tanh\"");
}
const char* name_of(Activation activation) {
  for (const auto& [each, name] : kActivations)
    if (each == activation) return name;
  return "";
}

Tensor activate(const Tensor& x, Activation activation, SourceLocation where) {
  switch (activation) {
    case Activation::Relu: return relu(x, where);
    case Activation::GeluTanh: return gelu(x, "tanh", where);
    default: return x;
  }
}

OutputSpec infer_product(const Call& call) {
  const Op& mm = WEFT_OP("mm");
  static const Attrs no_attrs = {};
  return mm.infer(Call{mm, call.operands.subspan(0, 2), no_attrs, call.where})[0];
}

OutputSpecs infer_epilogue(const Call& call) {
  OutputSpec product = infer_product(call);
  static_cast<void>(activation_of(call));
  WEFT_CHECK_AT(call.where, is_floating(product.dtype), call.name(), ": a is ", describe(call.tensor(0)),
                ", but needs a floating dtype");
  const auto check_operand = [&](size_t slot, const char* name, std::span<const Sym> sizes) {
    if (!call.has_tensor(slot)) return;
    const Tensor& x = call.tensor(slot);
    WEFT_CHECK_AT(call.where, x.dtype() == product.dtype && x.sizes() == SizesView(sizes), call.name(), ": ",
                  name, " is ", describe(x), ", but needs ", SizesView(sizes), ' ', product.dtype);
  };
  const std::span<const Sym> sizes(product.sizes.data(), product.sizes.size());
  check_operand(2, "bias", sizes.subspan(1));
  check_operand(3, "addend", sizes);
  return {product};
}

// One op after another: what mm_epilogue means, and what computes it where no library does it at once.
void run_by_parts(const Call& call, std::span<Tensor> outputs) {
  const AutoGradMode off(false);
  const Tensor &a = call.tensor(0), &b = call.tensor(1);
  Tensor x = call.has_tensor(2) ? addmm(call.tensor(2), a, b, 1, 1, call.where) : mm(a, b, call.where);
  if (call.has_tensor(3)) x = add(x, call.tensor(3), 1, call.where);
  copy_data(activate(x, activation_of(call), call.where), outputs[0]);
}

void run_on_cuda(const Call& call, std::span<Tensor> outputs) {
  if (!finish_product_on_cuda(call, outputs[0], activation_of(call))) run_by_parts(call, outputs);
}

}  // namespace

Tensor mm_epilogue(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& addend,
                   Activation activation, SourceLocation where) {
  const auto optional = [](const Tensor& x) { return x.defined() ? Operand(x) : Operand(); };
  return call(WEFT_OP("mm_epilogue"), {a, b, optional(bias), optional(addend)}, {name_of(activation)}, where);
}

void register_product_epilogue_ops(OpTable& table) {
  entry(table,
        "mm_epilogue(Tensor a, Tensor b, Tensor? bias=None, Tensor? addend=None, *, str activation='none') "
        "-> Tensor",
        Kind::Extern)
      .infer(infer_epilogue)
      .cpu(run_by_parts)
      .cuda(run_on_cuda)
      .samples({.specials = false,
                .calls = {"a=[3,4] b=[4,5]", "a=[3,4] b=[4,5] bias=[5] activation=relu",
                          "a=[3,4] b=[4,5] bias=[5] addend=[3,5] activation=gelu_tanh",
                          "a=[3,0] b=[0,2] bias=[2]", "a=[0,4] b=[4,2] activation=relu"}});
}

}  // namespace weft
