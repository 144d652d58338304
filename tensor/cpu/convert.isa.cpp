// The conversion kernels of one instruction set: every dtype to every dtype, with strides.
// Place: compiled once per set; convert.h chooses.
#include <cstring>

#include "tensor/cpu/convert.h"
#include "tensor/cpu/vec_memory.h"

namespace weft::cpu {
inline namespace WEFT_ISA_NAMESPACE {
namespace {

template <class From, class To>
void convert(const void* from, int64_t from_stride, void* to, int64_t to_stride, int64_t n) {
  const From* in = static_cast<const From*>(from);
  To* out = static_cast<To*>(to);
  if (from_stride == 1 && to_stride == 1) {
    if constexpr (std::is_same_v<From, To>) {
      std::memmove(out, in, static_cast<size_t>(n) * sizeof(To));
      return;
    }
  } else if (std::is_same_v<From, To>) {
    for (int64_t i = 0; i < n; ++i) std::memcpy(out + i * to_stride, in + i * from_stride, sizeof(To));
    return;
  }
  // Strided elements pass through a dense piece, so that every element meets the same vector code.
  for (int64_t i = 0; i < n; i += kLanes) {
    const int count = static_cast<int>(n - i < kLanes ? n - i : kLanes);
    From piece[kLanes];
    const From* source = piece;
    if (from_stride == 1 && count == kLanes) {
      source = in + i;
    } else {
      std::memset(static_cast<void*>(piece), 0, sizeof(piece));
      for (int lane = 0; lane < count; ++lane) piece[lane] = in[(i + lane) * from_stride];
    }
    const auto value = load_as<ComputeType<From>>(source);
    if (to_stride == 1 && count == kLanes) {
      store_as(out + i, value);
    } else {
      To result[kLanes];
      store_as(result, value);
      for (int lane = 0; lane < count; ++lane) out[(i + lane) * to_stride] = result[lane];
    }
  }
}

template <class From>
void fill_row(ConvertKernel* row) {
  for (int to = 0; to < kNumDTypes; ++to) {
    row[to] = visit(static_cast<DType>(to),
                    [](auto zero) -> ConvertKernel { return convert<From, decltype(zero)>; });
  }
}

ConvertKernels make_kernels() {
  ConvertKernels result;
  for (int from = 0; from < kNumDTypes; ++from) {
    visit(static_cast<DType>(from), [&](auto zero) { fill_row<decltype(zero)>(result.kernels[from]); });
  }
  return result;
}

}  // namespace

const ConvertKernels& convert_kernels() {
  static const ConvertKernels kernels = make_kernels();
  return kernels;
}

}  // namespace WEFT_ISA_NAMESPACE
}  // namespace weft::cpu
