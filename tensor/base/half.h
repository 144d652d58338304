// Conversions between the half types and float or double, one scalar at a time, each rounded once to nearest
// even. Needs dtype.h. Loops over arrays use the vector conversions of tensor/cpu; both give the same bits.
#pragma once

#include <bit>
#include <cstdint>

#include "tensor/base/dtype.h"

namespace weft {
namespace detail {

// Rounds to a 16-bit format of the given mantissa width (without the implicit bit) and exponent bias.
// Overflow gives infinity, a NaN stays one and becomes quiet, with the upper bits of its payload.
template <int kMantissa, int kBias>
constexpr uint16_t round_to_16_bits(double value) {
  constexpr uint64_t kInfinity = uint64_t{2 * kBias + 1} << kMantissa;
  const auto bits = std::bit_cast<uint64_t>(value);
  const uint64_t sign = bits >> 63 << 15;
  const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
  const int exponent = static_cast<int>(bits >> 52 & 0x7FF) - 1023;
  if (exponent == 1024 && fraction != 0) {
    const uint64_t quiet = uint64_t{1} << (kMantissa - 1);
    return static_cast<uint16_t>(sign | kInfinity | quiet | fraction >> (52 - kMantissa));
  }
  if (exponent > kBias) return static_cast<uint16_t>(sign | kInfinity);

  // Below the smallest normal exponent the result keeps that exponent and loses low bits instead.
  const int below_normal = exponent < 1 - kBias ? 1 - kBias - exponent : 0;
  const int dropped = 52 - kMantissa + below_normal;
  if (dropped > 53) return static_cast<uint16_t>(sign);  // under half of the smallest subnormal
  const uint64_t significand = fraction | uint64_t{1} << 52;
  const uint64_t half = uint64_t{1} << (dropped - 1);
  const uint64_t rest = significand & (2 * half - 1);
  uint64_t kept = significand >> dropped;
  if (rest > half || (rest == half && (kept & 1) != 0)) ++kept;
  // The implicit bit in `kept` adds one to the exponent field; so does the carry of the rounding.
  const uint64_t exponent_field = below_normal > 0 ? 0 : static_cast<uint64_t>(exponent + kBias - 1);
  return static_cast<uint16_t>(sign | ((exponent_field << kMantissa) + kept));
}

}  // namespace detail

constexpr float to_float(BFloat16 value) { return std::bit_cast<float>(uint32_t{value.bits} << 16); }

constexpr float to_float(Float16 value) {
  const uint32_t sign = uint32_t{value.bits} >> 15 << 31;
  const uint32_t magnitude = value.bits & 0x7FFFu;
  if (magnitude > 0x7C00u) return std::bit_cast<float>(sign | 0x7FC00000u | magnitude << 13);
  if (magnitude == 0x7C00u) return std::bit_cast<float>(sign | 0x7F800000u);
  if (magnitude >= 0x0400u) return std::bit_cast<float>(sign | ((magnitude << 13) + (112u << 23)));
  const float subnormal = static_cast<float>(magnitude) * 0x1p-24f;  // exact
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(subnormal));
}

constexpr BFloat16 to_bfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return {static_cast<uint16_t>(bits >> 16 | 0x0040u)};
  // The carry runs from the mantissa into the exponent and ends at infinity by itself.
  return {static_cast<uint16_t>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16)};
}
// By way of float the value would be rounded twice.
constexpr BFloat16 to_bfloat16(double value) { return {detail::round_to_16_bits<7, 127>(value)}; }

constexpr Float16 to_float16(double value) { return {detail::round_to_16_bits<10, 15>(value)}; }
constexpr Float16 to_float16(float value) { return to_float16(static_cast<double>(value)); }

}  // namespace weft
