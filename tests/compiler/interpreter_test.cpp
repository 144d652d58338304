// The interpreter against eager ops, bit for bit: bodies written by hand, for every kind of source and store.
#include <gtest/gtest.h>

#include <random>

#include "tensor/cpu/isa.h"
#include "tensor/ops/pointwise_rule.h"
#include "tensor/random/philox.h"
#include "tests/compiler/run_body.h"

namespace weft::compiler::tests {
namespace {

// ---- Pointwise

// Numbers of all sizes with what is special in between.
Tensor awkward(int64_t n, DType dtype, uint64_t seed) {
  std::mt19937_64 random(seed);
  const Tensor x = empty({n}, TensorOptions(dtype));
  visit(dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
      using Limits = std::numeric_limits<T>;
      const T specials[] = {0,
                            T(-0.0),
                            1,
                            -1,
                            T(0.5),
                            Limits::infinity(),
                            -Limits::infinity(),
                            Limits::quiet_NaN(),
                            Limits::max(),
                            Limits::denorm_min(),
                            T(1e10),
                            T(-7.5)};
      for (int64_t i = 0; i < n; ++i) {
        const T small = std::uniform_real_distribution<T>(-6, 6)(random);
        x.data_ptr<T>()[i] = random() % 8 == 0 ? specials[random() % 12] : small;
      }
    } else if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, int32_t>) {
      for (int64_t i = 0; i < n; ++i) {
        const auto any = static_cast<T>(random());
        x.data_ptr<T>()[i] = random() % 4 == 0 ? any : static_cast<T>(any % 40);
        if (x.data_ptr<T>()[i] == 0) x.data_ptr<T>()[i] = 3;  // a divisor
      }
    }
  });
  return x;
}

TEST(Interpreter, EveryPointwiseOpHasTheBitsOfItsKernel) {
  constexpr int64_t n = 1500;
  int count = 0;
  for (const auto& entry : OpTable::instance().all()) {
    const Op& op = *entry;
    if (op.pointwise == nullptr || op.pointwise->expr == nullptr) continue;
    const PointwiseRule& rule = *op.pointwise;
    for (const DType dtype : {f32, f64, i64, i32}) {
      const cpu::ElementwiseKernel kernel = rule.kernels.of(dtype);
      if (kernel == nullptr) continue;
      Body b(1, 1, n);
      b.body.values.set_number_dtype(dtype);
      std::vector<Expr> inputs;
      Tensors tensors;
      std::vector<const void*> in;
      for (int k = 0; k < rule.arity; ++k) {
        inputs.push_back(b.load(b.in(dtype), b.c));
        tensors.push_back(awkward(n, dtype, static_cast<uint64_t>(k)));
        in.push_back(tensors.back().data_ptr());
      }
      const Expr value = rule.expr(inputs);
      b.store(b.out(value.dtype()), b.c, value);
      const Tensor want = empty({n}, TensorOptions(value.dtype()));
      tensors.push_back(empty_like(want));
      const std::vector<int64_t> step(in.size(), 1);
      kernel(n, in.data(), step.data(), want.data_ptr());
      EXPECT_EQ(run(b, tensors).check, 0);
      EXPECT_EQ(difference_of_bits(tensors.back(), want), "") << op.name() << ' ' << dtype << '\n'
                                                              << to_string(b.body);
      ++count;
    }
  }
  EXPECT_GT(count, 250);
}

TEST(Interpreter, SmallTypesComputeWideAndRoundOnce) {
  for (const DType dtype :
       {DType::BFloat16, DType::Float16, DType::Int16, DType::Int8, DType::UInt8, DType::Bool}) {
    for (const int64_t n : {1, 15, 16, 17, 1023, 1024, 1025, 5000}) {
      Body b(1, 1, n);
      const DType compute = compute_dtype(dtype);
      const uint32_t x = b.in(dtype), y = b.in(dtype), z = b.out(dtype);
      const Expr value = cast(b.load(x, b.c), compute) * cast(b.load(y, b.c), compute);
      b.store(z, b.c, cast(value, dtype));
      const Tensor p = values({n}, dtype), q = values({n}, dtype);
      expect_result(b, {p, q, empty_like(p)}, 2, mul(p, q), name_of(dtype));
    }
  }
}

