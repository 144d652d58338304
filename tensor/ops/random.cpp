// The random ops of the table: factories, their in-place forms, bernoulli, multinomial, randperm and dropout.
// Place: register.cpp calls register_random_ops; kernels are in tensor/cpu/random.h, the stream in tensor/random/.
//
// Note [Seed and offset of a random op]
// The public function takes counters from the generator and hands the op its seed and first counter as attributes
// (Scalars: a seed may use all 64 bits, which a Sym may not). The op itself is a pure function of its operands and
// attributes, so backward passes and compiled programs may run it again.
#include "tensor/cpu/random.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tensor/base/half.h"
#include "tensor/cpu/sort.h"
#include "tensor/cpu/workspace.h"
#include "tensor/ops/check.h"
#include "tensor/ops/draw.h"
#include "tensor/ops/entry.h"
#include "tensor/ops/factory.h"
#include "tensor/ops/register.h"
#include "tensor/random/generator.h"

namespace weft {
namespace {

using cpu::Draw;
using At = std::span<const Sym>;  // the place of an element

// ---- Seed, offset and checks ------------------------------------------------------------------------------------------

RandomStream reserve(Draw draw, DType dtype, Sym numel, int64_t low = 0, int64_t high = 1) {
  if (TraceHook* trace = current_trace()) {
    const int64_t each = cpu::numbers_per_counter(draw, dtype, low, high);
    return trace->draw((numel + (each - 1)) / each);
  }
  const GeneratorState state =
      default_generator().draw(cpu::counters_of(draw, dtype, low, high, numel.concrete()));
  return {Scalar(static_cast<int64_t>(state.seed)), Scalar(static_cast<int64_t>(state.offset))};
}
// Seed and offset are the last two attributes of every random op.
cpu::RandomCall stream_of(const Call& call) {
  const size_t n = call.attrs.size();
  return {.seed = static_cast<uint64_t>(call.attr(n - 2).as_scalar().to_int()),
          .offset = static_cast<uint64_t>(call.attr(n - 1).as_scalar().to_int())};
}

Sym count_of(const Sizes& sizes) { return product({sizes.data(), sizes.size()}); }

void check_sizes(const Call& call, const SymList& sizes) {
  for (size_t d = 0; d < sizes.size(); ++d)
    WEFT_CHECK(sizes[d] >= 0, call.name(), ": size ", static_cast<int64_t>(sizes[d]), " of dimension ", d,
               " is negative");
}
void check_floating(const Call& call, DType dtype) {
  WEFT_CHECK(is_floating(dtype), call.name(), ": the dtype is ", dtype,
             ", but only floating types hold such numbers; use randint for integers");
}
void check_chance(const Call& call, double p) {
  WEFT_CHECK(p >= 0 && p <= 1, call.name(), ": p is ", p, ", but a chance is between 0 and 1");
}

// The integers that a dtype holds; for floating types, those up to its largest value.
struct IntegerRange {
  int64_t low, high;
};
IntegerRange integer_range_of(DType dtype) {
  return visit(dtype, [](auto zero) -> IntegerRange {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, bool>) return {0, 1};
    else if constexpr (std::is_integral_v<T>)
      return {std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
    else if constexpr (std::is_same_v<T, Float16>) return {-65504, 65504};
    else return {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()};
  });
}
void check_random_range(const Call& call, int64_t low, int64_t high, DType dtype) {
  WEFT_CHECK(low < high, call.name(), ": low is ", low, " and high is ", high,
             ", but low must be below high");
  const IntegerRange range = integer_range_of(dtype);
  WEFT_CHECK(low >= range.low && high - 1 <= range.high, call.name(), ": [", low, ", ", high,
             ") leaves the range ", range.low, " to ", range.high, " of ", dtype);
}

// ---- Rules and kernels of the factories: attributes …, size, dtype, device, seed, offset ------------------------------

OutputSpecs created(const Call& call, size_t first) {
  const SymList& sizes = call.attr(first).as_sizes();
  check_sizes(call, sizes);
  return {OutputSpec{sizes, call.attr(first + 1).as_dtype(), call.attr(first + 2).as_device()}};
}
OutputSpecs infer_floating(const Call& call) {
  OutputSpecs specs = created(call, 0);
  check_floating(call, specs[0].dtype);
  return specs;
}
OutputSpecs infer_randint(const Call& call) {
  OutputSpecs specs = created(call, 2);
  check_random_range(call, call.attr(0).as_int(), call.attr(1).as_int(), specs[0].dtype);
  return specs;
}
OutputSpecs infer_randperm(const Call& call) {
  const Sym n = call.attr(0).as_int();
  const DType dtype = call.attr(1).as_dtype();
  WEFT_CHECK(n >= 0, call.name(), ": n is ", static_cast<int64_t>(n), ", but cannot be negative");
  WEFT_CHECK(dtype != DType::Bool, call.name(), ": bool does not hold the numbers up to n");
  // Whole numbers up to 2^significand are exact.
  const int64_t most = dtype == DType::Float32    ? int64_t{1} << 24
                       : dtype == DType::Float64  ? int64_t{1} << 53
                       : dtype == DType::Float16  ? 2048
                       : dtype == DType::BFloat16 ? 256
                                                  : integer_range_of(dtype).high;
  WEFT_CHECK(n - 1 <= most, call.name(), ": n is ", static_cast<int64_t>(n), ", but ", dtype,
             " holds whole numbers only up to ", most);
  return {OutputSpec{Sizes{n}, dtype, call.attr(2).as_device()}};
}

void fill(Draw draw, const cpu::RandomCall& random, const Tensor& out, const void* in = nullptr) {
  cpu::run_random(draw, out->dtype, random, int_numel(out), in, bytes_of(out));
}
void run_rand(const Call& call, std::span<Tensor> outputs) {
  fill(Draw::Uniform, stream_of(call), outputs[0]);
}
void run_randn(const Call& call, std::span<Tensor> outputs) {
  fill(Draw::Normal, stream_of(call), outputs[0]);
}
void run_randint(const Call& call, std::span<Tensor> outputs) {
  cpu::RandomCall random = stream_of(call);
  random.low = call.attr(0).as_int(), random.high = call.attr(1).as_int();
  fill(Draw::Integer, random, outputs[0]);
}

Expr rand_element(LoopReader& loop, const Call& call, const OutputSpec& result, At place) {
  return draw::uniform({loop, call, result, place}, 0, 1);
}
Expr randn_element(LoopReader& loop, const Call& call, const OutputSpec& result, At place) {
  return draw::normal({loop, call, result, place}, 0, 1);
}
// Of randint and random.
Expr integer_element(LoopReader& loop, const Call& call, const OutputSpec& result, At place) {
  return draw::integer({loop, call, result, place}, call.attr(0).as_int(), call.attr(1).as_int());
}

// The order of n 64-bit words; the sort is stable, so equal words (of which there are none to speak of) do no harm.
void run_randperm(const Call& call, std::span<Tensor> outputs) {
  const int64_t n = int_numel(outputs[0]);
  if (n == 0) return;
  const Tensor words = make_tensor(outputs[0]->layout.sizes, DType::Int64),
               sorted = make_tensor(words->layout.sizes, DType::Int64),
               order = make_tensor(words->layout.sizes, DType::Int64);
  fill(Draw::Bits64, stream_of(call), words);
  const int64_t one = 1;
  cpu::sort_rows({.dtype = DType::Int64,
                  .x = bytes_of(words),
                  .sizes = {&n, 1},
                  .strides = {&one, 1},
                  .dim = 0,
                  .descending = false,
                  .count = n,
                  .values = bytes_of(sorted),
                  .indices = data_of<int64_t>(order)});
  copy_data(order, outputs[0]);
}

// ---- Ops shaped like an operand: base ops of the in-place forms ------------------------------------------------------

OutputSpecs like(const Call& call) {
  const Tensor& x = call.tensor(0);
  return {OutputSpec{x->layout.sizes, x.dtype(), x.device()}};
}
OutputSpecs infer_uniform(const Call& call) {
  check_floating(call, call.tensor(0).dtype());
  const double low = call.attr(0).as_double(), high = call.attr(1).as_double();
  WEFT_CHECK(low <= high && std::isfinite(high - low), call.name(), ": low is ", low, " and high is ", high,
             ", but low may not be above high, and both must be finite");
  return like(call);
}
OutputSpecs infer_normal(const Call& call) {
  check_floating(call, call.tensor(0).dtype());
  const double std = call.attr(1).as_double();
  WEFT_CHECK(std >= 0, call.name(), ": std is ", std, ", but cannot be negative");
  return like(call);
}
OutputSpecs infer_chance(const Call& call) {
  check_chance(call, call.attr(0).as_double());
  return like(call);
}
OutputSpecs infer_random(const Call& call) {
  check_random_range(call, call.attr(0).as_int(), call.attr(1).as_int(), call.tensor(0).dtype());
  return like(call);
}

// Element i is the i-th in row-major order, wherever it lies.
template <class F>
void fill_in_place(const Tensor& self, const F& f) {
  if (self.is_contiguous()) return f(self);
  const Tensor dense = make_tensor(self->layout.sizes, self->dtype);
  f(dense);
  copy_data(dense, self);
}
template <Draw D>
void fill_by_attributes(const Call& call, const Tensor& out) {
  cpu::RandomCall random = stream_of(call);
  if constexpr (D == Draw::Integer) {
    random.low = call.attr(0).as_int(), random.high = call.attr(1).as_int();
  } else {
    random.a = call.attr(0).as_double();
    if constexpr (D != Draw::Chance) random.b = call.attr(1).as_double();
  }
  fill(D, random, out);
}
template <Draw D>
void run_like(const Call& call, std::span<Tensor> outputs) {
  fill_by_attributes<D>(call, outputs[0]);
}
template <Draw D>
void run_in_place(const Call& call, const Tensor& self) {
  call.op.base->infer(call);  // its checks
  fill_in_place(self, [&](const Tensor& out) { fill_by_attributes<D>(call, out); });
}

Expr uniform_element(LoopReader& loop, const Call& call, const OutputSpec& result, At place) {
  return draw::uniform({loop, call, result, place}, call.attr(0).as_double(), call.attr(1).as_double());
}
Expr normal_element(LoopReader& loop, const Call& call, const OutputSpec& result, At place) {
  return draw::normal({loop, call, result, place}, call.attr(0).as_double(), call.attr(1).as_double());
}
Expr chance_element(LoopReader& loop, const Call& call, const OutputSpec& result, At place) {
  return draw::with_chance({loop, call, result, place}, call.attr(0).as_double(),
                           loop.graph().integer(1, compute_dtype(result.dtype)));
}

// x itself where it is dense, else a dense copy.
Tensor dense(const Tensor& x) {
  if (x.is_contiguous()) return x;
  Tensor copy = make_tensor(x->layout.sizes, x->dtype);
  copy_data(x, copy);
  return copy;
}

OutputSpecs infer_bernoulli(const Call& call) {
  check_floating(call, call.tensor(0).dtype());
  return like(call);
}
void run_bernoulli(const Call& call, std::span<Tensor> outputs) {
  const Tensor p = dense(call.tensor(0));
  visit(p->dtype, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0; i < int_numel(p); ++i) {
      double value;
      if constexpr (std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>)
        value = to_float(data_of<T>(p)[i]);
      else value = static_cast<double>(data_of<T>(p)[i]);
      WEFT_CHECK(value >= 0 && value <= 1, call.name(), ": element ", i, " of the probabilities is ", value,
                 ", but a chance is between 0 and 1");
    }
  });
  fill(Draw::ChanceOf, stream_of(call), outputs[0], bytes_of(p));
}

