// slot(x): a number as a kernel takes it.
#pragma once

#include <cstdint>
#include <cstring>

namespace weft::compiler::tests {

template <class T>
uint64_t slot(T x) {
  uint64_t bits = 0;
  std::memcpy(&bits, &x, sizeof x);
  return bits;
}

}  // namespace weft::compiler::tests
