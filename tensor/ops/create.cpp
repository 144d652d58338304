// The create ops of the table but the random ones: entries and functions.
// Place: register.cpp calls register_create_ops.
#include <cmath>
#include <limits>

#include "tensor/base/log.h"
#include "tensor/cpu/convert.h"
#include "tensor/cpu/fill.h"
#include "tensor/cpu/parallel.h"
#include "tensor/ops/check.h"
#include "tensor/ops/element.h"
#include "tensor/ops/entry.h"
#include "tensor/ops/factory.h"
#include "tensor/ops/fill.h"
#include "tensor/ops/register.h"

namespace weft {
namespace {

// ---- What the entries share -----------------------------------------------------------------------------------------

DType dtype_or(const Attr& attr, DType otherwise) { return attr.is_none() ? otherwise : attr.as_dtype(); }
Device device_of(const Attr& attr) { return attr.is_none() ? Device(kCPU) : attr.as_device(); }

OutputSpecs one(OutputSpec spec) {
  OutputSpecs specs;
  specs.push_back(std::move(spec));
  return specs;
}

void check_sizes(const Sizes& sizes, const char* op) {
  for (Sym size : sizes)
    WEFT_CHECK(size >= 0, op, ": sizes ", SizesView(sizes), " hold the negative size ", size);
}

// Attributes: size, dtype, device, stride.
OutputSpecs infer_filled(const Call& call, DType otherwise) {
  OutputSpec spec{call.attr(0).as_sizes(), dtype_or(call.attr(1), otherwise), device_of(call.attr(2))};
  check_sizes(spec.sizes, call.name());
  if (!call.attr(3).is_none()) {
    spec.strides = call.attr(3).as_sizes();
    WEFT_CHECK(spec.strides->size() == spec.sizes.size(), call.name(), ": ", spec.sizes.size(), " sizes and ",
               spec.strides->size(), " strides are given; each dimension needs both");
  }
  return one(std::move(spec));
}

// Given strides must keep the elements within the memory that their number gets.
void check_strides(const Tensor& x, const char* op) {
  const Extent reach = extent(x->layout);
  WEFT_CHECK(reach.begin >= 0 && reach.end <= int_numel(x), op, ": strides ", x.strides(), " of sizes ",
             x.sizes(), " reach the places ", reach.begin, " to ", reach.end - 1, " of ", int_numel(x),
             " elements");
}

Expr full_element(LoopReader& loop, const Call& call, const OutputSpec& result, std::span<const Sym>) {
  return element::checked_number(loop, call.operands[0].scalar, result.dtype, call.name());
}

// ---- Sequences --------------------------------------------------------------------------------------------------------

bool all_integers(std::span<const Operand> numbers) {
  for (const Operand& number : numbers)
    if (number.scalar.is_floating()) return false;
  return true;
}

Sym arange_count(const Call& call, DType dtype) {
  const Scalar &start = call.operands[0].scalar, &end = call.operands[1].scalar,
               &step = call.operands[2].scalar;
  const auto fail = [&](const auto&... why) {
    // The value of a number that only a trace knows, which counting has asked for.
    const auto text = [](const Scalar& number) {
      return number.is_symbolic()   ? detail::concat(number)
             : number.is_floating() ? detail::concat(number.to_double())
                                    : detail::concat(number.to_int());
    };
    detail::throw_error(
        detail::concat("arange: from ", text(start), " to ", text(end), " in steps of ", text(step), why...));
  };
  // Counted in integers where all numbers are, whatever the dtype, so that a symbolic size stays one.
  const bool is_integral = dtype == DType::Int64 || all_integers(call.operands);
  if (is_integral && (start.is_symbolic() || end.is_symbolic() || step.is_symbolic())) {
    const auto sym = [](const Scalar& s) { return s.is_symbolic() ? s.sym() : Sym::from_int(s.to_int()); };
    const Sym from = sym(start), to = sym(end), by = sym(step);
    if (by == 0) fail(": the step must not be 0");
    if (by > 0 ? to < from : to > from) fail(": the step leads away from the end");
    return (to - from + by - (by > 0 ? 1 : -1)) / by;
  }
  const double from = start.to_double(), to = end.to_double(), by = step.to_double();
  if (by == 0) fail(": the step must not be 0");
  if (!std::isfinite(from) || !std::isfinite(to) || std::isnan(by)) fail(": the bounds must be finite");
  if (by > 0 ? to < from : to > from) fail(": the step leads away from the end");
  if (is_integral) {
    const __int128 first = start.to_int(), last = end.to_int(), stride = step.to_int();
    if (stride == 0) fail(": the step must not be 0 as an integer");
    return Sym::from_int(static_cast<int64_t>((last - first + stride - (stride > 0 ? 1 : -1)) / stride));
  }
  const double count = std::ceil((to - from) / by);
  if (!(count < 9e18)) fail(" has more elements than a tensor can hold");
  return Sym::from_int(static_cast<int64_t>(count));
}

OutputSpecs infer_arange(const Call& call) {
  const DType dtype = dtype_or(call.attr(0), all_integers(call.operands) ? DType::Int64 : default_dtype());
  return one({{arange_count(call, dtype)}, dtype, device_of(call.attr(1))});
}

// Writes n values f(i), computed as T, into a dense tensor of any dtype.
template <class T, class F>
void generate(const Tensor& out, const F& f) {
  constexpr int64_t kPiece = 256;
  const cpu::ConvertKernel convert = cpu::convert_kernel(dtype_of<T>, out->dtype);
  char* const bytes = bytes_of(out);
  const int64_t size = static_cast<int64_t>(size_of(out->dtype));
  parallel_for(int_numel(out), 16384, [&](int64_t begin, int64_t end) {
    T piece[kPiece];
    for (int64_t i = begin; i < end; i += kPiece) {
      const int64_t count = std::min(kPiece, end - i);
      for (int64_t k = 0; k < count; ++k) piece[k] = f(i + k);
      convert(piece, 1, bytes + i * size, 1, count);
    }
  });
}

void run_arange(const Call& call, std::span<Tensor> outputs) {
  const Tensor& out = outputs[0];
  if (is_floating(out->dtype)) {
    const double start = call.operands[0].scalar.to_double(), step = call.operands[2].scalar.to_double();
    generate<double>(out, [=](int64_t i) { return start + step * static_cast<double>(i); });
  } else {
    const uint64_t start = static_cast<uint64_t>(call.operands[0].scalar.to_int()),
                   step = static_cast<uint64_t>(call.operands[2].scalar.to_int());
    generate<int64_t>(
        out, [=](int64_t i) { return static_cast<int64_t>(start + step * static_cast<uint64_t>(i)); });
  }
}

Expr arange_element(LoopReader& loop, const Call& call, const OutputSpec& result,
                    std::span<const Sym> place) {
  const DType compute = is_floating(result.dtype) ? DType::Float64 : DType::Int64;
  const Expr start = loop.number(call.operands[0].scalar, compute),
             step = loop.number(call.operands[2].scalar, compute);
  return cast(start + step * cast(loop.place(place[0]), compute), result.dtype);
}

OutputSpecs infer_linspace(const Call& call) {
  const Sym steps = call.attr(0).as_int();
  WEFT_CHECK(steps >= 0, "linspace: ", steps, " steps are wanted; it takes 0 or more");
  return one({{steps}, dtype_or(call.attr(1), default_dtype()), device_of(call.attr(2))});
}

void run_linspace(const Call& call, std::span<Tensor> outputs) {
  const double start = call.operands[0].scalar.to_double(), end = call.operands[1].scalar.to_double();
  const int64_t n = int_numel(outputs[0]);
  const double step = n > 1 ? (end - start) / static_cast<double>(n - 1) : 0;
  // Counted from the nearer end, so that the last value is exact.
  generate<double>(outputs[0], [=](int64_t i) {
    return i < n / 2 || n == 1 ? start + step * static_cast<double>(i)
                               : end - step * static_cast<double>(n - 1 - i);
  });
}

Expr linspace_element(LoopReader& loop, const Call& call, const OutputSpec& result,
                      std::span<const Sym> place) {
  const Expr start = loop.number(call.operands[0].scalar, DType::Float64),
             end = loop.number(call.operands[1].scalar, DType::Float64);
  const Sym size = result.sizes[0];
  if (element::is_known(size, 0)) return {};
  const Expr n = loop.place(size), i = loop.place(place[0]);
  const Expr step = where(n > 1, (end - start) / to_f64(n - 1), 0.0);
  return cast(
      where(i < loop.place(size / 2) || n == 1, start + step * to_f64(i), end - step * to_f64(n - 1 - i)),
      result.dtype);
}

OutputSpecs infer_eye(const Call& call) {
  const Sym n = call.attr(0).as_int(), m = call.attr(1).is_none() ? n : call.attr(1).as_int();
  WEFT_CHECK(n >= 0 && m >= 0, "eye: sizes ", n, " and ", m, "; neither may be negative");
  return one({{n, m}, dtype_or(call.attr(2), default_dtype()), device_of(call.attr(3))});
}

void run_eye(const Call& call, std::span<Tensor> outputs) {
  const Tensor& out = outputs[0];
  const size_t size = size_of(out->dtype);
  cpu::fill_zero(bytes_of(out), static_cast<size_t>(int_numel(out)) * size);
  const int64_t rows = int_sizes(out)[0], columns = int_sizes(out)[1];
  const Element unit(1, out->dtype, call.name());
  for (int64_t i = 0; i < std::min(rows, columns); ++i)
    std::memcpy(bytes_of(out) + (i * columns + i) * static_cast<int64_t>(size), unit.bytes, size);
}

Expr eye_element(LoopReader& loop, const Call& call, const OutputSpec& result, std::span<const Sym> place) {
  return element::choose(loop.place(place[0]) == loop.place(place[1]),
                         element::checked_number(loop, 1, result.dtype, call.name()),
                         element::number(loop, 0, result.dtype));
}

// ---- By name ----------------------------------------------------------------------------------------------------------

TensorOptions options_of(OptionalDType dtype, std::optional<Device> device) {
  TensorOptions options;
  if (dtype) options = options.dtype(*dtype);
  if (device) options = options.device(*device);
  return options;
}

#define WEFT_LIKE_BY_NAME(function)                                                             \
  Tensor function##_by_name(const Tensor& x, OptionalDType dtype, std::optional<Device> device, \
                            SourceLocation where) {                                             \
    return function(x, options_of(dtype, device), where);                                       \
  }
WEFT_LIKE_BY_NAME(empty_like)
WEFT_LIKE_BY_NAME(zeros_like)
WEFT_LIKE_BY_NAME(ones_like)
#undef WEFT_LIKE_BY_NAME
Tensor full_like_by_name(const Tensor& x, const Operand& value, OptionalDType dtype,
                         std::optional<Device> device, SourceLocation where) {
  return full_like(x, value.scalar, options_of(dtype, device), where);
}
Tensor zeros_by_name(const SymList& sizes, OptionalDType dtype, std::optional<Device> device,
                     SourceLocation where) {
  return zeros(sizes, options_of(dtype, device), where);
}
Tensor ones_by_name(const SymList& sizes, OptionalDType dtype, std::optional<Device> device,
                    SourceLocation where) {
  return ones(sizes, options_of(dtype, device), where);
}
Tensor scalar_tensor_by_name(const Operand& value, OptionalDType dtype, std::optional<Device> device,
                             SourceLocation where) {
  return scalar_tensor(value.scalar, options_of(dtype, device), where);
}

}  // namespace