// ---- Dropout ------------------------------------------------------------------------------------------------------------

OutputSpecs infer_dropout(const Call& call) {
  const DType dtype = call.tensor(0).dtype();
  WEFT_CHECK(is_floating(dtype), call.name(), ": x is ", describe(call.tensor(0)),
             ", but only floating tensors can be scaled by 1 / (1 - p); convert it with to()");
  check_chance(call, call.attr(0).as_double());
  return like(call);
}
void run_dropout(const Call& call, std::span<Tensor> outputs) {
  const double p = call.attr(0).as_double();
  cpu::RandomCall random = stream_of(call);
  random.a = 1 - p, random.b = p == 1 ? 0 : 1 / (1 - p);
  const Tensor x = dense(call.tensor(0));
  fill(Draw::Dropout, random, outputs[0], bytes_of(x));
}
Expr dropout_element(LoopReader& loop, const Call& call, const OutputSpec& result, At place) {
  const double p = call.attr(0).as_double();
  const Expr x = cast(loop.load(0, place), compute_dtype(result.dtype));
  return draw::with_chance({loop, call, result, place}, 1 - p, x * (p == 1 ? 0 : 1 / (1 - p)));
}
// Nothing is saved: the same seed and offset make the same mask.
Tensor dropout_again(const Tensor& dy, const Attrs& attrs) {
  return call(WEFT_OP("dropout_with_offset"), {dy}, attrs, {});
}

