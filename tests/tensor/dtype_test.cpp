// The promotion lattice against PyTorch's table, and sizes and names of the element types.
// Needs tensor/base/dtype.h only.
#include "tensor/base/dtype.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace weft {
namespace {

constexpr std::array<DType, kNumDTypes> kAll = {kFloat32, kFloat64, kBFloat16, kFloat16, kInt64,
                                                kInt32,   kInt16,   kInt8,     kUInt8,   kBool};

// torch.promote_types(row, column), rows and columns in the order of kAll.
constexpr const char* kPromoted[kNumDTypes][kNumDTypes] = {
    // f32    f64    bf16    f16    i64     i32     i16     i8      u8      bool
    {"f32", "f64", "f32", "f32", "f32", "f32", "f32", "f32", "f32", "f32"},         // f32
    {"f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64"},         // f64
    {"f32", "f64", "bf16", "f32", "bf16", "bf16", "bf16", "bf16", "bf16", "bf16"},  // bf16
    {"f32", "f64", "f32", "f16", "f16", "f16", "f16", "f16", "f16", "f16"},         // f16
    {"f32", "f64", "bf16", "f16", "i64", "i64", "i64", "i64", "i64", "i64"},        // i64
    {"f32", "f64", "bf16", "f16", "i64", "i32", "i32", "i32", "i32", "i32"},        // i32
    {"f32", "f64", "bf16", "f16", "i64", "i32", "i16", "i16", "i16", "i16"},        // i16
    {"f32", "f64", "bf16", "f16", "i64", "i32", "i16", "i8", "i16", "i8"},          // i8
    {"f32", "f64", "bf16", "f16", "i64", "i32", "i16", "i16", "u8", "u8"},          // u8
    {"f32", "f64", "bf16", "f16", "i64", "i32", "i16", "i8", "u8", "bool"},         // bool
};

TEST(Promote, EveryPairGivesPyTorchsType) {
  for (int row = 0; row < kNumDTypes; ++row) {
    for (int column = 0; column < kNumDTypes; ++column) {
      EXPECT_STREQ(short_name_of(promote(kAll[row], kAll[column])), kPromoted[row][column])
          << "promote(" << kAll[row] << ", " << kAll[column] << ")";
    }
  }
}

TEST(DType, SizesAgreeWithTheElementTheyStandFor) {
  for (DType dtype : kAll) {
    visit(dtype, [&](auto zero) {
      using T = decltype(zero);
      EXPECT_EQ(size_of(dtype), sizeof(T)) << dtype;
      EXPECT_EQ(dtype_of<T>, dtype) << dtype;
    });
  }
}

TEST(DType, EveryTypeIsOneOfFloatingIntegralAndBool) {
  for (DType dtype : kAll) {
    EXPECT_EQ(is_floating(dtype) + is_integral(dtype) + (dtype == kBool), 1) << dtype;
    if (is_half(dtype)) {
      EXPECT_TRUE(is_floating(dtype)) << dtype;
    }
  }
}

TEST(DType, NoTypeComputesInANarrowerOne) {
  for (DType dtype : kAll) {
    EXPECT_GE(size_of(compute_dtype(dtype)), size_of(dtype)) << dtype;
    EXPECT_EQ(is_floating(compute_dtype(dtype)), is_floating(dtype)) << dtype;
  }
}

}  // namespace
}  // namespace weft