void register_create_ops(OpTable& table) {
  entry(
      table,
      "empty(SymInt[] size, *, ScalarType? dtype=None, Device? device=None, SymInt[]? stride=None) -> Tensor",
      Kind::Create)
      .infer([](const Call& call) { return infer_filled(call, default_dtype()); })
      .cpu([](const Call& call, std::span<Tensor> outputs) {
        if (!call.attr(3).is_none()) check_strides(outputs[0], call.name());
      })
      .samples({.calls = {"size=[2,3] dtype=f64", "size=[]", "size=[0,3]"}});
  entry(table,
        "full(SymInt[] size, Number fill_value, *, ScalarType? dtype=None, Device? device=None, "
        "SymInt[]? stride=None) -> Tensor",
        Kind::Create)
      .fill()
      .infer([](const Call& call) { return infer_filled(call, call.operands[0].scalar.dtype()); })
      .cpu([](const Call& call, std::span<Tensor> outputs) {
        if (!call.attr(3).is_none()) check_strides(outputs[0], call.name());
        fill_data(outputs[0], Element(call.operands[0].scalar, outputs[0]->dtype, call.name()));
      })
      .element(full_element)
      .samples(
          {.calls = {"size=[2,3] fill_value=2.5", "size=[] fill_value=3", "size=[2] fill_value=1 dtype=bool",
                     "size=[2] fill_value=1.000488281715661 dtype=f16", "size=[3] fill_value=-1 dtype=u8"}});
  // [start, end) in steps.
  entry(table,
        "arange(Number start, Number end, Number step=1, *, ScalarType? dtype=None, Device? device=None) -> "
        "Tensor",
        Kind::Create)
      .infer(infer_arange)
      .cpu(run_arange)
      .element(arange_element)
      .samples({.calls = {"start=0 end=5", "start=1.5 end=-2 step=-0.5", "start=0 end=3 dtype=f16",
                          "start=0.1 end=30 step=0.7 dtype=f32", "start=-5 end=300 step=7 dtype=i8",
                          "start=3 end=3"}});
  entry(table,
        "linspace(Number start, Number end, SymInt steps, *, ScalarType? dtype=None, Device? device=None) -> "
        "Tensor",
        Kind::Create)
      .infer(infer_linspace)
      .cpu(run_linspace)
      .element(linspace_element)
      .samples({.calls = {"start=0 end=1 steps=5", "start=-2 end=2 steps=1", "start=0 end=1 steps=0",
                          "start=-0.3 end=7 steps=20 dtype=bf16", "start=0.1 end=0.7 steps=13 dtype=f64",
                          "start=9 end=-4 steps=6 dtype=i32"}});
  entry(table, "eye(SymInt n, SymInt? m=None, *, ScalarType? dtype=None, Device? device=None) -> Tensor",
        Kind::Create)
      .infer(infer_eye)
      .cpu(run_eye)
      .element(eye_element)
      .samples({.calls = {"n=3", "n=2 m=4 dtype=i64", "n=0"}});
  composite(table, "zeros(SymInt[] size, *, ScalarType? dtype=None, Device? device=None) -> Tensor",
            &zeros_by_name)
      .samples({.calls = {"size=[2,3]", "size=[0] dtype=bool"}});
  composite(table, "ones(SymInt[] size, *, ScalarType? dtype=None, Device? device=None) -> Tensor",
            &ones_by_name)
      .samples({.calls = {"size=[2,3]", "size=[] dtype=i32"}});
  composite(table, "scalar_tensor(Number value, *, ScalarType? dtype=None, Device? device=None) -> Tensor",
            &scalar_tensor_by_name)
      .samples({.calls = {"value=2.5", "value=3 dtype=f64"}});
  composite(table, "empty_like(Tensor x, *, ScalarType? dtype=None, Device? device=None) -> Tensor",
            &empty_like_by_name);
  composite(table, "zeros_like(Tensor x, *, ScalarType? dtype=None, Device? device=None) -> Tensor",
            &zeros_like_by_name);
  composite(table, "ones_like(Tensor x, *, ScalarType? dtype=None, Device? device=None) -> Tensor",
            &ones_like_by_name);
  composite(
      table,
      "full_like(Tensor x, Number fill_value, *, ScalarType? dtype=None, Device? device=None) -> Tensor",
      &full_like_by_name);
}

