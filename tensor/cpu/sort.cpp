// Sorting by keys: every element becomes an unsigned number in sorting order, with its index beside it.
// Place: behind sort.h. Short rows go through std::sort, long ones through a radix sort by bytes.
#include "tensor/cpu/sort.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>

#include "tensor/base/half.h"
#include "tensor/cpu/parallel.h"
#include "tensor/cpu/workspace.h"

namespace weft::cpu {
namespace {

template <class Bits>
Bits key_of_float(Bits bits, Bits infinity) {
  constexpr Bits sign = Bits(Bits(1) << (8 * sizeof(Bits) - 1));
  const Bits magnitude = Bits(bits & Bits(~sign));
  if (magnitude > infinity) return Bits(~Bits(0));
  if (magnitude == 0) return sign;
  return Bits(bits & sign ? ~bits : bits | sign);
}
uint32_t key_of(float x) { return key_of_float(std::bit_cast<uint32_t>(x), 0x7F800000u); }
uint64_t key_of(double x) { return key_of_float(std::bit_cast<uint64_t>(x), uint64_t{0x7FF} << 52); }
uint16_t key_of(BFloat16 x) { return key_of_float<uint16_t>(x.bits, 0x7F80); }
uint16_t key_of(Float16 x) { return key_of_float<uint16_t>(x.bits, 0x7C00); }
template <class T>
requires std::is_integral_v<T>
auto key_of(T x) {
  if constexpr (std::is_same_v<T, bool>) {
    return static_cast<uint8_t>(x);
  } else {
    using Bits = std::make_unsigned_t<T>;
    constexpr Bits sign = std::is_signed_v<T> ? Bits(Bits(1) << (8 * sizeof(T) - 1)) : Bits(0);
    return Bits(static_cast<Bits>(x) ^ sign);
  }
}

// Key and index in one word, so that the order of words is a stable order of elements.
struct ShortItem {
  uint64_t word;
  ShortItem(uint64_t key, int64_t index) : word(key << 32 | static_cast<uint64_t>(index)) {}
  int64_t index() const { return static_cast<int64_t>(word & 0xFFFFFFFFu); }
  size_t digit(int i) const { return word >> (32 + 8 * i) & 0xFF; }
  bool operator<(const ShortItem& other) const { return word < other.word; }
};
struct LongItem {
  uint64_t key;
  int64_t place;
  LongItem(uint64_t k, int64_t index) : key(k), place(index) {}
  int64_t index() const { return place; }
  size_t digit(int i) const { return key >> (8 * i) & 0xFF; }
  bool operator<(const LongItem& other) const {
    return key != other.key ? key < other.key : place < other.place;
  }
};

// From this length on the passes of the radix sort beat the comparisons: 4 histograms cost about 1 µs.
constexpr int64_t kRadixLength = 512;

// Items arrive in the order of their indices, so passes over the key's bytes suffice. The result lies in either array.
template <class Item>
Item* radix_sort(Item* items, Item* spare, int64_t n, int key_bytes) {
  int64_t counts[8][256] = {};
  for (int64_t i = 0; i < n; ++i)
    for (int d = 0; d < key_bytes; ++d) ++counts[d][items[i].digit(d)];
  for (int d = 0; d < key_bytes; ++d) {
    if (counts[d][items[0].digit(d)] == n) continue;  // this byte is the same everywhere
    int64_t start = 0;
    for (int64_t& count : counts[d]) start += std::exchange(count, start);
    for (int64_t i = 0; i < n; ++i) spare[counts[d][items[i].digit(d)]++] = items[i];
    std::swap(items, spare);
  }
  return items;
}

template <class S, class Item>
void sort_rows_of(const SortCall& call) {
  using Key = decltype(key_of(S{}));
  const int64_t n = call.sizes[call.dim], step = call.strides[call.dim], count = call.count;
  int64_t outer = 1, inner = 1;
  for (size_t d = 0; d < call.sizes.size(); ++d)
    (d < call.dim ? outer : inner) *= d == call.dim ? 1 : call.sizes[d];
  const int64_t rows = outer * inner;
  const Key flip = call.descending ? Key(~Key(0)) : Key(0);
  parallel_for(
      rows, std::max<int64_t>(1, 4096 / std::max<int64_t>(n, 1)),
      [&](int64_t begin, int64_t end) {
        const Workspace workspace(2 * n * static_cast<int64_t>(sizeof(Item)) + 64);
        Item* const first = reinterpret_cast<Item*>(workspace.get());
        for (int64_t row = begin; row < end; ++row) {
          const S* from = static_cast<const S*>(call.x);
          for (int64_t d = static_cast<int64_t>(call.sizes.size()), rest = row; d-- > 0;) {
            if (d == static_cast<int64_t>(call.dim)) continue;
            const auto at = static_cast<size_t>(d);
            from += rest % call.sizes[at] * call.strides[at];
            rest /= call.sizes[at];
          }
          Item* items = first;
          for (int64_t i = 0; i < n; ++i) items[i] = Item(Key(key_of(from[i * step]) ^ flip), i);
          if (count < n / 4) {
            std::nth_element(items, items + count, items + n);
            std::sort(items, items + count);
          } else if (n < kRadixLength) {
            std::sort(items, items + n);
          } else {
            items = radix_sort(items, items + n, n, static_cast<int>(sizeof(Key)));
          }
          const int64_t out = row / inner * count * inner + row % inner;
          S* values = static_cast<S*>(call.values) + out;
          int64_t* indices = call.indices + out;
          for (int64_t i = 0; i < count; ++i) {
            const int64_t index = items[i].index();
            std::memcpy(static_cast<void*>(values + i * inner), from + index * step, sizeof(S));
            indices[i * inner] = index;
          }
        }
      },
      1);
}

}  // namespace

void sort_rows(const SortCall& call) {
  visit(call.dtype, [&](auto zero) {
    using S = decltype(zero);
    if constexpr (sizeof(S) == 8) {
      sort_rows_of<S, LongItem>(call);
    } else {
      if (call.sizes[call.dim] <= int64_t{UINT32_MAX}) sort_rows_of<S, ShortItem>(call);
      else sort_rows_of<S, LongItem>(call);
    }
  });
}

}  // namespace weft::cpu