// ---- Multinomial --------------------------------------------------------------------------------------------------------

// Attributes: count, replacement, seed, offset.
OutputSpecs infer_multinomial(const Call& call) {
  const Tensor& weights = call.tensor(0);
  check_floating(call, weights.dtype());
  WEFT_CHECK(weights.dim() == 1 || weights.dim() == 2, call.name(), ": the weights are ", describe(weights),
             ", but must have one or two dimensions");
  const Sym count = call.attr(0).as_int(), classes = weights.size(-1);
  WEFT_CHECK(count > 0, call.name(), ": ", static_cast<int64_t>(count),
             " draws were asked for; at least one is needed");
  WEFT_CHECK(call.attr(1).as_bool() || count <= classes, call.name(), ": ", static_cast<int64_t>(count),
             " draws without replacement were asked for, but there are ", static_cast<int64_t>(classes),
             " classes");
  Sizes sizes = weights->layout.sizes;
  sizes.back() = count;
  return {OutputSpec{sizes, DType::Int64, weights.device()}};
}

struct WeightedRow {
  const double* weights;
  int64_t classes, row;
  const char* op;
  double total = 0;
  int64_t positive = 0;

  void check() {
    for (int64_t i = 0; i < classes; ++i) {
      WEFT_CHECK(weights[i] >= 0 && std::isfinite(weights[i]), op, ": weight ", i, " of row ", row, " is ",
                 weights[i], ", but weights are finite and not negative");
      total += weights[i];
      positive += weights[i] > 0;
    }
    WEFT_CHECK(total > 0, op, ": the weights of row ", row, " sum to 0, so no class can be drawn");
  }
};

