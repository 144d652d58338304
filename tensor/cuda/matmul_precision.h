// set_float32_matmul_precision: whether products of f32 matrices on a GPU may take TF32.
// Needs the standard library only.
#pragma once

#include <string>
#include <string_view>

namespace weft {

// "highest": f32 throughout, the default. "high" and "medium": factors are rounded to TF32, 10 bits of mantissa, and summed in
// f32: eight times as fast on an H200. Products on the CPU are not touched. Source: torch.set_float32_matmul_precision.
// Error for another word.
void set_float32_matmul_precision(std::string_view precision);
std::string get_float32_matmul_precision();

namespace cuda {
bool allows_tf32();
}  // namespace cuda

}  // namespace weft
