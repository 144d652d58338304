// Ops that move values without arithmetic: clone, casts, copy and fill, with their in-place forms and functions.
// Place: mutation.cpp calls register_copy_ops and register_copy_mutations.
#include "tensor/ops/copy.h"

#include "tensor/ops/check.h"
#include "tensor/ops/entry.h"
#include "tensor/ops/fill.h"
#include "tensor/ops/pointwise_rule.h"
#include "tensor/ops/view.h"
#include "tensor/view_rules.h"

namespace weft {
namespace {

OutputSpecs like(const Tensor& x, DType dtype, bool row_major = false) {
  OutputSpec spec{x->layout.sizes, dtype, x->device};
  if (!row_major && !x.is_contiguous()) spec.strides = dense_strides(x->layout);
  OutputSpecs specs;
  specs.push_back(std::move(spec));
  return specs;
}

// An entry whose meaning is its last operand, converted.
Entry move_entry(OpTable& table, const char* schema, Expr (*last)(std::span<const Expr>)) {
  Entry result = entry(table, schema, Kind::Pointwise);
  auto rule = std::make_shared<PointwiseRule>();
  rule->promote = Promote::Move;
  for (const Param& param : result.op().schema.params) rule->arity += param.is_operand();
  rule->expr = last;
  result.op().pointwise = std::move(rule);
  return result;
}
Expr last_of(std::span<const Expr> args) { return args.back(); }

// x stretched to the sizes of `to`, sharing its data.
Tensor stretched(const Tensor& x, const Tensor& to, const char* op) {
  if (x.sizes() == to.sizes()) return x;
  const size_t rank = to->layout.sizes.size(), own = x->layout.sizes.size();
  bool fits = own <= rank;
  for (size_t d = 0; fits && d < own; ++d) {
    const Sym size = x->layout.sizes[d];
    fits = size == 1 || size == to->layout.sizes[d + rank - own];
  }
  WEFT_CHECK(fits, op, ": the source of sizes ", x.sizes(), " does not broadcast to the sizes ", to.sizes(),
             " of the tensor that is written to");
  return make_view(x, view_rules::expand<Sym>(x->layout, to->layout.sizes));
}

void check_stretches(const Call& call) {
  const Tensor &self = call.tensor(0), &source = call.tensor(1);
  const Sizes both = broadcast_sizes(self->layout.sizes, source->layout.sizes, call.name());
  WEFT_CHECK(self.sizes() == SizesView(both), call.name(), ": the source of sizes ", source.sizes(),
             " does not broadcast to the sizes ", self.sizes(), " of the tensor that is written to");
}

void copy_in_place(const Call& call, const Tensor& self) {
  Tensor source = call.tensor(1);
  if (source->dtype == self->dtype && source.sizes() == self.sizes() && source.strides() == self.strides() &&
      bytes_of(source) == bytes_of(self))
    return;
  // What is about to be overwritten is read first.
  if (share_memory(self, source)) {
    const Tensor apart = make_tensor(source->layout.sizes, source->dtype, source->device);
    copy_data(source, apart);
    source = apart;
  }
  copy_data(stretched(source, self, call.name()), self);
}

// A number, or the value of a tensor without dimensions.
Scalar number_of(const Call& call, size_t slot) {
  const Operand& operand = call.operands[slot];
  if (operand.is_scalar) return operand.scalar;
  const Tensor& value = call.tensor(slot);
  WEFT_CHECK(value.dim() == 0, call.name(), ": the value has sizes ", value.sizes(),
             "; it must be a number or a tensor without dimensions");
  return value.item(call.where);
}

void fill_in_place(const Call& call, const Tensor& self) {
  fill_data(self, Element(number_of(call, 1), self->dtype, call.name()));
}

Tensor zeros_of(const OutputSpec& spec, SourceLocation where) {
  return zeros(SymList(spec.sizes), TensorOptions(spec.dtype).device(spec.device), where);
}

Tensor to_by_name(const Tensor& x, DType dtype, bool non_blocking, bool copy, SourceLocation where) {
  return x.to(dtype, non_blocking, copy, where);
}
Tensor zero_in_place_by_name(const Tensor& x, SourceLocation where) {
  Tensor self = x;
  return self.zero_(where);
}

}  // namespace

void register_copy_ops(OpTable& table) {
  // New data in the order in which x has its dimensions, or row-major.
  move_entry(table, "clone(Tensor x, *, bool contiguous=False) -> Tensor", last_of)
      .infer([](const Call& call) {
        return like(call.tensor(0), call.tensor(0)->dtype, call.attr(0).as_bool());
      })
      .cpu([](const Call& call, std::span<Tensor> outputs) { copy_data(call.tensor(0), outputs[0]); })
      .grad([](Dy<> dy) -> Tensor { return dy; });
  // The values as another dtype: floats to integers toward zero, saturating, NaN to 0.
  move_entry(table, "to_dtype(Tensor x, ScalarType dtype) -> Tensor", last_of)
      .infer([](const Call& call) { return like(call.tensor(0), call.attr(0).as_dtype()); })
      .cpu([](const Call& call, std::span<Tensor> outputs) { copy_data(call.tensor(0), outputs[0]); })
      .grad([](Dy<> dy, InSpec<0> x, const GradCall& grad) {
        return dy.to(x.spec.dtype, false, false, grad.where);
      })
      .samples({.calls = {"x=[3,4] dtype=f32", "x=[3,4] dtype=i64", "x=[5] dtype=bf16", "x=[5] dtype=bool",
                          "x=[] dtype=f16", "x=[0] dtype=u8"}});
  // The same values on another device, in the order in which x has its dimensions. A copy to the host is waited for.
  entry(table, "to_device(Tensor x, Device device, bool non_blocking=False) -> Tensor", Kind::Extern)
      .any_device()
      .infer([](const Call& call) {
        OutputSpecs specs = like(call.tensor(0), call.tensor(0)->dtype);
        specs[0].device = call.attr(0).as_device();
        return specs;
      })
      .cpu([](const Call& call, std::span<Tensor> outputs) { copy_data(call.tensor(0), outputs[0]); })
      .grad([](Dy<> dy, InSpec<0> x, const GradCall& grad) {
        return dy.to(x.spec.device, false, false, grad.where);
      })
      .samples({.calls = {"x=[3,4] device=cpu"}});
  // The base of copy_: source, stretched to the sizes of self and converted to its dtype.
  move_entry(table, "copy(Tensor self, Tensor source, *, bool non_blocking=False) -> Tensor", last_of)
      .any_device()
      .infer([](const Call& call) {
        check_stretches(call);
        return like(call.tensor(0), call.tensor(0)->dtype);
      })
      .cpu([](const Call& call, std::span<Tensor> outputs) {
        copy_data(stretched(call.tensor(1), outputs[0], call.name()), outputs[0]);
      })
      .grad([](InSpec<0> self, const GradCall& grad) { return zeros_of(self.spec, grad.where); },
            [](Dy<> dy, InSpec<1> source, const GradCall& grad) {
              return sum_to(dy, source.sizes(), grad.where).to(source.spec.dtype, false, false, grad.where);
            })
      .samples({.calls = {"self=[3,4] source=[3,4]", "self=[3,4] source=[4]", "self=[2,3] source=[]",
                          "self=[0] source=[0]"}});
  // The base of fill_: one value in the sizes and dtype of self.
  move_entry(table, "fill(Tensor self, Value value) -> Tensor", last_of)
      .infer([](const Call& call) {
        if (call.has_tensor(1))
          WEFT_CHECK(call.tensor(1).dim() == 0, call.name(), ": the value has sizes ", call.tensor(1).sizes(),
                     "; it must be a number or a tensor without dimensions");
        check_element(call.operands[1], call.tensor(0)->dtype, call.name());
        return like(call.tensor(0), call.tensor(0)->dtype);
      })
      .cpu([](const Call& call, std::span<Tensor> outputs) {
        fill_data(outputs[0], Element(number_of(call, 1), outputs[0]->dtype, call.name()));
      })
      .grad([](InSpec<0> self, const GradCall& grad) { return zeros_of(self.spec, grad.where); },
            [](Dy<> dy, InSpec<1> value, const GradCall& grad) {
              return sum_to(dy, value.sizes(), grad.where).to(value.spec.dtype, false, false, grad.where);
            })
      .samples(
          {.calls = {"self=[3,4] value=2", "self=[3,4] value=[]", "self=[] value=1", "self=[0] value=0"}});
  composite(table, "contiguous(Tensor x) -> Tensor", &contiguous);
  composite(table, "to(Tensor x, ScalarType dtype, bool non_blocking=False, bool copy=False) -> Tensor",
            &to_by_name)
      .samples({.calls = {"x=[3,4] dtype=f32", "x=[3] dtype=f64 copy=True", "x=[3] dtype=i32"}});
}

void register_copy_mutations(OpTable& table) {
  mutation(table, "copy_", "copy", copy_in_place).any_device();
  mutation(table, "fill_", "fill", fill_in_place);
  composite(table, "zero_(Tensor self) -> Tensor", &zero_in_place_by_name);
}

Tensor clone(const Tensor& x, SourceLocation where) { return call(WEFT_OP("clone"), {x}, {false}, where); }
Tensor contiguous(const Tensor& x, SourceLocation where) {
  return x.is_contiguous() ? x : call(WEFT_OP("clone"), {x}, {true}, where);
}

Tensor Tensor::to(DType dtype, bool, bool copy, SourceLocation where) const {
  if (dtype != this->dtype()) return call(WEFT_OP("to_dtype"), {*this}, {dtype}, where);
  return copy ? weft::clone(*this, where) : *this;
}
Tensor Tensor::to(Device device, bool non_blocking, bool copy, SourceLocation where) const {
  if (device != this->device()) return call(WEFT_OP("to_device"), {*this}, {device, non_blocking}, where);
  return copy ? weft::clone(*this, where) : *this;
}
Tensor Tensor::to(const TensorOptions& options, SourceLocation where) const {
  const Tensor moved = options.has_device() ? to(options.device(), false, false, where) : *this;
  return options.has_dtype() ? moved.to(options.dtype(), false, false, where) : moved;
}

Tensor& Tensor::copy_(const Tensor& source, bool non_blocking, SourceLocation where) {
  call_mutation(WEFT_OP("copy_"), {*this, source}, {non_blocking}, where);
  return *this;
}
Tensor& Tensor::fill_(const Operand& value, SourceLocation where) {
  call_mutation(WEFT_OP("fill_"), {*this, value}, {}, where);
  return *this;
}
Tensor& Tensor::zero_(SourceLocation where) {
  call_mutation(WEFT_OP("fill_"), {*this, 0}, {}, where);
  return *this;
}

}  // namespace weft