void draw_with_replacement(const WeightedRow& row, const cpu::RandomCall& random, int64_t count, double* sums,
                           int64_t* out) {
  double sum = 0;
  int64_t last = 0;
  for (int64_t i = 0; i < row.classes; ++i) {
    sum += row.weights[i];
    sums[i] = sum;
    if (row.weights[i] > 0) last = i;
  }
  for (int64_t j = 0; j < count; ++j) {
    const uint64_t word =
        philox_word64(random.seed, random.offset, static_cast<uint64_t>(row.row * count + j));
    // The first class whose sum lies above the point has a positive weight.
    const int64_t at = std::upper_bound(sums, sums + row.classes, philox_uniform(word) * sum) - sums;
    out[j] = std::min(at, last);
  }
}

// A race of exponential clocks: class i rings at -ln(1 - u) / weight; the first to ring are drawn, in that order.
void draw_without_replacement(const WeightedRow& row, const cpu::RandomCall& random, int64_t count,
                              double* times, int64_t* order, int64_t* out) {
  WEFT_CHECK(row.positive >= count, row.op, ": ", count,
             " draws without replacement were asked for, but row ", row.row, " has only ", row.positive,
             " weights above 0");
  for (int64_t i = 0; i < row.classes; ++i) {
    const uint64_t word =
        philox_word64(random.seed, random.offset, static_cast<uint64_t>(row.row * row.classes + i));
    times[i] = row.weights[i] > 0 ? -std::log1p(-philox_uniform(word)) / row.weights[i]
                                  : std::numeric_limits<double>::infinity();
    order[i] = i;
  }
  std::partial_sort(order, order + count, order + row.classes,
                    [&](int64_t i, int64_t j) { return times[i] != times[j] ? times[i] < times[j] : i < j; });
  std::copy(order, order + count, out);
}