// ---- The functions --------------------------------------------------------------------------------------------------

namespace {

Tensor filled(const SymList& sizes, const Scalar& value, DType dtype, const TensorOptions& options,
              SourceLocation where) {
  return with_options(call(WEFT_OP("full"), {value}, {sizes, dtype, options.device(), Attr()}, where),
                      options);
}

struct Like {
  Like(const Tensor& x, const TensorOptions& options)
      : sizes(x.sizes()),
        dtype(options.has_dtype() ? options.dtype() : x.dtype()),
        device(options.has_device() ? options.device() : x.device()) {
    if (!x.is_contiguous()) strides = SymList(dense_strides(x->layout));
  }
  SymList sizes;
  DType dtype;
  Device device;
  Attr strides;
};

Tensor filled_like(const Tensor& x, const Scalar& value, const TensorOptions& options, SourceLocation where) {
  const Like like(x, options);
  return with_options(
      call(WEFT_OP("full"), {value}, {like.sizes, like.dtype, like.device, like.strides}, where), options);
}

}  // namespace

Tensor empty(const SymList& sizes, const TensorOptions& options, SourceLocation where) {
  return with_options(call(WEFT_OP("empty"), {}, {sizes, options.dtype(), options.device(), Attr()}, where),
                      options);
}
Tensor zeros(const SymList& sizes, const TensorOptions& options, SourceLocation where) {
  return filled(sizes, 0, options.dtype(), options, where);
}
Tensor ones(const SymList& sizes, const TensorOptions& options, SourceLocation where) {
  return filled(sizes, 1, options.dtype(), options, where);
}
Tensor full(const SymList& sizes, const Scalar& value, const TensorOptions& options, SourceLocation where) {
  return filled(sizes, value, options.has_dtype() ? options.dtype() : value.dtype(), options, where);
}
Tensor scalar_tensor(const Scalar& value, const TensorOptions& options, SourceLocation where) {
  return filled({}, value, options.dtype(), options, where);
}
Tensor empty_like(const Tensor& x, const TensorOptions& options, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("empty_like"), where, {x});
  const Like like(x, options);
  return with_options(call(WEFT_OP("empty"), {}, {like.sizes, like.dtype, like.device, like.strides}, where),
                      options);
}
Tensor zeros_like(const Tensor& x, const TensorOptions& options, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("zeros_like"), where, {x});
  return filled_like(x, 0, options, where);
}
Tensor ones_like(const Tensor& x, const TensorOptions& options, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("ones_like"), where, {x});
  return filled_like(x, 1, options, where);
}
Tensor full_like(const Tensor& x, const Scalar& value, const TensorOptions& options, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("full_like"), where, {x, value});
  return filled_like(x, value, options, where);
}

