// The precision of f32 products, for the whole process.
// Place: the out-of-line half of tensor/cuda/matmul_precision.h.
#include "tensor/cuda/matmul_precision.h"

#include <array>
#include <atomic>

#include "tensor/base/error.h"

namespace weft {
namespace {

constexpr std::array<std::string_view, 3> kWords = {"highest", "high", "medium"};
std::atomic<size_t> chosen{0};

}  // namespace

void set_float32_matmul_precision(std::string_view precision) {
  for (size_t i = 0; i < kWords.size(); ++i) {
    if (kWords[i] != precision) continue;
    chosen = i;
    return;
  }
  detail::throw_error(detail::concat("set_float32_matmul_precision: '", precision,
                                     "' is no precision; there are \"highest\", \"high\" and \"medium\""));
}

std::string get_float32_matmul_precision() { return std::string(kWords[chosen.load()]); }

bool cuda::allows_tf32() { return chosen.load(std::memory_order_relaxed) != 0; }

}  // namespace weft
