// The random stream of Weft: Philox4x32-10 as a pure function, and what is made of its words.
// Needs the standard library only. CPU, CUDA, eager and compiled kernels all draw by the rules of this file.
//
// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#pragma once

#include <cstdint>

namespace weft {

// Note [Which word an element draws]
// A random op reserves a range of counters, of which B is the first. Element i (in the op's logical row-major
// order) draws
//   one 32-bit word:   lane i % 4 of the block at counter B + i / 4
//   one 64-bit word:   lanes 2 (i % 2), the low half, and 2 (i % 2) + 1, the high half, of the block at B + i
//   / 2
// so a value depends on seed, B and i alone: not on threads, vector width, launch shape or what else the
// kernel does, and the backward pass may draw it again instead of saving it. Ops that need word pairs
// (Box-Muller) take lanes (0, 1), (2, 3).

struct Philox4 {
  uint32_t v[4];
};

// The block function in full: 128-bit counter, 64-bit key, ten rounds.
constexpr Philox4 philox4x32(Philox4 counter, uint32_t key0, uint32_t key1) {
  auto& c = counter.v;
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * c[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57} * c[2];
    counter = {{static_cast<uint32_t>(product1 >> 32) ^ c[1] ^ key0, static_cast<uint32_t>(product1),
                static_cast<uint32_t>(product0 >> 32) ^ c[3] ^ key1, static_cast<uint32_t>(product0)}};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return counter;
}

// The block of a generator's stream: the seed is the key, the upper half of the counter stays zero.
constexpr Philox4 philox4(uint64_t seed, uint64_t counter) {
  return philox4x32({{static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0}},
                    static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
}

// How many counters n elements take: reserve this many.
constexpr uint64_t philox_counters32(uint64_t n) { return n / 4 + (n % 4 != 0); }
constexpr uint64_t philox_counters64(uint64_t n) { return n / 2 + (n % 2 != 0); }

// The word of one element, by the note above. Kernels make whole blocks; this is the definition they are held
// to.
constexpr uint32_t philox_word32(uint64_t seed, uint64_t base, uint64_t i) {
  return philox4(seed, base + i / 4).v[i % 4];
}
constexpr uint64_t philox_word64(uint64_t seed, uint64_t base, uint64_t i) {
  const Philox4 block = philox4(seed, base + i / 2);
  const int lane = static_cast<int>(2 * (i % 2));
  return uint64_t{block.v[lane + 1]} << 32 | block.v[lane];
}

// Uniform on [0, 1), from the upper bits. kBits is the width of the result's significand, so that nothing
// rounds up to 1: 24 for f32, 11 for f16, 8 for bf16.
template <int kBits = 24>
constexpr float philox_uniform(uint32_t word) {
  static_assert(kBits > 0 && kBits <= 24);
  return static_cast<float>(word >> (32 - kBits)) * (1.0f / (1u << kBits));
}
// The same for f64, from a 64-bit word: (word >> 11) * 2^-53.
constexpr double philox_uniform(uint64_t word) { return static_cast<double>(word >> 11) * 0x1p-53; }

// Note [Integers by multiply and shift]
// low + floor(word * (high - low) / 2^w): Lemire's mapping without the rejection step, so that element i
// always draws the same word. No value's probability differs from the ideal by more than 2^-w. Ranges under
// 2^32 take a 32-bit word (w = 32), wider ones a 64-bit word.
constexpr bool randint_needs_64_bits(int64_t low, int64_t high) {
  return static_cast<uint64_t>(high) - static_cast<uint64_t>(low) > 0xFFFFFFFFu;
}
// Uniform on [low, high); needs low < high.
constexpr int64_t philox_randint(uint32_t word, int64_t low, int64_t high) {
  const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  return static_cast<int64_t>(static_cast<uint64_t>(low) + (word * range >> 32));
}
constexpr int64_t philox_randint(uint64_t word, int64_t low, int64_t high) {
  const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  // The upper half of the 128-bit product, in four 32-bit products: every compiler and device has those.
  const uint64_t word_low = word & 0xFFFFFFFFu, word_high = word >> 32;
  const uint64_t range_low = range & 0xFFFFFFFFu, range_high = range >> 32;
  const uint64_t middle = word_high * range_low + (word_low * range_low >> 32);
  const uint64_t carry = word_low * range_high + (middle & 0xFFFFFFFFu);
  const uint64_t upper = word_high * range_high + (middle >> 32) + (carry >> 32);
  return static_cast<int64_t>(static_cast<uint64_t>(low) + upper);
}

}  // namespace weft
