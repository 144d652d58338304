// Tests of the scalar half conversions against the rule "the nearest representable value, ties to even".
#include "tensor/base/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace weft {
namespace {

static_assert(to_bfloat16(1.0f).bits == 0x3F80 && to_float16(-2.0).bits == 0xC000);
static_assert(to_float(Float16{0x3C00}) == 1.0f && to_float(BFloat16{0xC000}) == -2.0f);

double as_double(BFloat16 value) { return to_float(value); }
double as_double(Float16 value) { return to_float(value); }

template <class Half>
Half round_to(double value) {
  if constexpr (std::is_same_v<Half, BFloat16>) return to_bfloat16(value);
  else return to_float16(value);
}
template <class Half>
Half round_to(float value) {
  if constexpr (std::is_same_v<Half, BFloat16>) return to_bfloat16(value);
  else return to_float16(value);
}

template <class Half>
class HalfTest : public testing::Test {};
using Halves = testing::Types<BFloat16, Float16>;
TYPED_TEST_SUITE(HalfTest, Halves);

TYPED_TEST(HalfTest, EveryPatternSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const TypeParam half{static_cast<uint16_t>(bits)};
    const float value = to_float(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(to_float(round_to<TypeParam>(value)))) << bits;
      EXPECT_TRUE(std::isnan(to_float(round_to<TypeParam>(as_double(half))))) << bits;
      continue;
    }
    EXPECT_EQ(round_to<TypeParam>(value).bits, bits);
    EXPECT_EQ(round_to<TypeParam>(static_cast<double>(value)).bits, bits);
  }
}

// Between each pair of neighbours: just below the middle, the middle, just above it.
TYPED_TEST(HalfTest, RoundsToNearestAndTiesToEven) {
  uint32_t infinity = 0;
  while (!std::isinf(to_float(TypeParam{static_cast<uint16_t>(infinity)}))) ++infinity;
  for (uint32_t bits = 0; bits + 1 < infinity; ++bits) {
    const double low = as_double(TypeParam{static_cast<uint16_t>(bits)});
    const double high = as_double(TypeParam{static_cast<uint16_t>(bits + 1)});
    const double middle = (low + high) / 2;  // exact in double
    for (double sign : {1.0, -1.0}) {
      const uint32_t sign_bit = sign < 0 ? 0x8000u : 0u;
      EXPECT_EQ(round_to<TypeParam>(sign * std::nextafter(middle, 0.0)).bits, bits | sign_bit);
      EXPECT_EQ(round_to<TypeParam>(sign * std::nextafter(middle, high)).bits, (bits + 1) | sign_bit);
      EXPECT_EQ(round_to<TypeParam>(sign * middle).bits, (bits + (bits & 1)) | sign_bit);
      EXPECT_EQ(round_to<TypeParam>(static_cast<float>(sign * middle)).bits, (bits + (bits & 1)) | sign_bit);
    }
  }
}

TYPED_TEST(HalfTest, FloatAndDoubleAgreeOnFloats) {
  std::mt19937 random(1);
  for (int i = 0; i < 200000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (std::isnan(value)) continue;
    EXPECT_EQ(round_to<TypeParam>(value).bits, round_to<TypeParam>(static_cast<double>(value)).bits) << value;
  }
}

TEST(Half, OverflowStartsHalfAStepAboveTheLargest) {
  EXPECT_EQ(to_float16(65504.0).bits, 0x7BFF);
  EXPECT_EQ(to_float16(65519.99).bits, 0x7BFF);
  EXPECT_EQ(to_float16(65520.0).bits, 0x7C00);
  EXPECT_EQ(to_float16(-1e30f).bits, 0xFC00);
  EXPECT_EQ(to_bfloat16(std::numeric_limits<float>::max()).bits, 0x7F80);
  EXPECT_EQ(to_bfloat16(1e300).bits, 0x7F80);
  EXPECT_EQ(to_bfloat16(-std::numeric_limits<double>::infinity()).bits, 0xFF80);
}

TEST(Half, DoubleIsNotRoundedTwice) {
  // 1 + 2^-8 + 2^-40 lies above the middle of two bfloat16; as a float it would be the middle and go down.
  EXPECT_EQ(to_bfloat16(1.0 + 0x1p-8 + 0x1p-40).bits, 0x3F81);
  EXPECT_EQ(to_float16(1.0 + 0x1p-11 + 0x1p-40).bits, 0x3C01);
}

TEST(Half, TinyValuesBecomeSignedZero) {
  EXPECT_EQ(to_float16(0x1p-25).bits, 0x0000);
  EXPECT_EQ(to_float16(std::nextafter(0x1p-25, 1.0)).bits, 0x0001);
  EXPECT_EQ(to_float16(-1e-300).bits, 0x8000);
  EXPECT_EQ(to_bfloat16(-std::numeric_limits<double>::denorm_min()).bits, 0x8000);
  EXPECT_EQ(to_bfloat16(0x1p-133).bits, 0x0001);
}

TEST(Half, SignallingNanBecomesQuietAndKeepsItsSign) {
  EXPECT_EQ(to_bfloat16(std::bit_cast<float>(0xFF800001u)).bits, 0xFFC0);
  EXPECT_EQ(to_float16(std::bit_cast<double>(0xFFF0000000000001u)).bits, 0xFE00);
  EXPECT_EQ(std::bit_cast<uint32_t>(to_float(Float16{0x7C01})), 0x7FC02000u);
}

}  // namespace
}  // namespace weft
