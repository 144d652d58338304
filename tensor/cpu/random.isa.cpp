// The random kernels of one instruction set: Philox on vectors, and what is made of its words.
// Place: compiled once per set; random.cpp spreads them over threads.
#include "tensor/cpu/random.h"

#include "tensor/base/half.h"
#include "tensor/cpu/vec_math.h"
#include "tensor/cpu/vec_memory.h"
#include "tensor/random/philox.h"

namespace weft::cpu {
inline namespace WEFT_ISA_NAMESPACE {
namespace {

using Lanes64 = detail::Native<uint64_t>;
constexpr int kBlocks = kRegisterBytes / 8;  // Philox blocks computed at a time, one in each 64-bit lane

// The full products of the lower halves of the lanes.
WEFT_INLINE Lanes64 multiply_halves(Lanes64 a, Lanes64 b) {
#if defined(__AVX512F__)
  return (Lanes64)_mm512_mul_epu32((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
  return (Lanes64)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#else
  return (Lanes64)_mm_mul_epu32((__m128i)a, (__m128i)b);
#endif
}
WEFT_INLINE Lanes64 splat(uint64_t x) { return x - Lanes64{}; }

// The words of `blocks` counters, a multiple of kBlocks. A lane's upper half may hold anything until the end: products
// read lower halves only. The counters lie in the lanes so that unpacking puts the blocks in order.
void fill_words(uint64_t seed, uint64_t counter, int64_t blocks, uint32_t* out) {
  Lanes64 step{};
  for (int i = 0; i < kBlocks; ++i) step[i] = static_cast<uint64_t>(i / 2 + (i % 2) * (kBlocks / 2));
  const Lanes64 factor0 = splat(0xD2511F53), factor1 = splat(0xCD9E8D57), low = splat(0xFFFFFFFF);
  for (int64_t at = 0; at < blocks; at += kBlocks) {
    const Lanes64 place = splat(counter + static_cast<uint64_t>(at)) + step;
    Lanes64 c0 = place, c1 = place >> 32, c2{}, c3{};
    auto key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
    for (int round = 0; round < 10; ++round) {
      const Lanes64 product0 = multiply_halves(c0, factor0), product1 = multiply_halves(c2, factor1);
      c0 = (product1 >> 32) ^ c1 ^ splat(key0);
      c1 = product1;
      c2 = (product0 >> 32) ^ c3 ^ splat(key1);
      c3 = product0;
      key0 += 0x9E3779B9;
      key1 += 0xBB67AE85;
    }
    const Lanes64 first = (c0 & low) | (c1 << 32), second = (c2 & low) | (c3 << 32);
#if defined(__AVX512F__)
    const Lanes64 lower = __builtin_shuffle(first, second, Lanes64{0, 8, 2, 10, 4, 12, 6, 14});
    const Lanes64 upper = __builtin_shuffle(first, second, Lanes64{1, 9, 3, 11, 5, 13, 7, 15});
#elif defined(__AVX2__)
    const Lanes64 lower = __builtin_shuffle(first, second, Lanes64{0, 4, 2, 6});
    const Lanes64 upper = __builtin_shuffle(first, second, Lanes64{1, 5, 3, 7});
#else
    const Lanes64 lower = __builtin_shuffle(first, second, Lanes64{0, 2});
    const Lanes64 upper = __builtin_shuffle(first, second, Lanes64{1, 3});
#endif
    std::memcpy(out + 4 * at, &lower, sizeof(lower));
    std::memcpy(out + 4 * at + 2 * kBlocks, &upper, sizeof(upper));
  }
}

// Elements are made in tiles whose words stay in the L1 cache.
constexpr int64_t kTile = kRandomAlignment;

// make(words, element, count): `count` elements from `element` on, from their words; the words of a whole tile are there.
template <int kWords, class Make>
WEFT_INLINE void by_tiles(const RandomCall& call, int64_t first, int64_t n, Make make) {
  alignas(64) uint32_t words[kTile * kWords];
  for (int64_t i = 0; i < n; i += kTile) {
    const int64_t count = n - i < kTile ? n - i : kTile;
    const int64_t blocks = (count * kWords + 3) / 4;
    fill_words(call.seed, call.offset + static_cast<uint64_t>(first + i) * kWords / 4,
               (blocks + kBlocks - 1) / kBlocks * kBlocks, words);
    make(words, first + i, count);
  }
}

template <class S, class C>
WEFT_INLINE void store_lanes(S* out, Vec<C> x, int64_t count) {
  if (count >= kLanes) store_as(out, x);
  else store_partial(out, x, int(count));
}
template <class S, class C>
WEFT_INLINE Vec<C> load_lanes(const S* in, int64_t count) {
  return count >= kLanes ? load_as<C>(in) : load_partial<C>(in, int(count), C(0));
}

// Sixteen uniforms on [0, 1), as philox_uniform makes them.
template <int kBits>
WEFT_INLINE Vec<float> uniform_of(Vec<int32_t> words) {
  return to_float((words >> (32 - kBits)) & ((1 << kBits) - 1)) * Vec<float>(1.0f / (1u << kBits));
}
WEFT_INLINE Vec<double> uniform_of(Vec<int64_t> words) {
  // 53 bits in two parts, each of which converts exactly.
  const Vec<int64_t> bits = (words >> 11) & ((int64_t{1} << 53) - 1);
  const Vec<double> high = to_float(bits >> 32), low = to_float(bits & int64_t{0xFFFFFFFF});
  return (high * Vec<double>(0x1p32) + low) * Vec<double>(0x1p-53);
}

// Stretched to [a, b); what rounds up to b becomes a.
template <class S>
void fill_uniform(const RandomCall& call, int64_t first, int64_t n, const void*, void* out_ptr) {
  using C = ComputeType<S>;
  S* out = static_cast<S*>(out_ptr);
  const C low = C(call.a), range = C(call.b - call.a);
  S end[kLanes];
  store_as(end, Vec<C>(C(call.b)));
  const Vec<C> high = load_as<C>(static_cast<const S*>(end));
  const bool plain = call.a == 0 && call.b == 1;
  by_tiles<sizeof(C) / 4>(call, first, n, [&](const uint32_t* words, int64_t at, int64_t count) {
    for (int64_t i = 0; i < count; i += kLanes) {
      Vec<C> value;
      if constexpr (sizeof(C) == 8) value = uniform_of(Vec<int64_t>::load((const int64_t*)words + i));
      else value = uniform_of<uniform_bits(dtype_of<S>)>(Vec<int32_t>::load((const int32_t*)words + i));
      if (!plain) {
        value = value * Vec<C>(range) + Vec<C>(low);
        S rounded[kLanes];
        store_as(rounded, value);
        value = where(load_as<C>(static_cast<const S*>(rounded)) >= high, Vec<C>(low), value);
      }
      store_lanes(out + at + i, value, count - i);
    }
  });
}

template <class C>
WEFT_INLINE void normal_pairs(Vec<C> u, Vec<C> v, Vec<C>& even, Vec<C>& odd) {
  const Vec<C> radius = sqrt(Vec<C>(C(-2)) * log(Vec<C>(C(1)) - u));
  const Vec<C> angle = v * Vec<C>(C(6.283185307179586));
  even = radius * cos(angle);
  odd = radius * sin(angle);
}

// Note [Box and Muller's pairs]
template <class S>
void fill_normal(const RandomCall& call, int64_t first, int64_t n, const void*, void* out_ptr) {
  using C = ComputeType<S>;
  S* out = static_cast<S*>(out_ptr);
  const Vec<C> mean(C(call.a)), deviation(C(call.b));
  by_tiles<sizeof(C) / 4>(call, first, n, [&](const uint32_t* words, int64_t at, int64_t count) {
    for (int64_t i = 0; i < count; i += 2 * kLanes) {
      C uniforms[2 * kLanes], u[kLanes], v[kLanes];
      for (int half = 0; half < 2; ++half) {
        const int64_t from = i + half * kLanes;
        if constexpr (sizeof(C) == 8)
          uniform_of(Vec<int64_t>::load((const int64_t*)words + from)).store(uniforms + half * kLanes);
        else uniform_of<24>(Vec<int32_t>::load((const int32_t*)words + from)).store(uniforms + half * kLanes);
      }
      for (int j = 0; j < kLanes; ++j) u[j] = uniforms[2 * j], v[j] = uniforms[2 * j + 1];
      Vec<C> even, odd;
      normal_pairs(Vec<C>::load(u), Vec<C>::load(v), even, odd);
      even.store(u), odd.store(v);
      for (int j = 0; j < kLanes; ++j) uniforms[2 * j] = u[j], uniforms[2 * j + 1] = v[j];
      for (int half = 0; half < 2 && i + half * kLanes < count; ++half) {
        const Vec<C> value = Vec<C>::load(uniforms + half * kLanes) * deviation + mean;
        store_lanes(out + at + i + half * kLanes, value, count - i - half * kLanes);
      }
    }
  });
}

template <class S>
WEFT_INLINE S number_as(int64_t value) {
  if constexpr (std::is_same_v<S, BFloat16>) return to_bfloat16(static_cast<double>(value));
  else if constexpr (std::is_same_v<S, Float16>) return to_float16(static_cast<double>(value));
  else return static_cast<S>(value);
}

template <class S>
void fill_integers(const RandomCall& call, int64_t first, int64_t n, const void*, void* out_ptr) {
  S* out = static_cast<S*>(out_ptr);
  if (randint_needs_64_bits(call.low, call.high)) {
    by_tiles<2>(call, first, n, [&](const uint32_t* words, int64_t at, int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        const uint64_t word = uint64_t{words[2 * i + 1]} << 32 | words[2 * i];
        out[at + i] = number_as<S>(philox_randint(word, call.low, call.high));
      }
    });
    return;
  }
  by_tiles<1>(call, first, n, [&](const uint32_t* words, int64_t at, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      out[at + i] = number_as<S>(philox_randint(words[i], call.low, call.high));
  });
}

// Note [Chances]
WEFT_INLINE Vec<int32_t> ordered(Vec<int32_t> words) { return words ^ INT32_MIN; }
struct Chance {
  bool always;
  Vec<int32_t> limit;
  explicit Chance(double p) {
    const ChanceLimit words(p);
    always = words.always;
    limit = ordered(Vec<int32_t>(static_cast<int32_t>(words.limit)));
  }
  WEFT_INLINE Mask<int32_t> operator()(const uint32_t* words) const {
    return Mask<int32_t>(always) | (ordered(Vec<int32_t>::load((const int32_t*)words)) < limit);
  }
};

template <class S>
void fill_chance(const RandomCall& call, int64_t first, int64_t n, const void*, void* out_ptr) {
  using C = ComputeType<S>;
  S* out = static_cast<S*>(out_ptr);
  const Chance chance(call.a);
  by_tiles<1>(call, first, n, [&](const uint32_t* words, int64_t at, int64_t count) {
    for (int64_t i = 0; i < count; i += kLanes)
      store_lanes(out + at + i, where(chance(words + i), Vec<C>(C(1)), Vec<C>(C(0))), count - i);
  });
}

template <class S>
void fill_chance_of(const RandomCall& call, int64_t first, int64_t n, const void* in_ptr, void* out_ptr) {
  const S* in = static_cast<const S*>(in_ptr);
  S* out = static_cast<S*>(out_ptr);
  by_tiles<1>(call, first, n, [&](const uint32_t* words, int64_t at, int64_t count) {
    for (int64_t i = 0; i < count; i += kLanes) {
      const Vec<double> p = load_lanes<S, double>(in + at + i, count - i);
      const Vec<int64_t> word =
          cast<int64_t>(Vec<int32_t>::load((const int32_t*)words + i)) & int64_t{0xFFFFFFFF};
      const Mask<double> hit = to_float(word) < p * Vec<double>(0x1p32);
      store_lanes(out + at + i, where(hit, Vec<double>(1.0), Vec<double>(0.0)), count - i);
    }
  });
}

template <class S>
void drop_out(const RandomCall& call, int64_t first, int64_t n, const void* in_ptr, void* out_ptr) {
  using C = ComputeType<S>;
  const S* in = static_cast<const S*>(in_ptr);
  S* out = static_cast<S*>(out_ptr);
  const Chance chance(call.a);
  const Vec<C> factor(C(call.b));
  by_tiles<1>(call, first, n, [&](const uint32_t* words, int64_t at, int64_t count) {
    for (int64_t i = 0; i < count; i += kLanes) {
      const Vec<C> x = load_lanes<S, C>(in + at + i, count - i);
      store_lanes(out + at + i, where(chance(words + i), x * factor, Vec<C>(C(0))), count - i);
    }
  });
}

void fill_bits(const RandomCall& call, int64_t first, int64_t n, const void*, void* out) {
  by_tiles<2>(call, first, n, [&](const uint32_t* words, int64_t at, int64_t count) {
    std::memcpy(static_cast<int64_t*>(out) + at, words, size_t(count) * 8);
  });
}

template <class S>
void add_kernels(RandomKernels& table) {
  const auto set = [&](Draw draw, RandomKernel kernel) {
    table.kernels[int(draw)][int(dtype_of<S>)] = kernel;
  };
  if constexpr (is_floating(dtype_of<S>)) {
    set(Draw::Uniform, fill_uniform<S>);
    set(Draw::Normal, fill_normal<S>);
    set(Draw::ChanceOf, fill_chance_of<S>);
    set(Draw::Dropout, drop_out<S>);
  }
  set(Draw::Integer, fill_integers<S>);
  set(Draw::Chance, fill_chance<S>);
}

RandomKernels make_table() {
  RandomKernels table{};
  for (int i = 0; i < kNumDTypes; ++i)
    visit(static_cast<DType>(i), [&](auto zero) { add_kernels<decltype(zero)>(table); });
  table.kernels[int(Draw::Bits64)][int(DType::Int64)] = fill_bits;
  return table;
}

}  // namespace

const RandomKernels& random_kernels() {
  static const RandomKernels table = make_table();
  return table;
}

}  // namespace WEFT_ISA_NAMESPACE
}  // namespace weft::cpu
