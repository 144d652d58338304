// Numbers as elements.
#include "tensor/ops/fill.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "tensor/cpu/convert.h"
#include "tensor/cpu/elementwise.h"
#include "tensor/cpu/fill.h"

namespace weft {
namespace {

// The largest finite value of a floating dtype.
double largest(DType dtype) {
  switch (dtype) {
    case DType::Float32: return std::numeric_limits<float>::max();
    case DType::BFloat16: return 3.3895313892515355e38;
    case DType::Float16: return 65504;
    default: return std::numeric_limits<double>::max();
  }
}

struct FillRange {
  double low, high;
};
FillRange fill_range_of(DType dtype) {
  switch (dtype) {
    case DType::Int32: return {-2147483648., 2147483647.};
    case DType::Int16: return {-32768, 32767};
    case DType::Int8: return {-128, 127};
    // A negative number wraps.
    case DType::UInt8: return {-255, 255};
    default: return {-9223372036854775808., 9223372036854774784.};
  }
}

}  // namespace

Element::Element(const Scalar& value, DType dtype, const char* op) {
  if (dtype == DType::Bool) {
    bytes[0] = value.to_bool() ? 1 : 0;
    return;
  }
  if (is_floating(dtype)) {
    const double number = value.to_double();
    WEFT_CHECK(!std::isfinite(number) || std::abs(number) <= largest(dtype), op, ": the number ", value,
               " lies outside ", dtype);
    cpu::convert_kernel(DType::Float64, dtype)(&number, 1, bytes, 1, 1);
    return;
  }
  if (value.is_floating()) {
    const double number = value.to_double();
    const FillRange range = fill_range_of(dtype);
    WEFT_CHECK(std::trunc(number) >= range.low && std::trunc(number) <= range.high, op, ": the number ",
               value, " lies outside ", dtype);
  }
  const int64_t number = value.is_floating() ? static_cast<int64_t>(value.to_double()) : value.to_int();
  if (dtype != DType::Int64) {
    const FillRange range = fill_range_of(dtype);
    WEFT_CHECK(static_cast<double>(number) >= range.low && static_cast<double>(number) <= range.high, op,
               ": the number ", value, " lies outside ", dtype);
  }
  // Little-endian: the low bytes are the wrapped integer.
  std::memcpy(bytes, &number, size_of(dtype));
}

void check_element(const Operand& value, DType dtype, const char* op) {
  if (!value.is_scalar || value.scalar.is_traced() || value.scalar.is_symbolic()) return;
  static_cast<void>(Element(value.scalar, dtype, op));
}

void fill_data(const Tensor& x, const Element& element) {
  const Extent reach = extent(x->layout);
  const int64_t n = int_numel(x);
  if (n == 0) return;
  const size_t size = size_of(x->dtype);
  // Without gaps the order does not matter.
  if (reach.end - reach.begin == n && !may_self_overlap(x->layout)) {
    char* const start = static_cast<char*>(x->storage->data()) + reach.begin * static_cast<int64_t>(size);
    cpu::fill_elements(start, element.bytes, size, n);
    return;
  }
  const size_t rank = x->layout.sizes.size();
  cpu::StridedArray from{const_cast<char*>(element.bytes), x->dtype, {}};
  from.strides.resize(rank, 0);
  cpu::copy_strided({int_sizes(x), rank}, from,
                    {bytes_of(x), x->dtype, {int_strides(x), int_strides(x) + rank}});
}

}  // namespace weft
