// Tests of cat, flip, roll, pad and the triangles: against naive loops, and the rules of pieces against formulas.
#include "tensor/index_rules.h"
#include "tests/tensor/index_cases.h"

namespace weft {
namespace {

using namespace testing_values;

Place with(Place at, size_t d, int64_t value) {
  at[d] = value;
  return at;
}
int64_t wrapped(int64_t i, int64_t n) { return (i % n + n) % n; }

TEST(Cat, JoinsAlongEveryDimensionInEveryLayout) {
  for (DType dtype : kEveryDType) {
    for (int64_t dim : {0, 1, 2, -1}) {
      const auto d = static_cast<size_t>(dim < 0 ? 2 : dim);
      std::vector<Tensor> parts;
      Place sizes = {3, 4, 5};
      int64_t total = 0;
      for (int64_t length : {2, 0, 5, 1}) {
        parts.push_back(random_tensor(with(sizes, d, length), dtype, static_cast<unsigned>(length)));
        total += length;
      }
      Array want(with(sizes, d, total));
      int64_t start = 0;
      for (const Tensor& part : parts) {
        Array from(part);
        for_each_place(from.sizes, [&](const Place& p) { want(with(p, d, start + p[d])) = from(p); });
        start += from.sizes[d];
      }
      expect_array(cat(parts, dim), want);
      parts[0] = with_gaps(parts[0]);
      parts[2] = with_swapped_memory(parts[2], 0, 2);
      expect_array(cat(parts, dim), want);
    }
  }
}

TEST(Cat, PromotesAndSkipsTheOldEmptyTensor) {
  const Tensor a = from_values({1, 2}, {1, 2}, DType::Int32),
               b = from_values({0.5, 1.5}, {1, 2}, DType::Float16);
  const Tensor none = random_tensor({0}, DType::Float32);
  const Tensor both = cat({a, b});
  EXPECT_EQ(both.dtype(), DType::Float16);
  expect_array(both, Array(from_values({1, 2, 0.5, 1.5}, {2, 2}, DType::Float64)));
  expect_array(cat({none, a, none}, 1), Array(a));
  EXPECT_EQ(cat({none, a}).dtype(), DType::Float32);
  expect_array(cat({none, none}), Array(Place{0}));
}

TEST(Cat, ErrorsNameTheTensor) {
  const Tensor a = random_tensor({2, 3}, DType::Float32), b = random_tensor({2, 4}, DType::Float32);
  tests::expect_contains(tests::error_of([&] {
                           cat({a, b});
                         }),
                         "cat: tensor 1 is [2, 4] and an earlier one [2, 3]");
  tests::expect_contains(tests::error_of([&] {
                           cat({a, random_tensor({3}, DType::Float32)});
                         }),
                         "tensor 1 is [3]; all must have 2");
  tests::expect_contains(tests::error_of([&] { cat(TensorList()); }), "is empty");
  tests::expect_contains(tests::error_of([&] { cat({from_values({1}, {}, DType::Float32)}); }),
                         "without dimensions");
  EXPECT_THROW(cat({a}, 2), IndexError);
}

TEST(Flip, MirrorsTheNamedDimensions) {
  for (DType dtype : kEveryDType) {
    const Tensor x = random_tensor({3, 4, 5}, dtype);
    Array from(x);
    for (const DimList& dims :
         {DimList{0}, DimList{2}, DimList{0, -1}, DimList{1}, DimList{0, 1, 2}, DimList{}}) {
      Array want(from.sizes);
      for_each_place(from.sizes, [&](const Place& p) {
        Place source = p;
        for (int64_t d : dims) {
          const auto at = static_cast<size_t>(d < 0 ? d + 3 : d);
          source[at] = from.sizes[at] - 1 - p[at];
        }
        want(p) = from(source);
      });
      for (const Tensor& layout : in_layouts(x)) expect_array(flip(layout, dims), want);
    }
  }
  // C90
  expect_array(flip(from_values({3}, {}, DType::Float32), 0), Array({}, 3));
  expect_array(flip(from_values({3}, {}, DType::Float32), -1), Array({}, 3));
  expect_array(flip(random_tensor({0, 2}, DType::Float32), 1), Array({0, 2}));
  tests::expect_contains(tests::error_of([&] {
                           flip(random_tensor({2, 2}, DType::Float32), {0, -2});
                         }),
                         "occurs twice");
}

TEST(Roll, ShiftsAroundTheEnd) {
  const Tensor x = random_tensor({4, 5, 3}, DType::Int16);
  Array from(x);
  for (int64_t shift : {0, 1, -2, 7, -13}) {
    Array want(from.sizes);
    for_each_place(from.sizes, [&](const Place& p) {
      want(p) = from({wrapped(p[0] + 1, 4), wrapped(p[1] - shift, 5), p[2]});
    });
    for (const Tensor& layout : in_layouts(x)) expect_array(roll(layout, {shift, -1}, {1, 0}), want);
  }
  expect_array(roll(random_tensor({0, 3}, DType::Float32), {2}, {0}), Array({0, 3}));
  tests::expect_contains(tests::error_of([&] { roll(x, {1, 2}, {0}); }), "2 shifts for 1 dimensions");
}

TEST(Pad, EveryModeReadsItsFormula) {
  const Tensor x = random_tensor({3, 4, 5}, DType::Float32);
  Array from(x);
  struct Case {
    const char* mode;
    std::function<int64_t(int64_t, int64_t)> source;  // -1: the fill
  };
  const Case cases[] = {
      {"constant", [](int64_t i, int64_t n) { return i < 0 || i >= n ? -1 : i; }},
      {"reflect", [](int64_t i, int64_t n) { return i < 0    ? -i
                                                    : i >= n ? 2 * n - 2 - i
                                                             : i; }},
      {"replicate", [](int64_t i, int64_t n) { return std::clamp<int64_t>(i, 0, n - 1); }},
      {"circular", [](int64_t i, int64_t n) { return wrapped(i, n); }}};
  for (const Case& c : cases) {
    for (const std::vector<int64_t>& pads :
         {std::vector<int64_t>{1, 2}, {0, 3, 2, 1}, {-1, 2, 1, -2, 0, 1}, {0, 0, 3, 0}, {-2, -3}}) {
      Place sizes = from.sizes, low(3, 0);
      for (size_t i = 0; i < pads.size() / 2; ++i) {
        low[2 - i] = pads[2 * i];
        sizes[2 - i] += pads[2 * i] + pads[2 * i + 1];
      }
      Array want(sizes, 9);
      for_each_place(sizes, [&](const Place& p) {
        Place source(3);
        for (size_t d = 0; d < 3; ++d) {
          source[d] = c.source(p[d] - low[d], from.sizes[d]);
          if (source[d] < 0) return;
        }
        want(p) = from(source);
      });
      for (const Tensor& layout : in_layouts(x)) expect_array(pad(layout, pads, c.mode, 9), want, c.mode);
    }
  }
}

TEST(Pad, ErrorsAndEmptyTensors) {
  const Tensor x = random_tensor({2, 3}, DType::Float32);
  tests::expect_contains(tests::error_of([&] { pad(x, {1}); }), "a pair for each dimension");
  tests::expect_contains(tests::error_of([&] { pad(x, {-2, -2}); }), "cut more than dimension 1");
  tests::expect_contains(tests::error_of([&] { pad(x, {3, 0}, "reflect"); }), "too little to copy");
  tests::expect_contains(tests::error_of([&] { pad(x, {1, 0}, "mirror"); }), "must be constant, reflect");
  expect_array(pad(random_tensor({2, 0}, DType::Int64), {1, 1}, "constant", 4), Array({2, 2}, 4));
  expect_array(pad(x, {-3, 0}), Array({2, 0}));
}

TEST(Move, LongRowsAreSharedByThreads) {
  const Tensor x = random_tensor({100003}, DType::Float32);
  Array from(x), flipped({100003}), shifted({100003});
  for (int64_t i = 0; i < 100003; ++i) {
    flipped({i}) = from({100002 - i});
    shifted({i}) = from({wrapped(i - 40000, 100003)});
  }
  const Threads two(2);
  expect_array(flip(x, 0), flipped);
  expect_array(roll(x, {40000}, 0), shifted);
}

TEST(Triangles, KeepOneSideOfTheDiagonal) {
  for (DType dtype : kEveryDType) {
    for (const Place& sizes : {Place{4, 4}, Place{3, 5}, Place{2, 5, 3}, Place{2, 0}, Place{2, 2, 3, 3}}) {
      const Tensor x = random_tensor(sizes, dtype);
      const size_t r = sizes.size() - 2;
      for (int64_t diagonal : {0, 1, -2, 9, -9}) {
        Array lower(x), upper(x);
        for_each_place(sizes, [&](const Place& p) {
          if (p[r + 1] - p[r] > diagonal) lower(p) = 0;
          if (p[r + 1] - p[r] < diagonal) upper(p) = 0;
        });
        for (const Tensor& layout : in_layouts(x)) {
          expect_array(tril(layout, diagonal), lower);
          expect_array(triu(layout, diagonal), upper);
          Tensor self = with_gaps(layout);
          expect_array(self.tril_(diagonal), lower);
          self = with_gaps(layout);
          expect_array(self.triu_(diagonal), upper);
        }
      }
    }
  }
  tests::expect_contains(tests::error_of([&] { tril(random_tensor({3}, DType::Float32)); }),
                         "at least two dimensions");
  const Tensor x = random_tensor({2, 2}, DType::Float32);
  expect_array(tril(x, INT64_MAX), Array(x));
  expect_array(triu(x, -(int64_t{1} << 61)), Array(x));
}

// The one rule serves plain integers and Sym.
TEST(IndexRules, PiecesOverSymAreThoseOverIntegers) {
  for (int64_t low : {-2, 0, 3}) {
    const auto real = index_rules::padded<int64_t>(5, low, 2, index_rules::PadMode::Reflect);
    const auto sym = index_rules::padded<Sym>(Sym::from_int(5), Sym::from_int(low), Sym::from_int(2),
                                              index_rules::PadMode::Reflect);
    ASSERT_EQ(real.size(), sym.size());
    for (size_t i = 0; i < real.size(); ++i) {
      EXPECT_EQ(real[i].length, sym[i].length.concrete());
      EXPECT_EQ(real[i].start, sym[i].start.concrete());
      EXPECT_EQ(real[i].step, sym[i].step);
    }
  }
}

}  // namespace
}  // namespace weft
