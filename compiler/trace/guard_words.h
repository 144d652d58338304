// How guards read a tensor and a number as plain words. Private to guards.cpp and guard_failure.cpp.
// Needs callee.
#pragma once

#include <cstring>

#include "compiler/trace/callee.h"

namespace weft::compiler {

// The words of real sizes are the integers themselves.
inline const int64_t* ints(const SmallVector<Sym, kInlineRank>& values) {
  static_assert(sizeof(Sym) == sizeof(int64_t));
  return reinterpret_cast<const int64_t*>(values.data());
}

// The integer or the bits of the double; of a plain number, which is neither traced nor symbolic.
inline uint64_t bits_of(const Scalar& value) {
  static_assert(sizeof(Scalar) == 16 && std::is_trivially_copyable_v<Scalar>);
  uint64_t bits;
  std::memcpy(&bits, reinterpret_cast<const char*>(&value) + 8, sizeof bits);
  return bits;
}

// Of the first element.
inline uint64_t address_of(const TensorImpl& x) {
  return reinterpret_cast<uintptr_t>(x.storage->data()) +
         static_cast<uint64_t>(x.layout.offset.concrete()) * size_of(x.dtype);
}

}  // namespace weft::compiler
