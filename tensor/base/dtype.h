// Element types, their sizes and names, and PyTorch's promotion rules.
// Needs error.h only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>

#include "tensor/base/error.h"

namespace weft {

enum class DType : uint8_t { Float32, Float64, BFloat16, Float16, Int64, Int32, Int16, Int8, UInt8, Bool };
inline constexpr int kNumDTypes = 10;

inline constexpr DType kFloat32 = DType::Float32, kFloat = DType::Float32;
inline constexpr DType kFloat64 = DType::Float64, kDouble = DType::Float64;
inline constexpr DType kBFloat16 = DType::BFloat16;
inline constexpr DType kFloat16 = DType::Float16, kHalf = DType::Float16;
inline constexpr DType kInt64 = DType::Int64, kLong = DType::Int64;
inline constexpr DType kInt32 = DType::Int32, kInt = DType::Int32;
inline constexpr DType kInt16 = DType::Int16, kShort = DType::Int16;
inline constexpr DType kInt8 = DType::Int8, kChar = DType::Int8;
inline constexpr DType kUInt8 = DType::UInt8, kByte = DType::UInt8;
inline constexpr DType kBool = DType::Bool;

// Storage of the half types; arithmetic on them happens in float (tensor/base/half.h converts).
struct BFloat16 {
  uint16_t bits;
};
struct Float16 {
  uint16_t bits;
};

constexpr size_t size_of(DType dtype) {
  constexpr uint8_t bytes[kNumDTypes] = {4, 8, 2, 2, 8, 4, 2, 1, 1, 1};
  return bytes[static_cast<int>(dtype)];
}

constexpr bool is_floating(DType dtype) { return dtype <= DType::Float16; }
constexpr bool is_half(DType dtype) { return dtype == DType::BFloat16 || dtype == DType::Float16; }
constexpr bool is_integral(DType dtype) { return !is_floating(dtype) && dtype != DType::Bool; }

// "float32": PyTorch's name without the prefix.
const char* name_of(DType dtype);
// "f32", "i64": the short names of tests, dumps and generated code.
const char* short_name_of(DType dtype);
std::ostream& operator<<(std::ostream& out, DType dtype);

// The dtype that values of both types fit into, by PyTorch's lattice (torch.promote_types):
// u8 with i8 gives i16, bf16 with f16 gives f32, an integer with a float gives the float.
DType promote(DType a, DType b);

// The element type with which a dtype computes: half types in float, small integers and bool in int32.
constexpr DType compute_dtype(DType dtype) {
  switch (dtype) {
    case DType::BFloat16:
    case DType::Float16: return DType::Float32;
    case DType::Int16:
    case DType::Int8:
    case DType::UInt8:
    case DType::Bool: return DType::Int32;
    default: return dtype;
  }
}

template <class T>
struct DTypeOf;
// clang-format off
template <> struct DTypeOf<float> { static constexpr DType value = DType::Float32; };
template <> struct DTypeOf<double> { static constexpr DType value = DType::Float64; };
template <> struct DTypeOf<BFloat16> { static constexpr DType value = DType::BFloat16; };
template <> struct DTypeOf<Float16> { static constexpr DType value = DType::Float16; };
template <> struct DTypeOf<int64_t> { static constexpr DType value = DType::Int64; };
template <> struct DTypeOf<long long> { static constexpr DType value = DType::Int64; };
template <> struct DTypeOf<int32_t> { static constexpr DType value = DType::Int32; };
template <> struct DTypeOf<int16_t> { static constexpr DType value = DType::Int16; };
template <> struct DTypeOf<int8_t> { static constexpr DType value = DType::Int8; };
template <> struct DTypeOf<uint8_t> { static constexpr DType value = DType::UInt8; };
template <> struct DTypeOf<bool> { static constexpr DType value = DType::Bool; };
// clang-format on

template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

// Calls f with a value-initialised element of the dtype's C++ type:
// visit(dtype, [&](auto zero) { using T = decltype(zero); … }).
template <class F>
decltype(auto) visit(DType dtype, F&& f) {
  switch (dtype) {
    case DType::Float32: return f(float{});
    case DType::Float64: return f(double{});
    case DType::BFloat16: return f(BFloat16{});
    case DType::Float16: return f(Float16{});
    case DType::Int64: return f(int64_t{});
    case DType::Int32: return f(int32_t{});
    case DType::Int16: return f(int16_t{});
    case DType::Int8: return f(int8_t{});
    case DType::UInt8: return f(uint8_t{});
    case DType::Bool: return f(bool{});
  }
  detail::throw_internal_error(__FILE__, __LINE__, "dtype", {"unknown dtype"});
}

}  // namespace weft
