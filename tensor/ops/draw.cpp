// Random numbers as expressions.
// Place: the out-of-line half of tensor/ops/draw.h.
#include "tensor/ops/draw.h"

#include "tensor/base/half.h"
#include "tensor/cpu/random.h"
#include "tensor/ops/element.h"
#include "tensor/random/philox.h"

namespace weft::draw {
namespace {

constexpr int64_t kLow32 = 0xFFFFFFFF;

// The upper half of an unsigned 64-bit integer.
Expr upper(const Expr& x) { return (x >> 32) & kLow32; }

// On [0, 1) from the upper `bits` bits of a word.
Expr uniform_of(const Expr& word, int bits) {
  if (word.dtype() == DType::Int32)
    return to_float((word >> (32 - bits)) & ((1 << bits) - 1)) * (1.0f / static_cast<float>(1u << bits));
  // 53 bits in two parts, each of which converts exactly.
  const Expr significand = (word >> 11) & ((int64_t{1} << 53) - 1);
  return (to_float(significand >> 32) * 0x1p32 + to_float(significand & kLow32)) * 0x1p-53;
}

double rounded(double value, DType dtype) {
  const auto narrow = static_cast<float>(value);
  switch (dtype) {
    case DType::Float32: return narrow;
    case DType::BFloat16: return to_float(to_bfloat16(narrow));
    case DType::Float16: return to_float(to_float16(narrow));
    default: return value;
  }
}

}  // namespace

Words::Words(LoopReader& reader, const Call& call, const OutputSpec& result, std::span<const Sym> place)
    : loop(reader),
      seed(call.attr(call.attrs.size() - 2).as_scalar()),
      offset(call.attr(call.attrs.size() - 1).as_scalar()),
      index(element::row_major(result.sizes, place)),
      dtype(result.dtype) {}

Expr uniform(const Words& words, double low, double high) {
  const DType compute = compute_dtype(words.dtype);
  const Expr unit = compute == DType::Float64 ? uniform_of(words.own64(), 53)
                                              : uniform_of(words.own32(), cpu::uniform_bits(words.dtype));
  if (low == 0 && high == 1) return cast(unit, words.dtype);
  const Expr value = unit * (high - low) + low;
  // What rounds up to the end becomes the start.
  const Expr stored = cast(cast(value, words.dtype), compute);
  return cast(where(stored >= rounded(high, words.dtype), low, value), words.dtype);
}

// Note [Box and Muller's pairs]
Expr normal(const Words& words, double mean, double deviation) {
  const bool is_wide = words.dtype == DType::Float64;
  const Sym first = words.index / 2 * 2;
  const auto uniform_at = [&](Sym index) {
    return uniform_of(words.loop.random(words.seed, words.offset, index, is_wide),
                      is_wide ? 53 : cpu::uniform_bits(DType::Float32));
  };
  const Expr u = uniform_at(first), v = uniform_at(first + 1);
  const Expr radius = sqrt(-2.0 * log(1.0 - u)), angle = v * 6.283185307179586;
  const Expr is_even = words.loop.place(words.index) == words.loop.place(first);
  const Expr value = where(is_even, radius * cos(angle), radius * sin(angle));
  return cast(value * deviation + mean, words.dtype);
}

// Note [Integers by multiply and shift]
Expr integer(const Words& words, int64_t low, int64_t high) {
  const auto range = static_cast<int64_t>(static_cast<uint64_t>(high) - static_cast<uint64_t>(low));
  if (!randint_needs_64_bits(low, high)) {
    const Expr word = cast(words.own32(), DType::Int64) & kLow32;
    return cast(low + upper(word * range), words.dtype);
  }
  const Expr word = words.own64(), word_low = word & kLow32, word_high = upper(word);
  const int64_t range_low = range & kLow32, range_high = (range >> 32) & kLow32;
  const Expr middle = word_high * range_low + upper(word_low * range_low);
  const Expr carry = word_low * range_high + (middle & kLow32);
  return cast(low + (word_high * range_high + upper(middle) + upper(carry)), words.dtype);
}

// Note [Chances]
Expr with_chance(const Words& words, double p, const Expr& hit) {
  const cpu::ChanceLimit chance(p);
  if (chance.always) return cast(hit, words.dtype);
  const Expr is_hit = (words.own32() ^ INT32_MIN) < static_cast<int32_t>(chance.limit ^ 0x80000000u);
  return cast(where(is_hit, hit, 0), words.dtype);
}

}  // namespace weft::draw