void run_multinomial(const Call& call, std::span<Tensor> outputs) {
  Tensor weights = make_tensor(call.tensor(0)->layout.sizes, DType::Float64);
  copy_data(call.tensor(0), weights);
  const int64_t count = call.attr(0).as_int(), classes = int_sizes(weights)[weights.dim() - 1];
  const int64_t rows = weights.dim() == 2 ? int_sizes(weights)[0] : 1;
  const cpu::RandomCall random = stream_of(call);
  const cpu::Workspace workspace((classes + 1) * 16);
  auto* numbers = reinterpret_cast<double*>(workspace.get());
  auto* order = reinterpret_cast<int64_t*>(numbers + classes);
  for (int64_t r = 0; r < rows; ++r) {
    WeightedRow row{data_of<double>(weights) + r * classes, classes, r, call.name()};
    row.check();
    int64_t* out = data_of<int64_t>(outputs[0]) + r * count;
    if (call.attr(1).as_bool()) draw_with_replacement(row, random, count, numbers, out);
    else draw_without_replacement(row, random, count, numbers, order, out);
  }
}

// ---- Calls --------------------------------------------------------------------------------------------------------------

Tensor create(const Op& op, Draw draw, const SymList& sizes, const TensorOptions& options,
              SourceLocation where) {
  const RandomStream stream = reserve(draw, options.dtype(), count_of(sizes));
  return with_options(call(op, {},
                           {Attr(sizes), Attr(options.dtype()), Attr(options.device()), Attr(stream.seed),
                            Attr(stream.offset)},
                           where),
                      options);
}
TensorOptions options_like(const Tensor& x, const TensorOptions& options) {
  return TensorOptions(options.has_dtype() ? options.dtype() : x.dtype())
      .device(options.has_device() ? options.device() : x.device())
      .requires_grad(options.requires_grad());
}
Tensor no_gradient(const Tensor& dy) { return zeros_like(dy); }

}  // namespace

