// Tests of the index ops that read, and of index_put: against naive loops, with bounds, layouts and every dtype.
#include "tests/tensor/index_cases.h"

namespace weft {
namespace {

using namespace testing_values;

Place with(Place at, size_t d, int64_t value) {
  at[d] = value;
  return at;
}

TEST(Gather, EveryDTypeAndLayoutReadsTheNamedElements) {
  struct Case {
    Place x, index;
    int64_t dim;
  };
  for (const Case& c : {Case{{5, 7}, {3, 7}, 0}, Case{{5, 7}, {4, 11}, 1}, Case{{3, 4, 6}, {2, 9, 5}, 1},
                        Case{{6}, {20}, 0}, Case{{3, 4}, {0, 4}, 0}, Case{{1, 1}, {1, 1}, 1}}) {
    for (DType dtype : kEveryDType) {
      const Tensor x = random_tensor(c.x, dtype);
      const auto d = static_cast<size_t>(c.dim);
      const Tensor index = random_index(c.index, 0, c.x[d]);
      Array from(x), at(index), want(c.index);
      for_each_place(c.index,
                     [&](const Place& p) { want(p) = from(with(p, d, static_cast<int64_t>(at(p)))); });
      for (const Tensor& source : in_layouts(x))
        for (const Tensor& places : in_layouts(index)) {
          const Tensor got = gather(source, c.dim, places);
          EXPECT_EQ(got.dtype(), dtype);
          expect_array(got, want, describe(x));
        }
    }
  }
}

TEST(Gather, LongRowsOnSeveralThreads) {
  const Tensor x = random_tensor({300, 257}, DType::Float32);
  for (int64_t dim : {0, 1}) {
    const Tensor index = random_index({290, 250}, 0, dim == 0 ? 300 : 257);
    Array from(x), at(index), want({290, 250});
    for_each_place(want.sizes, [&](const Place& p) {
      want(p) = from(with(p, static_cast<size_t>(dim), static_cast<int64_t>(at(p))));
    });
    const Threads two(2);
    expect_array(gather(x, dim, index), want);
  }
}

TEST(Gather, ScalarsCountAsOneDimension) {
  const Tensor x = from_values({5}, {}, DType::Float32);
  expect_array(gather(x, 0, index_tensor({0}, {})), Array({}, 5));
  expect_array(gather(x, -1, index_tensor({0, 0}, {2})), Array({2}, 5));
}

TEST(Gather, AnIndexOutOfRangeNamesValuePlaceAndRange) {
  const Tensor x = random_tensor({3, 5}, DType::Float32);
  const std::string text = tests::error_of<IndexError>([&] {
    gather(x, 1, index_tensor({0, 1, 2, 3, 7, 0}, {2, 3}));
  });
  tests::expect_contains(text, "gather: the index holds 7 at [1, 1], but dimension 1 of [3, 5] takes 0 to 4");
  tests::expect_contains(text, "index_test.cpp");
  tests::expect_contains(tests::error_of<IndexError>([&] {
                           gather(x, 0, index_tensor({0, -1}, {1, 2}));
                         }),
                         "holds -1 at [0, 1]");
  // C90
  const Tensor empty = random_tensor({0, 5}, DType::Float32);
  tests::expect_contains(tests::error_of<IndexError>([&] {
                           gather(empty, 0, index_tensor({0}, {1, 1}));
                         }),
                         "dimension 0 of [0, 5] is empty");
}

TEST(Gather, BadShapesAndDTypesAreRefused) {
  const Tensor x = random_tensor({3, 5}, DType::Float32);
  tests::expect_contains(tests::error_of([&] { gather(x, 1, index_tensor({0}, {1})); }),
                         "equally many dimensions");
  tests::expect_contains(tests::error_of([&] {
                           gather(x, 1, random_index({4, 2}, 0, 3));
                         }),
                         "larger than x [3, 5] in dimension 0");
  tests::expect_contains(tests::error_of([&] {
                           gather(x, 1, index_tensor({0}, {1, 1}, DType::Int32));
                         }),
                         "must be int64");
  EXPECT_THROW(gather(x, 2, index_tensor({0}, {1, 1})), IndexError);
}

TEST(IndexSelect, TakesSlicesAlongEveryDimension) {
  for (DType dtype : kEveryDType) {
    const Tensor x = random_tensor({4, 5, 6}, dtype);
    for (int64_t dim : {0, 1, 2, -1}) {
      const auto d = static_cast<size_t>(dim < 0 ? 2 : dim);
      const Place x_sizes = x.sizes();
      for (DType index_dtype : {DType::Int64, DType::Int32}) {
        const Tensor index = random_index({9}, 0, x_sizes[d], 3, index_dtype);
        Array from(x), at(index), want(with(x_sizes, d, 9));
        for_each_place(want.sizes,
                       [&](const Place& p) { want(p) = from(with(p, d, static_cast<int64_t>(at({p[d]})))); });
        for (const Tensor& source : in_layouts(x))
          expect_array(index_select(source, dim, with_gaps(index)), want);
      }
    }
  }
}

TEST(IndexSelect, ErrorsAndEmptyResults) {
  const Tensor x = random_tensor({3, 0}, DType::Float32);
  expect_array(index_select(x, 0, index_tensor({2, 0}, {2})), Array({2, 0}));
  tests::expect_contains(tests::error_of<IndexError>([&] { index_select(x, 0, index_tensor({3}, {1})); }),
                         "holds 3 at [0]");
  tests::expect_contains(tests::error_of([&] {
                           index_select(x, 0, index_tensor({0}, {1, 1}));
                         }),
                         "must have one dimension");
  const Tensor scalar = from_values({4}, {}, DType::Int8);
  expect_array(index_select(scalar, 0, index_tensor({0}, {1})), Array({}, 4));
}

TEST(Embedding, TakesRowsForAnIndexOfAnyRank) {
  const Tensor weight = random_tensor({11, 37}, DType::BFloat16);
  for (const Place& sizes : {Place{4, 3}, Place{}, Place{0}, Place{500}}) {
    const Tensor index = random_index(sizes, 0, 11);
    Place out = sizes;
    out.push_back(37);
    Array from(weight), at(index), want(out);
    for_each_place(out, [&](const Place& p) {
      const Place at_place(p.begin(), p.end() - 1);
      want(p) = from({static_cast<int64_t>(at(at_place)), p.back()});
    });
    for (const Tensor& rows : in_layouts(weight)) expect_array(embedding(rows, index), want);
  }
  tests::expect_contains(tests::error_of<IndexError>([&] {
                           embedding(weight, index_tensor({3, 11}, {2}));
                         }),
                         "embedding: the index holds 11 at [1], but dimension 0 of [11, 37] takes 0 to 10");
  tests::expect_contains(tests::error_of<IndexError>([&] { embedding(weight, index_tensor({-1}, {1})); }),
                         "holds -1");
}

// ---- x[i, j, …]

TEST(Index, NeighboursKeepTheirPlaceOthersGoInFront) {
  const Tensor x = random_tensor({3, 4, 5, 6}, DType::Float64);
  Array from(x);
  const Tensor i = random_index({2, 1}, -4, 4), j = random_index({3}, -5, 5);
  Array at_i(i), at_j(j);
  const auto wrap = [](double v, int64_t n) { return static_cast<int64_t>(v) + (v < 0 ? n : 0); };
  Array adjacent({3, 2, 3, 6});
  for_each_place(adjacent.sizes, [&](const Place& p) {
    adjacent(p) = from({p[0], wrap(at_i({p[1], 0}), 4), wrap(at_j({p[2]}), 5), p[3]});
  });
  const Tensor k = random_index({3}, -6, 6, 9);
  Array at_k(k), apart({2, 3, 3, 5});
  for_each_place(apart.sizes, [&](const Place& p) {
    apart(p) = from({p[2], wrap(at_i({p[0], 0}), 4), p[3], wrap(at_k({p[1]}), 6)});
  });
  for (const Tensor& source : in_layouts(x)) {
    expect_array(index(source, {Tensor(), i, j}), adjacent);
    expect_array(index(source, {Tensor(), i, Tensor(), k}), apart);
  }
  expect_array(index(x, {Tensor(), as_dtype(i, DType::Int32), j}), adjacent);
  expect_array(index(x, {}), from);
}

TEST(Index, ErrorsNameTheRule) {
  const Tensor x = random_tensor({3, 4}, DType::Float32);
  const Tensor i = index_tensor({0, 1, 2}, {3});
  tests::expect_contains(tests::error_of<IndexError>([&] { index(x, {i, i, i}); }), "too many indices");
  tests::expect_contains(tests::error_of<IndexError>([&] {
                           index(x, {Tensor(), index_tensor({0, -5}, {2})});
                         }),
                         "holds -5 at [1], but dimension 1 of [3, 4] takes -4 to 3");
  tests::expect_contains(tests::error_of([&] { index(x, {i, index_tensor({0, 1}, {2})}); }), "index");
  tests::expect_contains(tests::error_of([&] { index(x, {random_tensor({3}, DType::Float32)}); }),
                         "must be int64 or int32");
}

TEST(Nonzero, GivesCoordinatesInRowMajorOrder) {
  for (DType dtype : kEveryDType) {
    for (const Place& sizes : {Place{4, 5}, Place{3, 2, 4}, Place{0, 3}, Place{7}}) {
      Tensor x = random_tensor(sizes, dtype);
      Array numbers(x);
      for (size_t i = 0; i < numbers.values.size(); i += 3) numbers.values[i] = i % 2 == 0 ? -0.0 : 0.0;
      x = from_values(numbers.values, sizes, dtype);
      std::vector<double> want;
      Array stored(x);
      for_each_place(sizes, [&](const Place& p) {
        if (stored(p) != 0) want.insert(want.end(), p.begin(), p.end());
      });
      for (const Tensor& source : in_layouts(x)) {
        const Tensor got = nonzero(source);
        EXPECT_EQ(got.dtype(), DType::Int64);
        EXPECT_EQ(values_of(got), want);
      }
    }
  }
  EXPECT_TRUE(nonzero(from_values({3}, {}, DType::Int32)).sizes() == (Place{1, 0}));
  EXPECT_TRUE(nonzero(from_values({0}, {}, DType::Int32)).sizes() == (Place{0, 0}));
}

TEST(Nonzero, ManyBlocksJoinInOrder) {
  const Tensor x = random_tensor({200, 301}, DType::Bool);
  std::vector<double> want;
  Array stored(x);
  for_each_place(stored.sizes, [&](const Place& p) {
    if (stored(p) != 0) want.insert(want.end(), p.begin(), p.end());
  });
  const Threads two(2);
  EXPECT_EQ(values_of(nonzero(x)), want);
}

// ---- index_put

TEST(IndexPut, AssignsAndAddsInEveryDType) {
  for (DType dtype : kEveryDType) {
    const Tensor x = random_tensor({4, 5}, dtype), value = random_tensor({6}, dtype, 5);
    const Tensor i = random_index({6}, -4, 4), j = random_index({6}, 0, 5, 8);
    for (bool accumulate : {false, true}) {
      Array want(x), add(value), at_i(i), at_j(j);
      for (int64_t p = 0; p < 6; ++p) {
        double& target = want(
            {static_cast<int64_t>(at_i({p})) + (at_i({p}) < 0 ? 4 : 0), static_cast<int64_t>(at_j({p}))});
        target = accumulate ? target + add({p}) : add({p});
        if (dtype == DType::Bool) target = target != 0;
        if (dtype == DType::Float32) target = static_cast<float>(target);
        // Small halves: the sums of two are exact in float, so that one rounding at the end is what from_values does.
      }
      const Array rounded(from_values(want.values, {4, 5}, dtype));
      if (is_half(dtype) && accumulate) {
        const std::vector<double> got = values_of(index_put(x, {i, j}, value, true));
        for (size_t p = 0; p < got.size(); ++p) EXPECT_EQ(got[p], rounded.values[p]) << short_name_of(dtype);
      } else {
        expect_array(index_put(x, {i, j}, value, accumulate), rounded, short_name_of(dtype));
      }
      for (const Tensor& layout : in_layouts(x)) {
        Tensor self = raw_copy(layout);
        self.index_put_({i, j}, value, accumulate);
        expect_array(self, rounded);
      }
    }
  }
}

TEST(IndexPut, TheValueBroadcastsAndMasksSelect) {
  const Tensor x = random_tensor({3, 4}, DType::Float32);
  const Tensor mask = from_values({1, 0, 0, 1, 0, 1, 1, 0, 0, 0, 0, 1}, {3, 4}, DType::Bool);
  Array want(x), on(mask);
  for_each_place({3, 4}, [&](const Place& p) {
    if (on(p) != 0) want(p) = 7;
  });
  expect_array(index_put(x, {mask}, 7), want);
  const Tensor rows = from_values({1, 0, 1}, {3}, DType::Bool),
               value = from_values({1, 2, 3, 4}, {4}, DType::Float32);
  Array by_rows(x);
  for (int64_t c = 0; c < 4; ++c) by_rows({0, c}) = by_rows({2, c}) = static_cast<double>(c + 1);
  expect_array(index_put(x, {rows}, value), by_rows);
  Array by_columns(x);
  for (int64_t r = 0; r < 3; ++r) by_columns({r, 1}) = by_columns({r, 3}) = -1;
  expect_array(index_put(x, {Tensor(), index_tensor({1, -1}, {2})}, -1), by_columns);
  tests::expect_contains(tests::error_of<IndexError>([&] {
                           index_put(x, {from_values({1, 0}, {2}, DType::Bool)}, 1);
                         }),
                         "the mask [2] at dimension 0 does not match x [3, 4]");
  tests::expect_contains(tests::error_of([&] {
                           index_put(x, {index_tensor({0, 1}, {2})}, random_tensor({3}, DType::Float32));
                         }),
                         "does not broadcast to the indexed part [2, 4]");
  tests::expect_contains(tests::error_of([&] { index_put(x, {mask}, random_tensor({1}, DType::Float64)); }),
                         "the value is float64");
}

// C28
TEST(IndexPut, ReadsTheValueBeforeItWrites) {
  Tensor x = from_values({3, -1, 5, 7}, {2, 2}, DType::Float32);
  const Tensor i = index_tensor({0, 0}, {2});
  const Tensor taken = index(x, {i});
  x.index_put_({i}, taken + taken);
  expect_array(x, Array(from_values({6, -2, 5, 7}, {2, 2}, DType::Float32)));
  // The value is a view of the target itself: rows move down by one.
  Tensor y = from_values({1, 1, 2, 2, 3, 3, 4, 4}, {4, 2}, DType::Float32);
  Layout<Sym> layout = y->layout;
  layout.sizes[0] = Sym::from_int(3);
  y.index_put_({index_tensor({1, 2, 3}, {3})}, make_view(y, layout));
  expect_array(y, Array(from_values({1, 1, 1, 1, 2, 2, 3, 3}, {4, 2}, DType::Float32)));
  // The index is the target.
  Tensor z = index_tensor({2, 0, 1}, {3});
  z.index_put_({z}, index_tensor({10, 20, 30}, {3}));
  expect_array(z, Array(index_tensor({20, 30, 10}, {3})));
}

TEST(IndexPut, NothingIsWrittenWhenAnIndexIsOutOfRange) {
  Tensor x = random_tensor({4}, DType::Float32);
  const Array before(x);
  EXPECT_THROW(x.index_put_({index_tensor({0, 1, 9}, {3})}, 5), IndexError);
  expect_array(x, before);
}

TEST(IndexPut, SumsDoNotDependOnThreads) {
  const Tensor x = random_tensor({50}, DType::Float32);
  const Tensor i = random_index({100000}, 0, 50), value = random_tensor({100000}, DType::Float32);
  Tensor results[2];
  for (int threads : {1, 2}) {
    const Threads scope(threads);
    results[threads - 1] = index_put(x, {i}, value, true);
  }
  EXPECT_TRUE(same_bits(results[0], results[1]));
  std::vector<float> want(50);
  for (size_t p = 0; p < 50; ++p) want[p] = static_cast<float>(values_of(x)[p]);
  const std::vector<double> at = values_of(i), add = values_of(value);
  for (size_t p = 0; p < at.size(); ++p) want[static_cast<size_t>(at[p])] += static_cast<float>(add[p]);
  const std::vector<double> got = values_of(results[1]);
  for (size_t p = 0; p < 50; ++p) EXPECT_EQ(static_cast<float>(got[p]), want[p]);
}

}  // namespace
}  // namespace weft