TEST(Interpreter, CastsBetweenAllTypes) {
  constexpr int64_t n = 300;
  for (int from = 0; from < kNumDTypes; ++from) {
    for (int to = 0; to < kNumDTypes; ++to) {
      const auto x_type = static_cast<DType>(from), y_type = static_cast<DType>(to);
      Body b(1, 1, n);
      const Expr x = b.load(b.in(x_type), b.c);
      b.store(b.out(y_type), b.c, cast(x, y_type));
      // The value is used twice: it is not converted on the way.
      b.store(b.out(x_type), b.c, x);
      const Tensor p = mul(values({n}, x_type), x_type == DType::Bool ? 1 : 3).to(x_type);
      const Tensor copy = empty_like(p);
      expect_result(b, {p, empty({n}, TensorOptions(y_type)), copy}, 1, p.to(y_type));
      EXPECT_EQ(difference_of_bits(copy, p), "");
    }
  }
}

TEST(Interpreter, BitsIntegersAndNumbers) {
  Body b(1, 1, 100);
  const Expr x = b.load(b.in(f32), b.c);
  const uint32_t out = b.out(f32);
  const Expr is_negative = (bitcast(x, i32) & static_cast<int64_t>(INT32_MIN)) != 0;
  const Expr limit = b.number(f32), factor = b.number(f64);
  b.store(out, b.c, where(is_negative || x > limit, to_float(to_int(x)), x * cast(factor, f32)));
  b.numbers = {slot(1.5f), slot(0.25)};
  const Tensor p = values({100}, f32).mul(4);
  expect_result(b, {p, empty_like(p)}, 1,
                add(trunc(p), 0.0).where(logical_or(p > 1.5, signbit(p)), mul(p, 0.25)));
}

// ---- Indices

TEST(Interpreter, BroadcastsRowsColumnsAndScalars) {
  for (const auto& [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 40}, {40, 1}, {7, 33}, {3000, 3}, {5, 1024}, {5, 1500}, {3, 9000}}) {
    Body b(2, rows, columns);
    const uint32_t whole = b.in(f32), row = b.in(f32), column = b.in(f32), one = b.in(f32), out = b.out(f32);
    const Expr r = b.load(row, b.b * rows + b.r), c = b.load(column, b.c);
    // Of the row alone, of the column alone, of both, and of all three.
    const Expr value =
        b.load(whole, b.dense()) * (exp(r) + 1) + (sqrt(abs(c)) - r) * b.load(one, Sym::from_int(0));
    b.store(out, b.dense(), where(r < c, value, r * r));
    const Tensor p = randn({2, rows, columns}), q = randn({2, rows, 1}), s = randn({columns}), t = randn({1});
    const Tensor all = p * (exp(q) + 1) + (sqrt(abs(s)) - q) * t, want = all.where(lt(q, s), q * q);
    expect_result(b, {p, q, s, t, empty_like(p)}, 4, want, weft::detail::concat(rows, " x ", columns));
  }
}

TEST(Interpreter, StridedTransposedAndReversedLoads) {
  for (const auto& [rows, columns] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 50}, {6, 10}, {70, 130}, {3, 2000}, {4, 5000}}) {
    Body b(3, rows, columns);
    const uint32_t x = b.in(f32), y = b.in(i64), z = b.in(f32), out = b.out(f32);
    // x is [3, columns, rows], y is [3, rows, 2 · columns], z is [columns] read from its end.
    const Expr value = b.load(x, (b.b * columns + b.c) * rows + b.r) + b.load(z, columns - 1 - b.c) +
                       cast(b.load(y, (b.b * rows + b.r) * (2 * columns) + b.c * 2), f32);
    b.store(out, (b.r * 3 + b.b) * columns + b.c, value);
    const Tensor p = randn({3, columns, rows}), q = randint(1000, {3, rows, 2 * columns}),
                 s = randn({columns});
    const Tensor even = q.slice(2, 0, 2 * columns, 2);
    const Tensor want = (p.transpose(1, 2) + flip(s, {0}) + even.to(kFloat32)).transpose(0, 1).contiguous();
    expect_result(b, {p, q, s, empty({rows, 3, columns})}, 3, want);
  }
}