Tensor rand(const SymList& sizes, const TensorOptions& options, SourceLocation where) {
  return create(WEFT_OP("rand"), Draw::Uniform, sizes, options, where);
}
Tensor randn(const SymList& sizes, const TensorOptions& options, SourceLocation where) {
  return create(WEFT_OP("randn"), Draw::Normal, sizes, options, where);
}
Tensor rand_like(const Tensor& x, const TensorOptions& options, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("rand_like"), where, {x});
  return rand(x.sizes(), options_like(x, options));
}
Tensor randn_like(const Tensor& x, const TensorOptions& options, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("randn_like"), where, {x});
  return randn(x.sizes(), options_like(x, options));
}
Tensor randint(int64_t high, const SymList& sizes, const TensorOptions& options, SourceLocation where) {
  return randint(0, high, sizes, options, where);
}
Tensor randint(int64_t low, int64_t high, const SymList& sizes, const TensorOptions& options,
               SourceLocation where) {
  const DType dtype = options.has_dtype() ? options.dtype() : DType::Int64;
  const RandomStream stream = reserve(Draw::Integer, dtype, count_of(sizes), low, high);
  return with_options(call(WEFT_OP("randint"), {},
                           {Attr(low), Attr(high), Attr(sizes), Attr(dtype), Attr(options.device()),
                            Attr(stream.seed), Attr(stream.offset)},
                           where),
                      options);
}
Tensor randperm(SymArg n, const TensorOptions& options, SourceLocation where) {
  const Sym count = n;
  const DType dtype = options.has_dtype() ? options.dtype() : DType::Int64;
  const RandomStream stream = reserve(Draw::Bits64, dtype, count >= 0 ? count : Sym::from_int(0));
  return call(WEFT_OP("randperm"), {},
              {Attr(count), Attr(dtype), Attr(options.device()), Attr(stream.seed), Attr(stream.offset)},
              where);
}
Tensor bernoulli(const Tensor& probabilities, SourceLocation where) {
  const RandomStream stream = reserve(Draw::ChanceOf, DType::Float32, probabilities.numel());
  return call(WEFT_OP("bernoulli"), {probabilities}, {Attr(stream.seed), Attr(stream.offset)}, where);
}
Tensor bernoulli(const Tensor& x, double p, SourceLocation where) {
  const RandomStream stream = reserve(Draw::Chance, x.dtype(), x.numel());
  return call(WEFT_OP("bernoulli_p"), {x}, {Attr(p), Attr(stream.seed), Attr(stream.offset)}, where);
}
Tensor multinomial(const Tensor& weights, int64_t count, bool replacement, SourceLocation where) {
  const Sym rows = weights.dim() == 2 ? weights.size(0) : Sym::from_int(1);
  const Sym each =
      replacement || weights.dim() == 0 ? Sym::from_int(std::max<int64_t>(count, 0)) : weights.size(-1);
  const RandomStream stream = reserve(Draw::Bits64, DType::Int64, rows * each);
  return call(WEFT_OP("multinomial"), {weights},
              {Attr(count), Attr(replacement), Attr(stream.seed), Attr(stream.offset)}, where);
}
Tensor dropout(const Tensor& x, double p, bool train, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("dropout"), where, {x});
  WEFT_CHECK_AT(where, p >= 0 && p <= 1, "dropout: p is ", p, ", but a chance is between 0 and 1");
  if (!train || p == 0) return x;
  const RandomStream stream = reserve(Draw::Dropout, x.dtype(), x.numel());
  return call(WEFT_OP("dropout_with_offset"), {x}, {Attr(p), Attr(stream.seed), Attr(stream.offset)}, where);
}

Tensor& Tensor::uniform_(double low, double high, SourceLocation where) {
  const RandomStream stream = reserve(Draw::Uniform, dtype(), numel());
  call_mutation(WEFT_OP("uniform_"), {*this}, {Attr(low), Attr(high), Attr(stream.seed), Attr(stream.offset)},
                where);
  return *this;
}
Tensor& Tensor::normal_(double mean, double std, SourceLocation where) {
  const RandomStream stream = reserve(Draw::Normal, dtype(), numel());
  call_mutation(WEFT_OP("normal_"), {*this}, {Attr(mean), Attr(std), Attr(stream.seed), Attr(stream.offset)},
                where);
  return *this;
}
Tensor& Tensor::bernoulli_(double p, SourceLocation where) {
  const RandomStream stream = reserve(Draw::Chance, dtype(), numel());
  call_mutation(WEFT_OP("bernoulli_"), {*this}, {Attr(p), Attr(stream.seed), Attr(stream.offset)}, where);
  return *this;
}
Tensor& Tensor::random_(int64_t low, int64_t high, SourceLocation where) {
  const RandomStream stream = reserve(Draw::Integer, dtype(), numel(), low, high);
  call_mutation(WEFT_OP("random_"), {*this}, {Attr(low), Attr(high), Attr(stream.seed), Attr(stream.offset)},
                where);
  return *this;
}