Tensor arange(const Scalar& start, const Scalar& end, const Scalar& step, const TensorOptions& options,
              SourceLocation where) {
  const Operand numbers[] = {start, end, step};
  const DType dtype = options.has_dtype()     ? options.dtype()
                      : all_integers(numbers) ? DType::Int64
                                              : default_dtype();
  return with_options(call(WEFT_OP("arange"), numbers, Attrs{dtype, options.device()}, where), options);
}
Tensor arange(const Scalar& start, const Scalar& end, const TensorOptions& options, SourceLocation where) {
  return arange(start, end, 1, options, where);
}
Tensor arange(const Scalar& end, const TensorOptions& options, SourceLocation where) {
  return arange(0, end, 1, options, where);
}
Tensor linspace(const Scalar& start, const Scalar& end, SymArg steps, const TensorOptions& options,
                SourceLocation where) {
  return with_options(
      call(WEFT_OP("linspace"), {start, end}, {Sym(steps), options.dtype(), options.device()}, where),
      options);
}
Tensor eye(SymArg n, const TensorOptions& options, SourceLocation where) { return eye(n, n, options, where); }
Tensor eye(SymArg n, SymArg m, const TensorOptions& options, SourceLocation where) {
  return with_options(call(WEFT_OP("eye"), {}, {Sym(n), Sym(m), options.dtype(), options.device()}, where),
                      options);
}

