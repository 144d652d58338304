// Loads and stores of generated CPU kernels: strides, computed indices, masks, random words, sums at places that collide.
// Beside cpu_codegen_test.cpp, which holds single values.
#include <gtest/gtest.h>

#include "tensor/random/philox.h"
#include "tests/compiler/compiled_bodies.h"
#include "tests/support/compare.h"
#include "tests/tensor/tensor_values.h"
#include "weft.h"

namespace weft::compiler::tests {
namespace {

using namespace weft::tests;
using testing_values::random_tensor;
using Axis = BodyBuilder::Axis;
using Each = BodyBuilder::Each;
using weft::Expr;

TEST(CpuCode, StridedBroadcastAndTransposedLoads) {
  CompiledBodies kernels;
  const DType dtypes[] = {DType::Float32, DType::Float64, DType::BFloat16,
                          DType::Int8,    DType::Bool,    DType::Float16};
  for (DType dtype : dtypes) {
    BodyBuilder& b = kernels.add("transpose");
    const TableEnvironment environment = b.arithmetic();
    const Sym rows = b.size("rows", 8), columns = b.size("columns", 100);
    b.loops(Sym::from_int(1), rows, columns);
    const uint32_t turned = b.in(dtype), every_second = b.in(dtype), one_per_row = b.in(dtype);
    b.store(b.out(dtype), element(b), b.load(turned, b.c * rows + b.r));
    b.store(b.out(dtype), element(b), b.load(every_second, (b.r * columns + b.c) * 2));
    b.store(b.out(dtype), element(b), b.load(one_per_row, b.r));
    // Stores with strides: turned back, and every second element.
    b.store(b.out(dtype), b.c * rows + b.r, b.load(turned, b.c * rows + b.r));
    b.store(b.out(dtype), (b.r * columns + b.c) * 2, b.load(turned, b.c * rows + b.r));
    // Backwards.
    b.store(b.out(dtype), element(b), b.load(one_per_row, rows - 1 - b.r));
    b.store(b.out(dtype), element(b), b.load(turned, rows * columns - 1 - (b.r * columns + b.c)));
  }
  WEFT_COMPILE_OR_SKIP(kernels);
  for (size_t k = 0; k < std::size(dtypes); ++k) {
    const DType dtype = dtypes[k];
    const auto bytes = size_of(dtype);
    for (const auto& [r, c] :
         {std::pair<int64_t, int64_t>{3, 5}, {7, 40}, {33, 17}, {2, 100}, {70, 130}, {130, 64}}) {
      const Tensor turned = random_tensor({c, r}, dtype, 1), wide = random_tensor({r * c * 2}, dtype, 2),
                   column = random_tensor({r}, dtype, 3);
      for (size_t isa = 0; isa < kernels.isas().size(); ++isa) {
        for (int threads : {1, 2}) {
          std::vector<Tensor> all = {turned, wide, column};
          for (int o = 0; o < 7; ++o) all.push_back(empty_of({r * c * 2}, dtype));
          kernels.run(k, isa, all, {r, c}, {}, threads);
          for (int64_t i = 0; i < r; ++i) {
            for (int64_t j = 0; j < c; ++j) {
              const auto same_element = [&](size_t out, int64_t at, const Tensor& from, int64_t index) {
                return std::memcmp(bytes_of(all[3 + out]) + static_cast<size_t>(at) * bytes,
                                   bytes_of(from) + static_cast<size_t>(index) * bytes, bytes) == 0;
              };
              ASSERT_TRUE(same_element(0, i * c + j, turned, j * r + i)) << dtype << ' ' << i << ' ' << j;
              ASSERT_TRUE(same_element(1, i * c + j, wide, (i * c + j) * 2)) << dtype << ' ' << i << ' ' << j;
              ASSERT_TRUE(same_element(2, i * c + j, column, i)) << dtype << ' ' << i << ' ' << j;
              ASSERT_TRUE(same_element(3, j * r + i, turned, j * r + i)) << dtype << ' ' << i << ' ' << j;
              ASSERT_TRUE(same_element(4, (i * c + j) * 2, turned, j * r + i))
                  << dtype << ' ' << i << ' ' << j;
              ASSERT_TRUE(same_element(5, i * c + j, column, r - 1 - i)) << dtype << ' ' << i << ' ' << j;
              ASSERT_TRUE(same_element(6, i * c + j, turned, r * c - 1 - (i * c + j)))
                  << dtype << ' ' << i << ' ' << j;
            }
          }
        }
      }
    }
  }
}

// Softmax along the strided dimension: whole rows move by tiles, in and out.
TEST(CpuCode, RowsThatAreStridedInMemory) {
  const DType dtypes[] = {DType::Float32, DType::BFloat16, DType::Float64};
  CompiledBodies kernels;
  for (DType dtype : dtypes) {
    BodyBuilder& b = kernels.add("softmax");
    const TableEnvironment environment = b.arithmetic();
    const Sym batches = b.size("batches", 2), rows = b.size("rows", 8), columns = b.size("columns", 100);
    b.loops(batches, rows, columns);
    const Sym at = (b.b * columns + b.c) * rows + b.r;
    const Expr x = cast(b.load(b.in(dtype), at), compute_dtype(dtype));
    const Expr e = exp(x - b.fold(cpu::Fold::Max, Axis::Columns, x));
    b.store(b.out(dtype), at, cast(e / b.sum(Axis::Columns, e), dtype));
  }
  WEFT_COMPILE_OR_SKIP(kernels);
  for (size_t k = 0; k < std::size(dtypes); ++k) {
    for (const auto& [batches, rows, columns] :
         {std::array<int64_t, 3>{1, 5, 7}, {2, 70, 33}, {3, 16, 64}, {1, 100, 300}}) {
      const Tensor x = random_tensor({batches, columns, rows}, dtypes[k], 5, -9, 9);
      for (size_t isa = 0; isa < kernels.isas().size(); ++isa) {
        for (int threads : {1, 3}) {
          const Tensor got = empty_of({batches, columns, rows}, dtypes[k]);
          kernels.run(k, isa, {x, got}, {batches, rows, columns}, {}, threads);
          // The tree of a fold is that of the innermost dimension.
          const Tensor want = softmax(x.transpose(1, 2).contiguous(), 2).transpose(1, 2);
          EXPECT_EQ(difference_of_bits(got, want), "") << dtypes[k] << ' ' << rows << " x " << columns;
        }
      }
    }
  }
}

// Quotients and remainders of the column: the heads of attention swapped with the sequence, and sizes that fit no vector.
TEST(CpuCode, IndicesThatAreNotAffine) {
  CompiledBodies kernels;
  const std::array<int64_t, 3> shapes[] = {{4, 8, 64}, {3, 5, 16}, {3, 5, 7}, {2, 3, 24}};
  for (const auto& [a, n, d] : shapes) {
    // x [n, a, d] read as [a, n, d], flattened.
    BodyBuilder& b = kernels.add("swap");
    const TableEnvironment environment = b.arithmetic();
    b.loops(Sym::from_int(1), Sym::from_int(1), Sym::from_int(a * n * d));
    SymTable& table = b.table();
    const auto quotient = [&](Sym x, int64_t y) {
      return table.binary(SymOp::FloorDiv, x, Sym::from_int(y));
    };
    const auto rest = [&](Sym x, int64_t y) { return table.binary(SymOp::Mod, x, Sym::from_int(y)); };
    const Sym i = quotient(b.c, n * d), j = rest(quotient(b.c, d), n), k = rest(b.c, d);
    const Sym at = (j * a + i) * d + k;
    const uint32_t from = b.in(DType::Float32);
    b.store(b.out(DType::Float32), b.c, b.load(from, at));
    b.store(b.out(DType::Float32), at, b.load(from, b.c));
    b.store(b.out(DType::Int64), b.c, b.place(at));
    b.store(b.out(DType::Int32), b.c, b.place(b.c * 3 + 1, DType::Int32));
  }
  WEFT_COMPILE_OR_SKIP(kernels);
  size_t kernel = 0;
  for (const auto& [a, n, d] : shapes) {
    const int64_t count = a * n * d;
    const Tensor x = random_tensor({count}, DType::Float32, 1);
    for (size_t isa = 0; isa < kernels.isas().size(); ++isa) {
      const Tensor to = empty_of({count}, DType::Float32), back = empty_of({count}, DType::Float32),
                   places = empty_of({count}, DType::Int64), thirds = empty_of({count}, DType::Int32);
      kernels.run(kernel, isa, {x, to, back, places, thirds}, {}, {}, 2);
      for (int64_t c = 0; c < count; ++c) {
        const int64_t at = (c / d % n * a + c / (n * d)) * d + c % d;
        ASSERT_EQ(data_of<float>(to)[c], data_of<float>(x)[at]);
        ASSERT_EQ(data_of<float>(back)[at], data_of<float>(x)[c]);
        ASSERT_EQ(data_of<int64_t>(places)[c], at);
        ASSERT_EQ(data_of<int32_t>(thirds)[c], c * 3 + 1);
      }
    }
    ++kernel;
  }
}
// Every dtype of number, and numbers that only rows need.
TEST(CpuCode, NumbersOfTheCall) {
  CompiledBodies kernels;
  BodyBuilder& b = kernels.add("numbers");
  b.loops(Sym::from_int(1), Sym::from_int(1), b.size("n", 100));
  for (DType dtype : {DType::Float32, DType::Float64, DType::Int32, DType::Int64, DType::Bool})
    b.store(b.out(dtype), b.c, b.number(dtype));
  WEFT_COMPILE_OR_SKIP(kernels);
  for (size_t isa = 0; isa < kernels.isas().size(); ++isa) {
    const std::vector<Tensor> out = {empty_of({20}, DType::Float32), empty_of({20}, DType::Float64),
                                     empty_of({20}, DType::Int32), empty_of({20}, DType::Int64),
                                     empty_of({20}, DType::Bool)};
    const int32_t low = -5;
    const int64_t wide = int64_t{-7} << 40;
    kernels.run(0, isa, out, {20}, {slot(-0.0f), slot(1e300), slot(low), slot(wide), slot(true)});
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(std::signbit(data_of<float>(out[0])[i]) && data_of<float>(out[0])[i] == 0);
      ASSERT_EQ(data_of<double>(out[1])[i], 1e300);
      ASSERT_EQ(data_of<int32_t>(out[2])[i], low);
      ASSERT_EQ(data_of<int64_t>(out[3])[i], wide);
      ASSERT_EQ(bytes_of(out[4])[i], 1);
    }
  }
}

// ---- Computed indices

TEST(CpuCode, ComputedIndicesCountFromTheEndAndAreChecked) {
  CompiledBodies kernels;
  // x[i[c]], elementwise; rows of a table, x[i[r], c]; both with indices of 32 bits.
  for (DType dtype : {DType::Int64, DType::Int32}) {
    BodyBuilder& b = kernels.add("gather");
    const Sym n = b.size("n", 100), size = b.size("size", 10);
    b.loops(Sym::from_int(1), Sym::from_int(1), n);
    const uint32_t x = b.in(DType::Float32), i = b.in(dtype);
    b.store(b.out(DType::Float32), b.c, b.load(x, b.indirect(b.load(i, b.c), size)));
  }
  for (DType dtype : {DType::Int64, DType::Int32}) {
    BodyBuilder& b = kernels.add("embedding");
    const TableEnvironment environment = b.arithmetic();
    const Sym n = b.size("n", 100), width = b.size("width", 100), size = b.size("size", 10);
    b.loops(Sym::from_int(1), n, width);
    const uint32_t x = b.in(DType::Float32), i = b.in(dtype);
    const Sym at = b.indirect(b.load(i, b.r), size);
    b.store(b.out(DType::Float32), element(b), b.load(x, at * width + b.c));
  }
  WEFT_COMPILE_OR_SKIP(kernels);
  const int64_t n = 53, width = 21, size = 10;
  const Tensor x = random_tensor({size, width}, DType::Float32, 1);
  for (const bool is_wide : {true, false}) {
    for (const int64_t wrong : {int64_t{0}, int64_t{10}, int64_t{-11}, INT64_MIN / 4}) {
      if (!is_wide && wrong < INT32_MIN) continue;
      std::vector<double> values;
      for (int64_t i = 0; i < n; ++i) values.push_back(static_cast<double>((i * 7) % 20 - 10));
      const int64_t place = 37;
      if (wrong != 0) values[place] = static_cast<double>(wrong);
      const Tensor index = testing_values::from_values(values, {n}, is_wide ? DType::Int64 : DType::Int32);
      for (size_t isa = 0; isa < kernels.isas().size(); ++isa) {
        for (int threads : {1, 2}) {
          const size_t first = is_wide ? 0 : 1;
          const Tensor got = empty_of({n}, DType::Float32), rows = empty_of({n, width}, DType::Float32);
          const KernelError a = kernels.run(first, isa, {x, index, got}, {n, size}, {}, threads);
          const KernelError b = kernels.run(first + 2, isa, {x, index, rows}, {n, width, size}, {}, threads);
          for (int64_t r = 0; r < n; ++r) {
            int64_t at = static_cast<int64_t>(values[static_cast<size_t>(r)]);
            if (wrong != 0 && r == place) at = 0;
            if (at < 0) at += size;
            ASSERT_EQ(data_of<float>(got)[r], data_of<float>(x)[at]);
            for (int64_t c = 0; c < width; ++c)
              ASSERT_EQ(data_of<float>(rows)[r * width + c], data_of<float>(x)[at * width + c]);
          }
          EXPECT_EQ(a.check, wrong != 0);
          EXPECT_EQ(b.check, wrong != 0);
          if (wrong == 0) continue;
          EXPECT_EQ(a.value, wrong);
          EXPECT_EQ(a.size, size);
          EXPECT_EQ(a.element, place);
          EXPECT_EQ(b.value, wrong);
          EXPECT_EQ(b.element, place * width);
          // An earlier mistake stays.
          KernelError old;
          old.check = 7;
          EXPECT_EQ(kernels.run(first, isa, {x, index, got}, {n, size}, {}, threads, old).check, 7);
        }
      }
    }
  }
}

// ---- Masks

// A row between two others, as padding and concatenation make it; what is masked is neither read, checked nor written.
TEST(CpuCode, MaskedLoadsStoresAndChecks) {
  CompiledBodies kernels;
  const DType dtypes[] = {DType::Float32, DType::Float64, DType::Float16,
                          DType::Int64,   DType::UInt8,   DType::Bool};
  for (DType dtype : dtypes) {
    BodyBuilder& b = kernels.add("pad");
    const TableEnvironment environment = b.arithmetic();
    const Sym n = b.size("n", 100), inside = b.size("inside", 50);
    b.loops(Sym::from_int(1), Sym::from_int(3), n);
    const Expr place = b.place(b.c - 5), is_inside = (place >= 0) & (place < b.place(inside)),
               is_row = b.place(b.r) == 1;
    const uint32_t from = b.in(dtype), strided = b.in(dtype), which = b.in(DType::Int64);
    b.store(b.out(dtype), element(b), b.load(from, b.r * inside + b.c - 5, is_inside));
    b.store(b.out(dtype), element(b), b.load(strided, (b.r * inside + b.c - 5) * 2, is_inside & is_row));
    b.store(b.out(dtype), element(b), b.load(from, b.r, is_row));
    const Sym at = b.indirect(b.load(which, b.r * inside + b.c - 5, is_inside), inside * 3);
    b.body.checks.back().mask = is_inside.id;
    const Expr found = b.load(from, at, is_inside);
    b.store(b.out(dtype), element(b), found).mask = is_inside.id;
    b.store(b.out(dtype), element(b) * 2, found).mask = is_inside.id;
    b.store(b.out(dtype), b.r, b.load(from, b.r, is_row), Each::Row).mask = is_row.id;
  }
  WEFT_COMPILE_OR_SKIP(kernels);
  for (size_t k = 0; k < std::size(dtypes); ++k) {
    const size_t bytes = size_of(dtypes[k]);
    for (const auto& [n, inside] : {std::pair<int64_t, int64_t>{60, 50}, {19, 3}, {40, 35}}) {
      const Tensor from = random_tensor({3 * inside}, dtypes[k], 1),
                   strided = random_tensor({6 * inside}, dtypes[k], 2);
      std::vector<double> indices(static_cast<size_t>(3 * inside));
      for (size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<double>((i * 5) % indices.size());
      const Tensor which = testing_values::from_values(indices, {3 * inside}, DType::Int64);
      for (size_t isa = 0; isa < kernels.isas().size(); ++isa) {
        std::vector<Tensor> all = {from, strided, which};
        for (int o = 0; o < 6; ++o) all.push_back(empty_of({6 * n}, dtypes[k]));
        const KernelError error = kernels.run(k, isa, all, {n, inside}, {}, 2);
        EXPECT_EQ(error.check, 0);
        const std::vector<char> zeros(16), untouched(16, 0x5a);
        for (int64_t r = 0; r < 3; ++r) {
          for (int64_t c = 0; c < n; ++c) {
            const bool is_inside = c >= 5 && c - 5 < inside;
            const auto holds = [&](size_t out, int64_t at, const char* value) {
              return std::memcmp(bytes_of(all[3 + out]) + static_cast<size_t>(at) * bytes, value, bytes) == 0;
            };
            const auto of = [&](const Tensor& x, int64_t at) {
              return bytes_of(x) + static_cast<size_t>(at) * bytes;
            };
            const int64_t flat = r * inside + c - 5;
            ASSERT_TRUE(holds(0, r * n + c, is_inside ? of(from, flat) : zeros.data()))
                << dtypes[k] << ' ' << r << ' ' << c;
            ASSERT_TRUE(holds(1, r * n + c, is_inside && r == 1 ? of(strided, 2 * flat) : zeros.data()));
            ASSERT_TRUE(holds(2, r * n + c, r == 1 ? of(from, r) : zeros.data()));
            const char* found = is_inside ? of(from, static_cast<int64_t>(indices[static_cast<size_t>(flat)]))
                                          : untouched.data();
            ASSERT_TRUE(holds(3, r * n + c, found)) << dtypes[k] << ' ' << r << ' ' << c;
            ASSERT_TRUE(holds(4, (r * n + c) * 2, found));
            ASSERT_TRUE(holds(4, (r * n + c) * 2 + 1, untouched.data()));
          }
          ASSERT_EQ(std::memcmp(bytes_of(all[8]) + static_cast<size_t>(r) * bytes,
                                r == 1 ? bytes_of(from) + bytes : untouched.data(), bytes),
                    0);
        }
      }
    }
  }
}

// ---- Random words

TEST(CpuCode, RandomWordsAreThoseOfTheStream) {
  CompiledBodies kernels;
  for (const bool is_wide : {false, true}) {
    BodyBuilder& b = kernels.add("words");
    const TableEnvironment environment = b.arithmetic();
    const Sym rows = b.size("rows", 8), columns = b.size("columns", 100);
    b.loops(Sym::from_int(1), rows, columns);
    const DType dtype = is_wide ? DType::Int64 : DType::Int32;
    b.store(b.out(dtype), element(b), b.random(element(b), is_wide));
    b.store(b.out(dtype), element(b), b.random(b.c * rows + b.r, is_wide));
    b.store(b.out(dtype), b.r, b.random(b.r, is_wide), Each::Row);
  }
  WEFT_COMPILE_OR_SKIP(kernels);
  const uint64_t seed = 0x123456789abcdef, counter = 0xfffffff0;
  const std::vector<uint64_t> numbers = {seed, counter, seed, counter, seed, counter};
  for (const auto& [r, c] : {std::pair<int64_t, int64_t>{1, 7}, {5, 33}, {4, 64}}) {
    for (size_t isa = 0; isa < kernels.isas().size(); ++isa) {
      const std::vector<Tensor> narrow = {empty_of({r, c}, DType::Int32), empty_of({r, c}, DType::Int32),
                                          empty_of({r}, DType::Int32)};
      const std::vector<Tensor> wide = {empty_of({r, c}, DType::Int64), empty_of({r, c}, DType::Int64),
                                        empty_of({r}, DType::Int64)};
      kernels.run(0, isa, narrow, {r, c}, numbers, 2);
      kernels.run(1, isa, wide, {r, c}, numbers, 2);
      const auto word = [&](int64_t i) {
        return static_cast<int32_t>(philox_word32(seed, counter, static_cast<uint64_t>(i)));
      };
      const auto word64 = [&](int64_t i) {
        return static_cast<int64_t>(philox_word64(seed, counter, static_cast<uint64_t>(i)));
      };
      for (int64_t i = 0; i < r; ++i) {
        ASSERT_EQ(data_of<int32_t>(narrow[2])[i], word(i));
        ASSERT_EQ(data_of<int64_t>(wide[2])[i], word64(i));
        for (int64_t j = 0; j < c; ++j) {
          ASSERT_EQ(data_of<int32_t>(narrow[0])[i * c + j], word(i * c + j)) << i << ' ' << j;
          ASSERT_EQ(data_of<int32_t>(narrow[1])[i * c + j], word(j * r + i)) << i << ' ' << j;
          ASSERT_EQ(data_of<int64_t>(wide[0])[i * c + j], word64(i * c + j)) << i << ' ' << j;
          ASSERT_EQ(data_of<int64_t>(wide[1])[i * c + j], word64(j * r + i)) << i << ' ' << j;
        }
      }
    }
  }
}

// ---- Adding to what is there

TEST(CpuCode, SumsAtPlacesThatCollideGoInLogicalOrder) {
  const DType dtypes[] = {DType::Float32, DType::Float64,  DType::Int64,
                          DType::UInt8,   DType::BFloat16, DType::Bool};
  CompiledBodies kernels;
  for (DType dtype : dtypes) {
    {  // out[i[r], c] += x[r, c]: the gradient of an embedding
      BodyBuilder& b = kernels.add("add_rows");
      const TableEnvironment environment = b.arithmetic();
      const Sym rows = b.size("rows", 8), columns = b.size("columns", 100), size = b.size("size", 10);
      b.loops(Sym::from_int(1), rows, columns);
      const uint32_t x = b.in(dtype), i = b.in(DType::Int64), to = b.buffer(dtype, true, true);
      const Sym at = b.indirect(b.load(i, b.r), size);
      b.store(to, at * columns + b.c, b.load(x, element(b))).mode = BodyStore::Mode::Add;
    }
    {  // out[i[r, c]] += x[r, c]
      BodyBuilder& b = kernels.add("add_elements");
      const TableEnvironment environment = b.arithmetic();
      const Sym rows = b.size("rows", 8), columns = b.size("columns", 100), size = b.size("size", 10);
      b.loops(Sym::from_int(1), rows, columns);
      const uint32_t x = b.in(dtype), i = b.in(DType::Int64), to = b.buffer(dtype, true, true);
      const Sym at = b.indirect(b.load(i, element(b)), size);
      b.store(to, at, b.load(x, element(b))).mode = BodyStore::Mode::Add;
    }
  }
  WEFT_COMPILE_OR_SKIP(kernels);
  for (size_t k = 0; k < std::size(dtypes); ++k) {
    const DType dtype = dtypes[k], compute = compute_dtype(dtype);
    for (const auto& [r, c] : {std::pair<int64_t, int64_t>{9, 21}, {100, 48}}) {
      const int64_t size = 6;
      const Tensor x = random_tensor({r, c}, dtype, 1), start = random_tensor({size, c}, dtype, 2);
      std::vector<double> indices(static_cast<size_t>(r * c));
      for (size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<double>((i * i + i / 3) % 12) - 6;
      const Tensor index = testing_values::from_values(indices, {r * c}, DType::Int64);
      // In order, each sum rounded to memory.
      const auto add = [&](const Tensor& to, int64_t at, int64_t from) {
        Tensor a = to.reshape({-1}).narrow(0, at, 1), b = x.reshape({-1}).narrow(0, from, 1);
        a.copy_(dtype == DType::Bool ? logical_or(a, b) : (a.to(compute) + b.to(compute)).to(dtype));
      };
      const Tensor by_row = start.clone(), by_element = start.clone();
      for (int64_t i = 0; i < r; ++i) {
        for (int64_t j = 0; j < c; ++j) {
          const auto place = [&](int64_t at) {
            return (static_cast<int64_t>(indices[static_cast<size_t>(at)]) + size) % size;
          };
          add(by_row, place(i) * c + j, i * c + j);
          add(by_element, place(i * c + j), i * c + j);
        }
      }
      for (size_t isa = 0; isa < kernels.isas().size(); ++isa) {
        for (int threads : {1, 2}) {
          const Tensor rows = start.clone(), elements = start.clone();
          kernels.run(2 * k, isa, {x, index, rows}, {r, c, size}, {}, threads);
          kernels.run(2 * k + 1, isa, {x, index, elements}, {r, c, size}, {}, threads);
          EXPECT_EQ(difference_of_bits(rows, by_row), "") << dtype << ' ' << r << " x " << c;
          EXPECT_EQ(difference_of_bits(elements, by_element), "") << dtype << ' ' << r << " x " << c;
          // Nothing is added once something failed.
          KernelError failed;
          failed.check = 1;
          kernels.run(2 * k, isa, {x, index, rows}, {r, c, size}, {}, threads, failed);
          EXPECT_EQ(difference_of_bits(rows, by_row), "") << dtype;
        }
      }
    }
  }
}

// ---- Order

// A computed place that several elements go to keeps the last of them, at any number of threads.
TEST(CpuCode, TheLastOfSeveralStoresToOnePlaceStays) {
  CompiledBodies kernels;
  {  // out[i[r], c] = x[r, c]
    BodyBuilder& b = kernels.add("put_rows");
    const TableEnvironment environment = b.arithmetic();
    const Sym rows = b.size("rows", 8), columns = b.size("columns", 100), size = b.size("size", 10);
    b.loops(Sym::from_int(1), rows, columns);
    const uint32_t x = b.in(DType::Float32), i = b.in(DType::Int64), to = b.out(DType::Float32);
    const Sym at = b.indirect(b.load(i, b.r), size);
    b.store(to, at * columns + b.c, b.load(x, element(b)));
    EXPECT_NE(generate_cpu(b.body, {cpu::Isa::AVX2}).text.find("w_parallel((columns"), std::string::npos)
        << "threads should share the columns";
  }
  {  // out[i[r, c]] = x[r, c]
    BodyBuilder& b = kernels.add("put_elements");
    const TableEnvironment environment = b.arithmetic();
    const Sym rows = b.size("rows", 8), columns = b.size("columns", 100), size = b.size("size", 10);
    b.loops(Sym::from_int(1), rows, columns);
    const uint32_t x = b.in(DType::Float32), i = b.in(DType::Int64), to = b.out(DType::Float32);
    b.store(to, b.indirect(b.load(i, element(b)), size), b.load(x, element(b)));
  }
  WEFT_COMPILE_OR_SKIP(kernels);
  const int64_t r = 300, c = 70, size = 7;
  const Tensor x = random_tensor({r, c}, DType::Float32, 1);
  std::vector<double> indices(static_cast<size_t>(r * c));
  for (size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<double>((i * i + i / 3) % 14) - 7;
  const Tensor index = testing_values::from_values(indices, {r * c}, DType::Int64);
  const auto place = [&](int64_t at) {
    return (static_cast<int64_t>(indices[static_cast<size_t>(at)]) + size) % size;
  };
  std::vector<float> by_row(static_cast<size_t>(size * c)), by_element(static_cast<size_t>(size));
  for (int64_t i = 0; i < r * c; ++i) {
    by_row[static_cast<size_t>(place(i / c) * c + i % c)] = data_of<float>(x)[i];
    by_element[static_cast<size_t>(place(i))] = data_of<float>(x)[i];
  }
  for (size_t isa = 0; isa < kernels.isas().size(); ++isa) {
    for (int threads : {1, 2, 4}) {
      const Tensor rows = empty_of({size, c}, DType::Float32), elements = empty_of({size}, DType::Float32);
      kernels.run(0, isa, {x, index, rows}, {r, c, size}, {}, threads);
      kernels.run(1, isa, {x, index, elements}, {r, c, size}, {}, threads);
      EXPECT_EQ(std::memcmp(bytes_of(rows), by_row.data(), rows.nbytes()), 0);
      EXPECT_EQ(std::memcmp(bytes_of(elements), by_element.data(), elements.nbytes()), 0);
    }
  }
}

// A buffer that a later pass reads again is not overwritten before; the later of two stores wins.
TEST(CpuCode, StoresWaitForThePassesThatReadWhatTheyOverwrite) {
  CompiledBodies kernels;
  BodyBuilder& b = kernels.add("in_place");
  const TableEnvironment environment = b.arithmetic();
  const Sym rows = b.size("rows", 8), columns = b.size("columns", 100);
  b.loops(Sym::from_int(1), rows, columns);
  const uint32_t x_at = b.buffer(DType::Float32, true, true), y_at = b.out(DType::Float32);
  const Expr x = b.load(x_at, element(b));
  b.store(x_at, element(b), x * 2);
  const Expr total = b.sum(Axis::Columns, x);
  b.store(y_at, element(b), x / total);
  b.store(y_at, element(b), x + 1).mask = (x > 0).id;
  WEFT_COMPILE_OR_SKIP(kernels);
  const Tensor given = random_tensor({7, 50}, DType::Float32, 1);
  for (size_t isa = 0; isa < kernels.isas().size(); ++isa) {
    const Tensor memory = given.clone(), y = empty_of({7, 50}, DType::Float32);
    kernels.run(0, isa, {memory, y}, {7, 50}, {}, 2);
    const Tensor sums = given.sum(-1, true);
    EXPECT_EQ(difference_of_bits(memory, given * 2), "");
    EXPECT_EQ(difference_of_bits(y, where(given > 0, given + 1, given / sums)), "");
  }
}

}  // namespace
}  // namespace weft::compiler::tests
