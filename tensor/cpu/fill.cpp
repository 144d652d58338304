// Filling dense memory.
#include "tensor/cpu/fill.h"

#include <algorithm>
#include <cstring>

#include "tensor/cpu/parallel.h"

namespace weft::cpu {
namespace {

// Below this many bytes a second thread costs more than it writes.
constexpr int64_t kBytesPerThread = 1 << 18;

template <class T>
void fill(void* data, const void* element, int64_t n) {
  T value;
  std::memcpy(&value, element, sizeof(T));
  parallel_for(n, kBytesPerThread / static_cast<int64_t>(sizeof(T)), [&](int64_t begin, int64_t end) {
    T* out = static_cast<T*>(data);
    std::fill(out + begin, out + end, value);
  });
}

}  // namespace

void fill_zero(void* data, size_t bytes) {
  if (bytes == 0) return;
  parallel_for(
      static_cast<int64_t>(bytes), kBytesPerThread,
      [&](int64_t begin, int64_t end) {
        std::memset(static_cast<char*>(data) + begin, 0, static_cast<size_t>(end - begin));
      },
      64);
}

void fill_elements(void* data, const void* element, size_t element_bytes, int64_t n) {
  uint64_t bits = 0;
  std::memcpy(&bits, element, element_bytes);
  if (bits == 0) return fill_zero(data, static_cast<size_t>(n) * element_bytes);
  switch (element_bytes) {
    case 1: return fill<uint8_t>(data, element, n);
    case 2: return fill<uint16_t>(data, element, n);
    case 4: return fill<uint32_t>(data, element, n);
    default: return fill<uint64_t>(data, element, n);
  }
}

}  // namespace weft::cpu