TEST(Interpreter, IndicesThatAreNotAffine) {
  // A [12, 10] array rolled by 7 in its flat order, and every element of [6, 10] twice.
  Body b(1, 12, 10);
  const uint32_t x = b.in(f32), y = b.in(f32), out = b.out(f32), square = b.out(i64);
  const Sym flat = b.r * 10 + b.c;
  b.store(out, flat, b.load(x, (flat + 113) % 120) - b.load(y, b.div(b.r, 2) * 10 + b.c));
  b.store(square, flat, b.place(b.c * b.c - b.div(b.c, 3)));
  const Tensor p = randn({12, 10}), q = randn({6, 10}), k = arange(10);
  const Tensor squares = empty({12, 10}, TensorOptions(kInt64));
  const Tensor want = roll(p, {7}, {}) - q.repeat_interleave(2, 0);
  expect_result(b, {p, q, empty_like(p), squares}, 2, want);
  EXPECT_EQ(difference_of_bits(squares, (k * k - floor_divide(k, 3)).expand({12, 10})), "");
}

TEST(Interpreter, MaskedLoadsAndStores) {
  // Zero padding by 2 on the left, and what lies inside is written back to every second place.
  for (const int64_t columns : {20, 3000}) {
    Body b(1, 5, columns + 2);
    const uint32_t x = b.in(DType::BFloat16), out = b.out(DType::BFloat16), some = b.out(f32);
    const Expr inside = b.place(b.c) >= 2;
    const Expr value = b.load(x, b.r * columns + b.c - 2, inside);
    b.store(out, b.r * (columns + 2) + b.c, value);
    b.store(some, (b.r * columns + b.c - 2) * 2, cast(value, f32)).mask = (inside && b.place(b.r) != 3).id;
    const Tensor p = randn({5, columns}).to(kBFloat16);
    const Tensor written = zeros({5, columns, 2});
    expect_result(b, {p, empty({5, columns + 2}, TensorOptions(kBFloat16)), written}, 1,
                  cat({zeros({5, 2}, TensorOptions(kBFloat16)), p}, 1));
    Tensor want = stack({p.to(kFloat32), zeros({5, columns})}, 2);
    want.select(0, 3).zero_();
    EXPECT_EQ(difference_of_bits(written, want), "");
  }
}

TEST(Interpreter, IndirectLoadsCountFromTheEnd) {
  for (const int64_t columns : {1, 6, 2000}) {
    Body b(1, 40, columns);
    const uint32_t x = b.in(f32), which = b.in(i64), by_element = b.in(i32), out = b.out(f32);
    const Sym row = b.indirect(b.load(which, b.r), Sym::from_int(9), "index_select");
    const Sym column = b.indirect(b.load(by_element, b.dense()), Sym::from_int(columns), "gather");
    b.store(out, b.dense(), b.load(x, row * columns + b.c) * b.load(x, row * columns + column));
    const Tensor p = randn({9, columns}), q = randint(-9, 9, {40}),
                 s = randint(-columns, columns, {40, columns});
    const Tensor rows = index_select(p, 0, remainder(q, 9));
    const Tensor want = rows * gather(rows, 1, remainder(s, columns));
    expect_result(b, {p, q, s.to(kInt32), empty_like(want)}, 3, want);
  }
}