void register_random_ops(OpTable& table) {
#define WEFT_CREATED \
  "SymInt[] size, *, ScalarType dtype, Device device, Scalar seed=0, Scalar offset=0) -> Tensor"
  // Uniform on [0, 1); the standard normal distribution.  Dtypes: floating.
  entry(table, "rand(" WEFT_CREATED, Kind::Create)
      .infer(infer_floating)
      .cpu(run_rand)
      .element(rand_element)
      .random()
      .samples({.calls = {"size=[2,3] dtype=f32 device=cpu seed=1", "size=[0] dtype=bf16 device=cpu",
                          "size=[3,5] dtype=f64 device=cpu seed=1234567890123 offset=6",
                          "size=[7] dtype=bf16 device=cpu", "size=[7] dtype=f16 device=cpu seed=-1"}});
  entry(table, "randn(" WEFT_CREATED, Kind::Create)
      .infer(infer_floating)
      .cpu(run_randn)
      .element(randn_element)
      .random()
      .samples({.calls = {"size=[2,3] dtype=f32 device=cpu seed=1", "size=[] dtype=f64 device=cpu",
                          "size=[3,5] dtype=f64 device=cpu seed=1234567890123 offset=6",
                          "size=[13] dtype=bf16 device=cpu", "size=[6] dtype=f16 device=cpu seed=-1"}});
  // Integers of [low, high).  Dtypes: all that hold them.
  entry(table, "randint(int low, int high, " WEFT_CREATED, Kind::Create)
      .infer(infer_randint)
      .cpu(run_randint)
      .element(integer_element)
      .random()
      .samples({.calls = {"low=-3 high=5 size=[2,3] dtype=i64 device=cpu",
                          "low=0 high=2 size=[4] dtype=bool device=cpu",
                          "low=-3000000000000 high=4000000000000 size=[3,5] dtype=i64 device=cpu seed=4",
                          "low=-2000000000 high=2000000000 size=[9] dtype=i32 device=cpu seed=6 offset=3",
                          "low=-60000 high=60000 size=[9] dtype=f16 device=cpu",
                          "low=-3000000000000 high=4000000000000 size=[9] dtype=bf16 device=cpu"}});
#undef WEFT_CREATED
  // 0 … n-1 in random order.
  entry(table,
        "randperm(SymInt n, *, ScalarType dtype, Device device, Scalar seed=0, Scalar offset=0) -> Tensor",
        Kind::Create)
      .infer(infer_randperm)
      .cpu(run_randperm)
      .random()
      .samples({.calls = {"n=7 dtype=i64 device=cpu", "n=0 dtype=i64 device=cpu"}});

  // New values in the shape of x, whose data is not read: the base ops of the in-place forms.
  const auto shaped = [&](const char* schema, OutputSpecs (*infer)(const Call&),
                          void (*kernel)(const Call&, std::span<Tensor>), ElementRule element,
                          std::vector<std::string> calls) {
    entry(table, schema, Kind::Create)
        .infer(infer)
        .cpu(kernel)
        .element(element)
        .random()
        .grad([](Dy<> dy) { return no_gradient(dy); })
        .samples({.calls = std::move(calls)});
  };
  shaped("uniform(Tensor x, float low=0, float high=1, *, Scalar seed=0, Scalar offset=0) -> Tensor",
         infer_uniform, run_like<Draw::Uniform>, uniform_element,
         {"x=[3,4]", "x=[2,0,3]", "x=[17,30] low=-2 high=0.75 seed=5 offset=7",
          "x=[9,7] low=100 high=101 seed=5"});
  shaped("normal(Tensor x, float mean=0, float std=1, *, Scalar seed=0, Scalar offset=0) -> Tensor",
         infer_normal, run_like<Draw::Normal>, normal_element,
         {"x=[3,4]", "x=[2,0,3]", "x=[] seed=3", "x=[3,7,5] mean=-1.5 std=0.25 seed=9 offset=4"});
  shaped("bernoulli_p(Tensor x, float p=0.5, *, Scalar seed=0, Scalar offset=0) -> Tensor", infer_chance,
         run_like<Draw::Chance>, chance_element,
         {"x=[3,4]", "x=[2,0,3]", "x=[7,11] p=0.3 seed=2", "x=[5] p=1"});
  shaped("random(Tensor x, int low, int high, *, Scalar seed=0, Scalar offset=0) -> Tensor", infer_random,
         run_like<Draw::Integer>, integer_element,
         {"x=[3,4] low=0 high=5", "x=[0] low=0 high=2", "x=[9,5] low=-100 high=100 seed=8"});
  mutation(table, "uniform_", "uniform", run_in_place<Draw::Uniform>).random();
  mutation(table, "normal_", "normal", run_in_place<Draw::Normal>).random();
  mutation(table, "bernoulli_", "bernoulli_p", run_in_place<Draw::Chance>).random();
  mutation(table, "random_", "random", run_in_place<Draw::Integer>).random();

  // 1 with the chance that stands in each element, else 0.
  entry(table, "bernoulli(Tensor probabilities, *, Scalar seed=0, Scalar offset=0) -> Tensor", Kind::Create)
      .infer(infer_bernoulli)
      .cpu(run_bernoulli)
      .random()
      .grad([](Dy<> dy) { return no_gradient(dy); })
      .samples({.low = 0, .high = 1, .specials = false, .check_gradient = false});
  // Classes drawn by weight.  Shapes: [n] -> [count], [rows, n] -> [rows, count].  Dtypes: floating -> int64.
  entry(table,
        "multinomial(Tensor weights, SymInt count, bool replacement=False, *, Scalar seed=0, Scalar "
        "offset=0) -> Tensor",
        Kind::Create)
      .infer(infer_multinomial)
      .cpu(run_multinomial)
      .random()
      .samples({.low = 0.1,
                .high = 1,
                .specials = false,
                .calls = {"weights=[4] count=2", "weights=[3,5] count=4"}});
  // x / (1 - p) with chance 1 - p, else 0. The gradient is the op itself, with the same mask.
  entry(table, "dropout_with_offset(Tensor x, float p, *, Scalar seed=0, Scalar offset=0) -> Tensor",
        Kind::Create)
      .infer(infer_dropout)
      .cpu(run_dropout)
      .element(dropout_element)
      .random()
      .grad([](Dy<> dy, const Attrs& attrs) { return dropout_again(dy, attrs); })
      .samples({.specials = false,
                .calls = {"x=[3,5] p=0.25", "x=[4] p=1", "x=[0] p=0.5", "x=[3,4,5] p=0.7 seed=11 offset=2"}});

  const auto composite_of = [&](const char* schema, void (*function)(const Call&, std::vector<Tensor>&)) {
    entry(table, schema, Kind::Composite).random().op().composite = function;
  };
  composite_of("rand_like(Tensor x) -> Tensor", [](const Call& call, std::vector<Tensor>& outputs) {
    outputs.push_back(rand_like(call.tensor(0), {}, call.where));
  });
  composite_of("randn_like(Tensor x) -> Tensor", [](const Call& call, std::vector<Tensor>& outputs) {
    outputs.push_back(randn_like(call.tensor(0), {}, call.where));
  });
  composite(table, "dropout(Tensor x, float p=0.5, bool train=True) -> Tensor", dropout).random();
}

}  // namespace weft
