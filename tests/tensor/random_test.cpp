// Tests of the random stream: Philox's published answers, the mappings from words to numbers, the generator's
// offsets.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <thread>
#include <vector>

#include "tensor/base/half.h"
#include "tensor/random/generator.h"
#include "tensor/random/philox.h"

namespace weft {
namespace {

std::vector<uint32_t> words(const Philox4& block) { return {block.v, block.v + 4}; }

// The lines "philox4x32 10" of Random123's kat_vectors.
TEST(Philox, GivesThePublishedAnswers) {
  EXPECT_EQ(words(philox4x32({{0, 0, 0, 0}}, 0, 0)),
            (std::vector<uint32_t>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(words(philox4x32({{~0u, ~0u, ~0u, ~0u}}, ~0u, ~0u)),
            (std::vector<uint32_t>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(words(philox4x32({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0xa4093822, 0x299f31d0)),
            (std::vector<uint32_t>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, SeedAndCounterUseAllTheirBits) {
  const uint64_t seed = 0x1122334455667788, counter = 0x99aabbccddeeff00;
  EXPECT_EQ(words(philox4(seed, counter)),
            words(philox4x32({{0xddeeff00, 0x99aabbcc, 0, 0}}, 0x55667788, 0x11223344)));
  static_assert(philox4(0, 0).v[0] == 0x6627e8d5);
}

TEST(Philox, AnElementDrawsTheLaneOfItsIndex) {
  const uint64_t seed = 5, base = 17;
  for (uint64_t i = 0; i < 9; ++i) {
    EXPECT_EQ(philox_word32(seed, base, i), philox4(seed, base + i / 4).v[i % 4]);
  }
  const Philox4 block = philox4(seed, base + 1);
  EXPECT_EQ(philox_word64(seed, base, 2), uint64_t{block.v[1]} << 32 | block.v[0]);
  EXPECT_EQ(philox_word64(seed, base, 3), uint64_t{block.v[3]} << 32 | block.v[2]);
  EXPECT_EQ(philox_counters32(0), 0u);
  EXPECT_EQ(philox_counters32(5), 2u);
  EXPECT_EQ(philox_counters64(5), 3u);
}

TEST(Philox, UniformStaysBelowOneInEveryType) {
  EXPECT_EQ(philox_uniform(0u), 0.0f);
  EXPECT_EQ(philox_uniform(~0u), 1.0f - 0x1p-24f);
  EXPECT_EQ(philox_uniform(0x80000000u), 0.5f);
  EXPECT_EQ(philox_uniform(~uint64_t{0}), 1.0 - 0x1p-53);
  EXPECT_EQ(to_float(to_bfloat16(philox_uniform<8>(~0u))), 1.0f - 0x1p-8f);
  EXPECT_EQ(to_float(to_float16(philox_uniform<11>(~0u))), 1.0f - 0x1p-11f);
}

TEST(Philox, UniformHasTheRightMeanAndVariance) {
  constexpr int n = 1 << 16;
  double sum = 0, squares = 0;
  for (int i = 0; i < n; ++i) {
    const double u = philox_uniform(philox_word32(1, 0, i));
    sum += u;
    squares += u * u;
  }
  EXPECT_NEAR(sum / n, 0.5, 5 * 0.2887 / 256);  // five standard errors
  EXPECT_NEAR(squares / n, 1.0 / 3, 5 * 0.2981 / 256);
}

TEST(Philox, RandintReachesBothEndsAndNoMore) {
  EXPECT_EQ(philox_randint(0u, -3, 4), -3);
  EXPECT_EQ(philox_randint(~0u, -3, 4), 3);
  EXPECT_EQ(philox_randint(~0u, 7, 8), 7);
  EXPECT_EQ(philox_randint(~uint64_t{0}, INT64_MIN, INT64_MAX), INT64_MAX - 1);
  EXPECT_EQ(philox_randint(uint64_t{0}, INT64_MIN, INT64_MAX), INT64_MIN);
  EXPECT_FALSE(randint_needs_64_bits(0, 0xFFFFFFFF));
  EXPECT_TRUE(randint_needs_64_bits(0, 0x100000000));
  EXPECT_TRUE(randint_needs_64_bits(INT64_MIN, INT64_MAX));
  std::vector<int> counts(7);
  for (int i = 0; i < 70000; ++i) ++counts[philox_randint(philox_word32(2, 0, i), 0, 7)];
  for (int count : counts) EXPECT_NEAR(count, 10000, 5 * 93);
}

TEST(Philox, WideRandintIsTheUpperHalfOfTheProduct) {
  for (uint64_t i = 0; i < 1000; ++i) {
    const uint64_t word = philox_word64(3, 0, i);
    const auto high = static_cast<int64_t>(philox_word64(4, 0, i) >> 1) + 1;
    const auto expected =
        static_cast<int64_t>(static_cast<unsigned __int128>(word) * static_cast<uint64_t>(high) >> 64);
    EXPECT_EQ(philox_randint(word, 0, high), expected);
  }
}

TEST(Generator, ReservedRangesFollowEachOther) {
  Generator generator(9);
  EXPECT_EQ(generator.reserve(3), 0u);
  EXPECT_EQ(generator.reserve(1), 3u);
  EXPECT_EQ(generator.draw(2), (GeneratorState{9, 4}));
  EXPECT_EQ(generator.offset(), 6u);
}

TEST(Generator, SeedingAndRestoringReplayTheStream) {
  Generator generator;
  EXPECT_EQ(generator.seed(), kDefaultSeed);
  generator.reserve(5);
  const GeneratorState saved = generator.get_state();
  generator.reserve(7);
  generator.set_state(saved);
  EXPECT_EQ(generator.reserve(7), 5u);
  generator.manual_seed(1);
  EXPECT_EQ(generator.get_state(), (GeneratorState{1, 0}));
  manual_seed(12);
  EXPECT_EQ(default_generator().get_state(), (GeneratorState{12, 0}));
}

TEST(Generator, ThreadsGetDisjointRanges) {
  Generator generator;
  std::vector<uint64_t> bases[4];
  std::vector<std::thread> threads;
  for (auto& mine : bases) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) mine.push_back(generator.reserve(2));
    });
  }
  for (auto& thread : threads) thread.join();
  std::set<uint64_t> all;
  for (auto& mine : bases) all.insert(mine.begin(), mine.end());
  EXPECT_EQ(all.size(), 2000u);
  EXPECT_EQ(*all.rbegin(), 2 * 1999u);
}

}  // namespace
}  // namespace weft