TEST(Interpreter, AnIndexOutsideSetsTheRecord) {
  Body b(2, 10, 30);
  const uint32_t x = b.in(f32), which = b.in(i64), out = b.out(f32);
  const Expr inside = b.place(b.c) < 29;
  const Sym at = b.indirect(b.load(which, b.dense()), Sym::from_int(4), "take");
  b.body.checks[0].mask = inside.id;
  b.store(out, b.dense(), b.load(x, at));
  const Tensor p = randn({4}), q = randint(-4, 4, {2, 10, 30});
  q.data_ptr<int64_t>()[29] = 1000;  // masked
  const Tensor got = empty({2, 10, 30});
  EXPECT_EQ(run(b, {p, q, got}).check, 0);
  for (const int64_t wrong : {4, -5, 1 << 30}) {
    const Tensor bad = q.clone();
    bad.data_ptr<int64_t>()[(10 + 7) * 30 + 11] = wrong;
    const KernelError error = run(b, {p, bad, got});
    EXPECT_EQ(error.check, 1);
    EXPECT_EQ(error.value, wrong);
    EXPECT_EQ(error.size, 4);
    EXPECT_EQ(error.element, (10 + 7) * 30 + 11);
    // The kernel goes on with element 0.
    EXPECT_EQ(got.data_ptr<float>()[(10 + 7) * 30 + 11], p.data_ptr<float>()[0]);
  }
}

TEST(Interpreter, AKernelInPlaceDoesNothingAfterAnError) {
  Body b(1, 1, 10);
  const uint32_t x = b.buffer(f32, true, true);
  b.store(x, b.c, b.load(x, b.c) + 1);
  const Interpreter interpreter(b.body);
  const Tensor p = zeros({10});
  void* buffer = p.data_ptr();
  KernelError error;
  interpreter.run(&buffer, nullptr, nullptr, &error, 1);
  EXPECT_EQ(difference_of_bits(p, ones({10})), "");
  error.check = 3;
  interpreter.run(&buffer, nullptr, nullptr, &error, 1);
  EXPECT_EQ(difference_of_bits(p, ones({10})), "");
}

TEST(Interpreter, StoresInPlaceReadFirst) {
  for (const int64_t n : {10, 1024, 4096, 10000}) {
    // Two parameters, one memory: y takes the place of x, and x is needed once more.
    Body b(1, 1, n);
    const uint32_t x = b.in(f32), y = b.out(f32), z = b.out(f32);
    const Expr value = b.load(x, b.c);
    b.store(y, b.c, value * 2);
    b.store(z, b.c, value);
    const Tensor p = randn({n}), before = p.clone(), copy = empty({n});
    EXPECT_EQ(run(b, {p, p, copy}).check, 0);
    EXPECT_EQ(difference_of_bits(copy, before), "");
    EXPECT_EQ(difference_of_bits(p, before * 2), "");
  }
}

TEST(Interpreter, ScatteredAdditionIsInOrder) {
  for (const DType dtype : {f32, f64, i32, DType::Int8}) {
    Body b(1, 50, 40);
    const uint32_t which = b.in(i64), from = b.in(dtype), to = b.buffer(dtype, true, true);
    const Sym row = b.indirect(b.load(which, b.r), Sym::from_int(6), "index_add");
    b.store(to, row * 40 + b.c, b.load(from, b.dense())).mode = BodyStore::Mode::Add;
    const Tensor p = values({6, 40}, dtype), q = randint(6, {50}), s = values({50, 40}, dtype);
    expect_result(b, {q, s, p}, 2, index_add(p, 0, q, s), name_of(dtype));
  }
}

