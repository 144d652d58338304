// Tests of the index ops that write: against naive loops in index order, with layouts, threads and aliased operands.
#include "tests/tensor/index_cases.h"

namespace weft {
namespace {

using namespace testing_values;

Place with(Place at, size_t d, int64_t value) {
  at[d] = value;
  return at;
}

using Combine = std::function<double(double, double)>;

// What scatter does, one place after the other; values rounded to the dtype at the end.
Tensor naive_scatter(const Tensor& x, size_t dim, const Tensor& index, const Tensor& source,
                     const Combine& f) {
  Array result(x), at(index), from(source);
  for_each_place(at.sizes, [&](const Place& p) {
    double& target = result(with(p, dim, static_cast<int64_t>(at(p))));
    target = f(target, from(p));
    if (x.dtype() == DType::Float32 || is_half(x.dtype())) target = static_cast<float>(target);
  });
  return from_values(result.values, result.sizes, x.dtype());
}

TEST(Scatter, EveryDTypeAndLayoutKeepsTheLastAssignment) {
  struct Case {
    Place x, index, source;
    int64_t dim;
  };
  for (const Case& c : {Case{{5, 7}, {9, 6}, {9, 7}, 0}, Case{{5, 7}, {4, 11}, {5, 12}, 1},
                        Case{{3, 4, 6}, {2, 9, 5}, {2, 9, 5}, 1}, Case{{6}, {20}, {20}, 0},
                        Case{{3, 4}, {0, 4}, {2, 4}, 0}}) {
    for (DType dtype : kEveryDType) {
      const Tensor x = random_tensor(c.x, dtype), source = random_tensor(c.source, dtype, 3);
      const Tensor index = random_index(c.index, 0, c.x[static_cast<size_t>(c.dim)]);
      const Tensor assigned =
          naive_scatter(x, static_cast<size_t>(c.dim), index, source, [](double, double v) { return v; });
      const Tensor added = naive_scatter(x, static_cast<size_t>(c.dim), index, source,
                                         [](double a, double v) { return a + v; });
      for (const Tensor& layout : in_layouts(x)) {
        EXPECT_TRUE(same_bits(scatter(layout, c.dim, index, source), assigned)) << describe(x);
        Tensor self = with_gaps(layout);
        self.scatter_(c.dim, index, source);
        EXPECT_TRUE(same_bits(self, assigned));
        if (dtype == DType::Bool) continue;
        for (const Tensor& values : in_layouts(source))
          EXPECT_TRUE(same_bits(scatter_add(layout, c.dim, index, values), added)) << describe(x);
        self = with_gaps(layout);
        self.scatter_add_(c.dim, index, source);
        EXPECT_TRUE(same_bits(self, added));
      }
    }
  }
}

TEST(Scatter, ANumberIsConvertedAndBoolsAddAsOr) {
  const Tensor x = from_values({1, 2, 3}, {3}, DType::Int32);
  expect_array(scatter(x, 0, index_tensor({2}, {1}), 7.9), Array(from_values({1, 2, 7}, {3}, DType::Int32)));
  const Tensor b = from_values({0, 1, 0}, {3}, DType::Bool), t = from_values({1, 1, 0}, {3}, DType::Bool);
  expect_array(scatter_add(b, 0, index_tensor({0, 1, 2}, {3}), t),
               Array(from_values({1, 1, 0}, {3}, DType::Bool)));
}

TEST(Scatter, IntegersWrap) {
  const Tensor x = from_values({127}, {1}, DType::Int8), one = from_values({1}, {1}, DType::Int8);
  expect_array(scatter_add(x, 0, index_tensor({0}, {1}), one), Array({1}, -128));
  const Tensor y = from_values({-32768}, {1}, DType::Int16);
  expect_array(scatter_reduce(y, 0, index_tensor({0}, {1}), y, "prod"), Array({1}, 0));
}

TEST(Scatter, SumsOfHalvesRoundOnce) {
  // 256 + 1 is 256 in bfloat16: rounding each addition would lose all eight.
  const Tensor x = from_values({256}, {1}, DType::BFloat16);
  const Tensor ones = from_values(std::vector<double>(8, 1), {8}, DType::BFloat16);
  const Tensor i = index_tensor(std::vector<double>(8, 0), {8});
  expect_array(scatter_add(x, 0, i, ones), Array({1}, 264));
  expect_array(index_put(x, {i}, ones, true), Array({1}, 264));
  expect_array(index_add(x, 0, i, ones), Array({1}, 264));
}

TEST(Scatter, ResultsDoNotDependOnThreads) {
  for (const auto& [sizes, dim] : {std::pair<Place, int64_t>{{40, 3000}, 0}, {{3000, 40}, 1}, {{60000}, 0}}) {
    Place x_sizes = sizes;
    x_sizes[static_cast<size_t>(dim)] = 7;
    const Tensor x = random_tensor(x_sizes, DType::Float32), source = random_tensor(sizes, DType::Float32, 2);
    const Tensor index = random_index(sizes, 0, 7);
    const Tensor want = naive_scatter(x, static_cast<size_t>(dim), index, source, [](double a, double v) {
      return static_cast<float>(a) + static_cast<float>(v);
    });
    const Tensor last =
        naive_scatter(x, static_cast<size_t>(dim), index, source, [](double, double v) { return v; });
    for (int threads : {1, 2, 3}) {
      const Threads scope(threads);
      EXPECT_TRUE(same_bits(scatter_add(x, dim, index, source), want)) << threads;
      EXPECT_TRUE(same_bits(scatter(x, dim, index, source), last)) << threads;
    }
  }
}

TEST(Scatter, SourceAndIndexMayShareMemoryWithTheTarget) {
  Tensor x = index_tensor({1, 2, 0}, {3});
  x.scatter_(0, x, x);  // x[x[i]] = x[i] on the old values
  expect_array(x, Array(index_tensor({0, 1, 2}, {3})));
  Tensor y = from_values({1, 2, 3}, {3}, DType::Float32);
  y.index_add_(0, index_tensor({1, 2, 0}, {3}), y);
  expect_array(y, Array(from_values({4, 3, 5}, {3}, DType::Float32)));
}

TEST(Scatter, NothingIsWrittenWhenAnIndexIsOutOfRange) {
  Tensor x = random_tensor({2, 3}, DType::Float32);
  const Array before(x);
  const Tensor source = random_tensor({2, 2}, DType::Float32, 4);
  const std::string text = tests::error_of<IndexError>([&] {
    x.scatter_(1, index_tensor({0, 1, 2, 3}, {2, 2}), source);
  });
  tests::expect_contains(text,
                         "scatter_: the index holds 3 at [1, 1], but dimension 1 of [2, 3] takes 0 to 2");
  EXPECT_THROW(x.scatter_add_(1, index_tensor({0, 1, 2, -1}, {2, 2}), source), IndexError);
  EXPECT_THROW(x.index_copy_(0, index_tensor({0, 2}, {2}), random_tensor({2, 3}, DType::Float32)),
               IndexError);
  EXPECT_THROW(x.index_fill_(0, index_tensor({5}, {1}), 1), IndexError);
  expect_array(x, before);
}

TEST(Scatter, BadShapesAndDTypesAreRefused) {
  const Tensor x = random_tensor({2, 3}, DType::Float32), index = index_tensor({0, 1}, {1, 2});
  tests::expect_contains(tests::error_of([&] {
                           scatter(x, 0, index, random_tensor({1, 1}, DType::Float32));
                         }),
                         "larger than the source [1, 1] in dimension 1");
  tests::expect_contains(tests::error_of([&] {
                           scatter(x, 0, index, random_tensor({1, 2}, DType::Float64));
                         }),
                         "the source is float64, but x is float32");
  tests::expect_contains(tests::error_of([&] {
                           scatter(x, 1, random_index({3, 1}, 0, 2), 1);
                         }),
                         "larger than x [2, 3] in dimension 0");
  tests::expect_contains(tests::error_of([&] {
                           scatter_reduce(x, 0, index, random_tensor({1, 2}, DType::Float32), "max");
                         }),
                         "must be sum, prod, mean, amax or amin");
  tests::expect_contains(tests::error_of([&] {
                           index_add(x, 0, index_tensor({0}, {1}), random_tensor({2, 3}, DType::Float32));
                         }),
                         "does not match x [2, 3] with dimension 0 of size 1");
}

// C54
TEST(Scatter, AnExpandedTargetIsRefusedInPlaceAndCopiedOtherwise) {
  const Tensor zero = from_values({0}, {1}, DType::Float32);
  Tensor wide = make_view(zero, {{Sym::from_int(3), Sym::from_int(4)}, {Sym(), Sym()}, Sym()});
  const Tensor index = index_tensor({1, 3, 1, 3, 1, 3}, {3, 2});
  const Tensor source = from_values({2, -1, 2, -1, 2, -1}, {3, 2}, DType::Float32);
  tests::expect_contains(tests::error_of([&] { wide.scatter_add_(1, index, source); }), "clone()");
  expect_array(scatter_add(wide, 1, index, source),
               Array(from_values({0, 2, 0, -1, 0, 2, 0, -1, 0, 2, 0, -1}, {3, 4}, DType::Float32)));
}

TEST(ScatterReduce, AllReductionsWithAndWithoutSelf) {
  for (DType dtype : {DType::Float32, DType::Float64, DType::Int64, DType::Int32, DType::Int16}) {
    const Tensor x = random_tensor({4, 3}, dtype), source = random_tensor({9, 3}, dtype, 5);
    const Tensor index = random_index({9, 3}, 0, 3);  // row 3 is never a target
    for (bool include_self : {true, false}) {
      for (const std::string reduce : {"sum", "prod", "mean", "amax", "amin"}) {
        Array want(x), at(index), from(source), count({4, 3}, include_self ? 1 : 0);
        for_each_place(at.sizes, [&](const Place& p) {
          const Place t = {static_cast<int64_t>(at(p)), p[1]};
          const double v = from(p), old = want(t);
          want(t) = count(t) == 0 && true ? v
                    : reduce == "prod"    ? old * v
                    : reduce == "amax"    ? std::max(old, v)
                    : reduce == "amin"    ? std::min(old, v)
                                          : old + v;
          if (dtype == DType::Float32) want(t) = static_cast<float>(want(t));
          ++count(t);
        });
        if (reduce == "mean") {
          for (size_t i = 0; i < want.values.size(); ++i) {
            double& v = want.values[i];
            const double n = std::max(1.0, count.values[i]);
            v = dtype == DType::Float32 ? static_cast<float>(v) / static_cast<float>(n) : v / n;
            if (!is_floating(dtype)) v = std::floor(v);
          }
        }
        if (dtype == DType::Int16)
          for (double& v : want.values) v = static_cast<int16_t>(static_cast<int64_t>(v));
        expect_array(scatter_reduce(x, 0, index, source, reduce, include_self), want,
                     reduce + " " + short_name_of(dtype));
        Tensor self = with_gaps(x);
        self.scatter_reduce_(0, index, source, reduce, include_self);
        expect_array(self, want, reduce + "_");
      }
    }
  }
}

TEST(ScatterReduce, ExtremesCarryNaNAndStartAnywhere) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const Tensor i = index_tensor({0, 0, 1}, {3});
  for (DType dtype : {DType::Float32, DType::BFloat16, DType::Float16, DType::Float64}) {
    const Tensor x = from_values({-inf, -inf}, {2}, dtype), source = from_values({1, nan, -inf}, {3}, dtype);
    expect_array(scatter_reduce(x, 0, i, source, "amax"), Array(from_values({nan, -inf}, {2}, dtype)));
  }
  // C56
  const Tensor x = from_values({-inf}, {1}, DType::Float32),
               source = from_values({1, 4, 2}, {3}, DType::Float32);
  expect_array(scatter_reduce(x, 0, index_tensor({0, 0, 0}, {3}), source, "amax", false), Array({1}, 4));
  const Tensor small = from_values({-100, 3}, {2}, DType::Int8),
               low = from_values({-120, 5, 7}, {3}, DType::Int8);
  expect_array(scatter_reduce(small, 0, i, low, "amax", false), Array(from_values({5, 7}, {2}, DType::Int8)));
}

TEST(IndexAdd, SlicesOfEveryDTypeAlongEveryDimension) {
  for (DType dtype : kEveryDType) {
    const Tensor x = random_tensor({4, 5, 6}, dtype);
    for (int64_t dim : {0, 1, -1}) {
      const auto d = static_cast<size_t>(dim < 0 ? 2 : dim);
      Place sizes = x.sizes();
      const int64_t n = sizes[d];
      sizes[d] = 8;
      const Tensor source = random_tensor(sizes, dtype, 6);
      for (DType index_dtype : {DType::Int64, DType::Int32}) {
        const Tensor index = random_index({8}, 0, n, 2, index_dtype);
        Array at(index), from(source), added(x), copied(x), filled(x);
        for_each_place(sizes, [&](const Place& p) {
          const Place t = with(p, d, static_cast<int64_t>(at({p[d]})));
          added(t) = dtype == DType::Bool ? added(t) != 0 || from(p) != 0 : added(t) + from(p);
          if (dtype == DType::Float32 || is_half(dtype)) added(t) = static_cast<float>(added(t));
          copied(t) = from(p);
          filled(t) = 1;
        });
        const Array want_added(from_values(added.values, added.sizes, dtype));
        for (const Tensor& layout : in_layouts(x)) {
          expect_array(index_add(layout, dim, index, source), want_added, short_name_of(dtype));
          expect_array(index_copy(layout, dim, index, source), copied);
          expect_array(index_fill(layout, dim, index, 1), filled);
          Tensor self = with_gaps(layout);
          expect_array(self.index_add_(dim, index, source), want_added);
          self = with_gaps(layout);
          expect_array(self.index_copy_(dim, index, source), copied);
          self = with_gaps(layout);
          expect_array(self.index_fill_(dim, index, 1), filled);
        }
      }
    }
  }
}

TEST(IndexAdd, AlphaScalesTheSource) {
  const Tensor x = from_values({1, 2}, {2}, DType::Float32),
               source = from_values({10, 20, 30}, {3}, DType::Float32);
  expect_array(index_add(x, 0, index_tensor({0, 0, 1}, {3}), source, 0.5),
               Array(from_values({16, 17}, {2}, DType::Float32)));
  const Tensor i = from_values({1, 2}, {2}, DType::Int32);
  tests::expect_contains(tests::error_of([&] {
                           index_add(i, 0, index_tensor({0}, {1}), from_values({1}, {1}, DType::Int32), 0.5);
                         }),
                         "a floating alpha needs a floating x");
}

TEST(IndexAdd, LongRowsOnSeveralThreads) {
  const Tensor x = random_tensor({5, 3000}, DType::Float32),
               source = random_tensor({40, 3000}, DType::Float32, 2);
  const Tensor index = random_index({40}, 0, 5);
  Tensor results[2];
  for (int threads : {1, 2}) {
    const Threads scope(threads);
    results[threads - 1] = index_add(x, 0, index, source);
  }
  EXPECT_TRUE(same_bits(results[0], results[1]));
}

}  // namespace
}  // namespace weft