// ---- Memory of the caller ---------------------------------------------------------------------------------------------

namespace {

// How many bytes the elements reach from the address on. Sizes and strides are those of the caller: nothing is known of them.
size_t bytes_of_blob(const void* data, const SymList& sizes, const SymList* strides, DType dtype) {
  constexpr auto kMost = std::numeric_limits<int64_t>::max();
  WEFT_CHECK(strides == nullptr || strides->size() == sizes.size(), "from_blob: ", sizes.size(),
             " sizes and ", strides->size(), " strides are given; each dimension needs both");
  bool is_empty = false, fits = true;
  __int128 elements = 1, last = 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    WEFT_CHECK(sizes[d] >= 0, "from_blob: sizes ", SizesView(sizes), " hold the negative size ", sizes[d]);
    WEFT_CHECK(strides == nullptr || (*strides)[d] >= 0, "from_blob: strides ", SizesView(*strides),
               " hold the negative stride ", (*strides)[d]);
    is_empty = is_empty || sizes[d] == 0;
  }
  for (size_t d = sizes.size(); fits && !is_empty && d-- > 0;) {
    const __int128 stride =
        strides != nullptr ? static_cast<int64_t>((*strides)[d]) : static_cast<int64_t>(elements);
    const int64_t size = sizes[d];
    last += (size - 1) * stride;
    elements *= size;
    fits = elements <= kMost && last < kMost;
  }
  const __int128 bytes = is_empty ? 0 : (last + 1) * static_cast<int64_t>(size_of(dtype));
  const auto address = static_cast<__int128>(reinterpret_cast<uintptr_t>(data));
  WEFT_CHECK(fits && bytes <= kMost && address + bytes <= std::numeric_limits<uintptr_t>::max(),
             "from_blob: sizes ", SizesView(sizes), strides != nullptr ? " and strides " : "",
             strides != nullptr ? detail::concat(SizesView(*strides)) : std::string(), " of ", dtype,
             " reach beyond the memory that an address can name");
  WEFT_CHECK(data != nullptr || is_empty, "from_blob: the address is null, but sizes ", SizesView(sizes),
             " hold elements");
  return static_cast<size_t>(bytes);
}