TEST(Interpreter, RandomWordsAreThoseOfTheStream) {
  for (const int64_t columns : {7, 5000}) {
    Body b(1, 3, columns);
    const Expr narrow = b.random(b.dense()), wide = b.random(b.c * 3 + b.r, true);
    b.store(b.out(i32), b.dense(), narrow);
    b.store(b.out(i64), b.dense(), wide);
    b.numbers = {slot(uint64_t{0x1234567890abcdef}), slot(uint64_t{1} << 33), slot(~uint64_t{0}),
                 slot(uint64_t{5})};
    const Tensor p = empty({3, columns}, TensorOptions(kInt32)),
                 q = empty({3, columns}, TensorOptions(kInt64));
    EXPECT_EQ(run(b, {p, q}).check, 0);
    for (int64_t r = 0; r < 3; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        const int64_t at = r * columns + c;
        const auto element = static_cast<uint64_t>(at), other = static_cast<uint64_t>(c * 3 + r);
        ASSERT_EQ(static_cast<uint32_t>(p.data_ptr<int32_t>()[at]),
                  philox_word32(0x1234567890abcdef, uint64_t{1} << 33, element));
        ASSERT_EQ(static_cast<uint64_t>(q.data_ptr<int64_t>()[at]), philox_word64(~uint64_t{0}, 5, other));
      }
    }
  }
}

// ---- Sizes of the call

TEST(Interpreter, OneProgramForAllSizes) {
  Body b;
  const Sym rows = b.size("s0", 4), columns = b.size("s1", 6);
  b.loops(Sym::from_int(1), rows, columns);
  const uint32_t x = b.in(f32), out = b.out(f32), sums = b.out(f32);
  // x transposed, less the mean of its row, scaled by its size.
  const Expr value = b.load(x, b.c * rows + b.r);
  const Expr total = b.sum(Axis::Columns, value);
  b.store(out, b.r * columns + b.c, value - total / cast(b.place(columns), f32));
  b.store(sums, columns - 1 - b.c, b.sum(Axis::Rows, value), Each::Column);
  for (const auto& [m, n] :
       std::vector<std::pair<int64_t, int64_t>>{{2, 2}, {130, 40}, {7, 4096}, {3, 10000}}) {
    b.sizes = {m, n};
    const Tensor p = randn({n, m}), q = p.t().contiguous(), column = empty({n});
    expect_result(b, {p, empty({m, n}), column}, 1, q - sum(q, {1}, true) / static_cast<double>(n));
    EXPECT_EQ(difference_of_bits(column, flip(sum(q, {0}), {0})), "");
  }
}

// ---- Traffic

TEST(Interpreter, CountsWhatItTouches) {
  Body b(1, 100, 3000);
  const uint32_t x = b.in(f32), w = b.in(DType::BFloat16), out = b.out(f32), sums = b.out(f64),
                 half = b.out(DType::Int8);
  const Expr value = b.load(x, b.dense()) * cast(b.load(w, b.c), f32);
  b.store(out, b.dense(), value);
  b.store(sums, b.r, cast(b.sum(Axis::Columns, value), f64), Each::Row);
  b.store(half, b.dense(), cast(value, DType::Int8)).mask = (b.place(b.c) < 10).id;
  const Interpreter interpreter(b.body);
  const Tensors tensors = {randn({100, 3000}), randn({3000}).to(kBFloat16), empty({100, 3000}),
                           empty({100}, TensorOptions(kFloat64)), empty({100, 3000}, TensorOptions(kInt8))};
  std::vector<void*> buffers;
  for (const Tensor& tensor : tensors) buffers.push_back(tensor.data_ptr());
  KernelError error;
  const std::vector<BufferTraffic> traffic =
      interpreter.count_traffic(buffers.data(), nullptr, nullptr, &error);
  EXPECT_EQ(traffic[x].loaded, 100 * 3000 * 4);
  EXPECT_EQ(traffic[x].stored, 0);
  EXPECT_EQ(traffic[w].loaded, 100 * 3000 * 2);  // once for each row, which is a tile
  EXPECT_EQ(traffic[out].stored, 100 * 3000 * 4);
  EXPECT_EQ(traffic[sums].stored, 100 * 8);
  EXPECT_EQ(traffic[half].stored, 100 * 10);
  EXPECT_EQ(traffic[w].distinct_loaded, 3000 * 2);
  EXPECT_EQ(traffic[half].distinct_stored, 100 * 10);
  EXPECT_EQ(traffic[half].loaded, 0);
}

}  // namespace
}  // namespace weft::compiler::tests
