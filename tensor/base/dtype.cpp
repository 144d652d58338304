// Names and the promotion lattice.
// Needs error.h only.
#include "tensor/base/dtype.h"

#include <algorithm>
#include <ostream>

namespace weft {

const char* name_of(DType dtype) {
  constexpr const char* names[kNumDTypes] = {"float32", "float64", "bfloat16", "float16", "int64",
                                             "int32",   "int16",   "int8",     "uint8",   "bool"};
  return names[static_cast<int>(dtype)];
}

const char* short_name_of(DType dtype) {
  constexpr const char* names[kNumDTypes] = {"f32", "f64", "bf16", "f16", "i64",
                                             "i32", "i16", "i8",   "u8",  "bool"};
  return names[static_cast<int>(dtype)];
}

std::ostream& operator<<(std::ostream& out, DType dtype) { return out << name_of(dtype); }

DType promote(DType a, DType b) {
  if (a == b || b == DType::Bool) return a;
  if (a == DType::Bool) return b;
  if (is_floating(a) != is_floating(b)) return is_floating(a) ? a : b;
  if (is_floating(a)) {
    if (is_half(a) && is_half(b)) return DType::Float32;
    if (is_half(a)) return b;
    if (is_half(b)) return a;
    return DType::Float64;  // the two differ and neither is half
  }
  if (a == DType::UInt8 || b == DType::UInt8) {
    const DType other = a == DType::UInt8 ? b : a;
    return other == DType::Int8 ? DType::Int16 : other;
  }
  return size_of(a) > size_of(b) ? a : b;
}

}  // namespace weft