Tensor wrap(void* data, const SymList& sizes, const SymList* strides, std::function<void(void*)> deleter,
            const TensorOptions& options, SourceLocation where) {
  const PlaceScope place(where);
  const size_t bytes = bytes_of_blob(data, sizes, strides, options.dtype());
  Layout<Sym> layout = contiguous_layout<Sym>(sizes);
  if (strides != nullptr) layout.strides = *strides;
  Tensor result(make_intrusive<TensorImpl>(Storage::wrap(data, bytes, options.device(), std::move(deleter)),
                                           std::move(layout), options.dtype(), options.device()));
  if (TraceHook* trace = current_trace()) {
    warn_once(
        detail::concat("from_blob ", where.file_name(), ':', where.line()),
        detail::concat("from_blob at ", to_string(where),
                       " is inside a compiled function, which keeps the data as they are while it is traced; "
                       "make the tensor outside and pass it as an argument"));
    result = trace->constant(result, where);
  }
  return with_options(std::move(result), options);
}

}  // namespace

Tensor from_blob(void* data, const SymList& sizes, const TensorOptions& options, SourceLocation where) {
  return wrap(data, sizes, nullptr, {}, options, where);
}
Tensor from_blob(void* data, const SymList& sizes, const SymList& strides, const TensorOptions& options,
                 SourceLocation where) {
  return wrap(data, sizes, &strides, {}, options, where);
}
Tensor from_blob(void* data, const SymList& sizes, std::function<void(void*)> deleter,
                 const TensorOptions& options, SourceLocation where) {
  return wrap(data, sizes, nullptr, std::move(deleter), options, where);
}

}  // namespace weft
