// Pointwise ops on tensors: types, shapes and layouts of the result, and the way into the loops.
#include "tensor/ops/pointwise_rule.h"

#include <algorithm>

namespace weft {
namespace {

// PyTorch's rule for the strides of a new elementwise result: dimensions keep the order of the inputs' strides.
Sizes result_strides(std::span<const Operand> operands, const Sizes& sizes) {
  const size_t rank = sizes.size();
  bool row_major = true;
  for (const Operand& operand : operands) {
    if (operand.tensor == nullptr) continue;
    const TensorImpl& x = *(*operand.tensor).impl();
    const bool same = SizesView(x.layout.sizes) == SizesView(sizes);
    row_major = row_major && same && (x.is_fake ? is_contiguous(x.layout) : x.is_contiguous);
  }
  if (row_major || rank <= 1) return contiguous_strides<Sym>(sizes);

  SmallVector<Sizes, 4> strides;  // by operand, aligned to the result, 0 where it broadcasts
  for (const Operand& operand : operands) {
    if (operand.tensor == nullptr) continue;
    const Layout<Sym>& layout = (*operand.tensor)->layout;
    Sizes aligned(rank, Sym::from_int(0));
    const size_t shift = rank - layout.sizes.size();
    for (size_t d = 0; d < layout.sizes.size(); ++d) {
      if (!(layout.sizes[d] == 1 && sizes[d + shift] != 1)) aligned[d + shift] = layout.strides[d];
    }
    strides.push_back(std::move(aligned));
  }
  return ordered_strides(sizes, {strides.data(), strides.size()});
}

Sizes result_sizes(const Op& op, std::span<const Operand> operands) {
  Sizes sizes;
  bool first = true;
  for (const Operand& operand : operands) {
    if (operand.tensor == nullptr) continue;
    const Sizes& next = (*operand.tensor)->layout.sizes;
    if (first) sizes = next;
    else if (!(SizesView(sizes) == SizesView(next))) sizes = broadcast_sizes(sizes, next, called_name(op));
    first = false;
  }
  return sizes;
}

Device result_device(std::span<const Operand> operands) {
  for (const Operand& operand : operands)
    if (operand.tensor != nullptr) return (*operand.tensor)->device;
  return kCPU;
}

void set_splat(cpu::Splat& splat, DType compute, const Scalar& number) {
  splat.set(compute, number.to_double(), number.to_int());
}

// An integer division by zero has no value to give.
void check_divisor(const Call& call, DType compute) {
  const int slot = call.op.pointwise->divisor;
  if (slot < 0 || is_floating(compute)) return;
  const Operand& divisor = call.operands[static_cast<size_t>(slot)];
  bool has_zero = false;
  if (divisor.is_scalar) {
    has_zero = divisor.scalar.to_int() == 0;
  } else {
    const std::vector<int64_t> values = (*divisor.tensor).to_vector<int64_t>();
    has_zero = std::find(values.begin(), values.end(), 0) != values.end();
  }
  WEFT_CHECK(!has_zero, call.name(),
             ": the divisor holds 0; integers divided by zero have no value. Convert to a floating type for "
             "inf and NaN");
}

// A truth value has no negative, and a difference of two is no truth value.
void check_no_bool(const Op& op, std::span<const Operand> operands) {
  for (size_t k = 0; k < operands.size(); ++k) {
    const Operand& operand = operands[k];
    const bool is_bool = operand.tensor != nullptr ? (*operand.tensor)->dtype == DType::Bool
                                                   : operand.is_scalar && operand.scalar.is_bool();
    WEFT_CHECK(!is_bool || (op.pointwise->numbers >> k & 1) != 0, called_name(op),
               ": does not take bools; logical_not() (~) inverts a mask, logical_xor() (^) compares two, and "
               "to() converts them to numbers");
  }
}

// An integer to a negative power is no integer.
void check_exponent(const Op& op, std::span<const Operand> operands) {
  const Operand& exponent = operands[static_cast<size_t>(op.pointwise->exponent)];
  if (!exponent.is_scalar || exponent.scalar.is_traced() || exponent.scalar.is_symbolic()) return;
  WEFT_CHECK(exponent.scalar.to_int() >= 0, called_name(op), ": the exponent is ", exponent.scalar,
             "; integers take no negative power. Convert to a floating type");
}

cpu::ElementwiseKernel kernel_for(const Op& op, DType compute) {
  const cpu::ElementwiseKernel kernel = op.pointwise->kernels.of(compute);
  WEFT_CHECK(kernel != nullptr, called_name(op), ": does not take ", compute, " tensors");
  return kernel;
}

}  // namespace

PointwiseTypes pointwise_types(const Op& op, std::span<const Operand> operands) {
  DType common = DType::Float32;
  if (op.pointwise->numbers == 0) {
    common = result_type(operands);
  } else {
    SmallVector<Operand, 8> deciding;
    for (size_t k = 0; k < operands.size(); ++k)
      if ((op.pointwise->numbers >> k & 1) == 0) deciding.push_back(operands[k]);
    common = result_type({deciding.data(), deciding.size()});
  }
  const PointwiseRule& rule = *op.pointwise;
  if (rule.refuses_bool) check_no_bool(op, operands);
  if (rule.exponent >= 0 && !is_floating(common)) check_exponent(op, operands);
  switch (rule.promote) {
    case Promote::Floating:
    case Promote::FloatingPredicate:
      if (!is_floating(common)) common = default_dtype();
      break;
    case Promote::Integer:
      WEFT_CHECK(!is_floating(common), called_name(op), ": takes integers or bools, not ", common);
      break;
    default: break;
  }
  // Ops that are all copying have no vector kernels.
  if (rule.kernels.of(DType::Float32) != nullptr || rule.kernels.of(DType::Int32) != nullptr)
    kernel_for(op, compute_dtype(common));  // an Error unless there is one
  return {common, rule.is_predicate() ? DType::Bool : common};
}

OutputSpecs infer_pointwise(const Call& call) {
  OutputSpec spec{result_sizes(call.op, call.operands), pointwise_types(call.op, call.operands).result,
                  result_device(call.operands)};
  spec.strides = result_strides(call.operands, spec.sizes);
  OutputSpecs specs;
  specs.push_back(std::move(spec));
  return specs;
}

void run_pointwise_into(const Call& call, const Tensor& out) {
  const PointwiseRule& rule = *call.op.pointwise;
  const DType common = pointwise_types(call.op, call.operands).common;
  const DType compute = compute_dtype(common);
  if (int_numel(out) == 0)
    return;  // nothing is divided, whatever the divisor: PyTorch's rule, and that of loops
  check_divisor(call, compute);
  const size_t operands = call.operands.size();
  SmallVector<cpu::StridedArray, 4> inputs(operands);
  SmallVector<cpu::Splat, 4> splats(operands);
  const size_t rank = out->layout.sizes.size();
  for (size_t k = 0; k < operands; ++k) {
    const Operand& operand = call.operands[k];
    inputs[k].data = nullptr;
    if (operand.tensor == nullptr) {
      set_splat(splats[k], compute, operand.scalar);
      continue;
    }
    const Tensor& x = *operand.tensor;
    inputs[k].data = bytes_of(x);
    inputs[k].dtype = x->dtype;
    inputs[k].strides.resize(rank);
    const size_t own = x->layout.sizes.size();
    WEFT_ASSERT(own <= rank, call.name());
    for (size_t d = 0; d < rank; ++d) {
      const bool inside = d + own >= rank;
      const size_t at = d + own - rank;
      inputs[k].strides[d] = inside && !(int_sizes(x)[at] == 1) ? int_strides(x)[at] : 0;
    }
  }
  cpu::ElementwiseCall run{kernel_for(call.op, compute),
                           compute,
                           rule.is_predicate(),
                           rule.cost,
                           {},
                           {inputs.data(), operands},
                           {splats.data(), operands},
                           {bytes_of(out), out->dtype, {}}};
  run.sizes.assign(int_sizes(out), int_sizes(out) + rank);
  run.output.strides.assign(int_strides(out), int_strides(out) + rank);
  cpu::run_elementwise(run);
}

namespace {

// All tensors contiguous, of one size and of the dtype computed in: no loops to set up. False if the call is not so.
// `out` is made if it is undefined; an operand must not overlap it but by being the same.
bool run_plain(const Op& op, std::span<const Operand> operands, Tensor& out) {
  const PointwiseRule& rule = *op.pointwise;
  const TensorImpl* first = nullptr;
  for (const Operand& operand : operands) {
    if (operand.tensor == nullptr) continue;
    const TensorImpl* x = (*operand.tensor).impl();
    if (!x->is_contiguous) return false;
    if (first == nullptr) {
      first = x;
      if (compute_dtype(x->dtype) != x->dtype) return false;
      if (!is_floating(x->dtype) &&
          (rule.promote != Promote::Common || rule.divisor >= 0 || rule.exponent >= 0))
        return false;
      if (x->layout.sizes.empty()) return false;
    } else if (x->dtype != first->dtype || x->layout.sizes.size() != first->layout.sizes.size() ||
               !std::equal(first->layout.sizes.begin(), first->layout.sizes.end(), x->layout.sizes.begin(),
                           [](Sym a, Sym b) { return a.concrete() == b.concrete(); })) {
      return false;
    }
  }
  if (first == nullptr) return false;
  const DType compute = first->dtype;
  const cpu::ElementwiseKernel kernel = rule.kernels.of(compute);
  if (kernel == nullptr || operands.size() > cpu::kMaxOperands) return false;

  const void* in[cpu::kMaxOperands];
  int64_t step[cpu::kMaxOperands];
  cpu::Splat splats[3];
  int numbers = 0;
  for (size_t k = 0; k < operands.size(); ++k) {
    const Operand& operand = operands[k];
    if (operand.tensor != nullptr) {
      in[k] = bytes_of(*operand.tensor);
      step[k] = 1;
      continue;
    }
    if (numbers == 3 || (!is_floating(compute) && operand.scalar.is_floating())) return false;
    if (rule.refuses_bool && operand.scalar.is_bool()) return false;
    set_splat(splats[numbers], compute, operand.scalar);
    in[k] = splats[numbers++].bytes;
    step[k] = 0;
  }
  const DType result = rule.is_predicate() ? DType::Bool : compute;
  if (out.defined()) {
    // Operand 0 is out itself, so that sizes and dtype are known to fit.
    if (result != compute) return false;
    const char* const begin = bytes_of(out);
    const int64_t bytes = first->numel.concrete() * static_cast<int64_t>(size_of(compute));
    for (size_t k = 0; k < operands.size(); ++k) {
      const char* const other = static_cast<const char*>(in[k]);
      if (step[k] == 1 && other != begin && other < begin + bytes && begin < other + bytes) return false;
    }
  } else {
    out = make_tensor(OutputSpec{first->layout.sizes, result, first->device});
  }
  cpu::run_contiguous(kernel, first->numel.concrete(), static_cast<int>(operands.size()), in, step,
                      bytes_of(out), compute, result, rule.cost);
  return true;
}

}  // namespace

void run_pointwise(const Call& call, std::span<Tensor> outputs) {
  outputs[0].reset();
  if (run_plain(call.op, call.operands, outputs[0])) return;
  outputs[0] = make_tensor(infer_pointwise(call)[0]);
  run_pointwise_into(call, outputs[0]);
}

void check_fits_in_place(const Call& call, const Tensor& self) {
  const Op& base = *call.op.base;
  const PointwiseTypes types = pointwise_types(base, call.operands);
  WEFT_CHECK(category_of(types.result) <= category_of(self->dtype) || base.pointwise->is_predicate(),
             call.name(), ": the result is ", types.result, ", which does not fit into the ", self->dtype,
             " tensor it is written to; convert the tensor or use ", base.name(), "()");
  const Sizes sizes = result_sizes(base, call.operands);
  WEFT_CHECK(SizesView(sizes) == self.sizes(), call.name(), ": the result of sizes ", sizes,
             " does not fit into the tensor of sizes ", self.sizes(), " that it is written to");
}

void run_pointwise_in_place(const Call& call, const Tensor& self) {
  const Op& base = *call.op.base;
  Tensor out = self;
  if (run_plain(base, call.operands, out)) return;
  const CompositeScope scope(call.op, call.where);  // errors name the op in place
  SmallVector<Operand, 4> operands(call.operands.begin(), call.operands.end());
  check_fits_in_place(call, self);
  // An operand that shares some of the memory, but not element for element, is read before anything is written.
  SmallVector<Tensor, 2> copies;
  copies.reserve(operands.size());
  for (Operand& operand : operands) {
    if (operand.tensor == nullptr) continue;
    const Tensor& x = *operand.tensor;
    if (!share_memory(x, self)) continue;
    const bool same = x->dtype == self->dtype && bytes_of(x) == bytes_of(self) && x.sizes() == self.sizes() &&
                      x.strides() == self.strides();
    if (same) continue;
    copies.push_back(make_tensor(x->layout.sizes, x->dtype, x->device));
    copy_data(x, copies.back());
    operand.tensor = &copies.back();
  }
  run_pointwise_into(Call{base, {operands.data(), operands.size()}, call.attrs, call.where}, self);
}

}  // namespace weft
