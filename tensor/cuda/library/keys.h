// Elements of all types as unsigned numbers in sorting order, for kernels that order them.
// Needs the CUDA Toolkit; for *.cu alone.
#pragma once

#include <cstdint>

#include "tensor/cuda/driver.h"

namespace weft::cuda {

__host__ __device__ inline int bytes_of(Element element) {
  switch (element) {
    case Element::UInt8:
    case Element::Int8: return 1;
    case Element::Int16:
    case Element::Float16:
    case Element::BFloat16: return 2;
    case Element::Int32:
    case Element::Float32: return 4;
    default: return 8;
  }
}

// Elements as unsigned numbers in sorting order: NaN last and all NaN alike, both zeros alike; as on the CPU (tensor/cpu/sort.cpp).
template <class Bits>
__device__ Bits key_of_float(Bits bits, Bits infinity) {
  constexpr Bits sign = Bits(Bits(1) << (8 * sizeof(Bits) - 1));
  const Bits magnitude = Bits(bits & Bits(~sign));
  if (magnitude > infinity) return Bits(~Bits(0));
  if (magnitude == 0) return sign;
  return Bits(bits & sign ? ~bits : bits | sign);
}

__device__ inline uint64_t key_at(const void* x, Element element, int64_t i) {
  switch (element) {
    case Element::UInt8: return static_cast<const uint8_t*>(x)[i];
    case Element::Int8: return static_cast<const uint8_t*>(x)[i] ^ 0x80u;
    case Element::Int16: return static_cast<const uint16_t*>(x)[i] ^ 0x8000u;
    case Element::Int32: return static_cast<const uint32_t*>(x)[i] ^ 0x80000000u;
    case Element::Int64: return static_cast<const uint64_t*>(x)[i] ^ uint64_t { 1 } << 63;
    case Element::Float16: return key_of_float<uint16_t>(static_cast<const uint16_t*>(x)[i], 0x7C00);
    case Element::BFloat16: return key_of_float<uint16_t>(static_cast<const uint16_t*>(x)[i], 0x7F80);
    case Element::Float32: return key_of_float<uint32_t>(static_cast<const uint32_t*>(x)[i], 0x7F800000);
    default: return key_of_float<uint64_t>(static_cast<const uint64_t*>(x)[i], uint64_t{0x7FF} << 52);
  }
}

__device__ inline void copy_element(const void* from, int64_t i, void* to, int64_t j, int bytes) {
  switch (bytes) {
    case 1: static_cast<uint8_t*>(to)[j] = static_cast<const uint8_t*>(from)[i]; break;
    case 2: static_cast<uint16_t*>(to)[j] = static_cast<const uint16_t*>(from)[i]; break;
    case 4: static_cast<uint32_t*>(to)[j] = static_cast<const uint32_t*>(from)[i]; break;
    default: static_cast<uint64_t*>(to)[j] = static_cast<const uint64_t*>(from)[i];
  }
}

}  // namespace weft::cuda
