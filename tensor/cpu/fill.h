// Writing one value over and over, on all threads.
// Needs nothing of Weft.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::cpu {

void fill_zero(void* data, size_t bytes);
// n copies of the element of 1, 2, 4 or 8 bytes, which need not be aligned.
void fill_elements(void* data, const void* element, size_t element_bytes, int64_t n);

}  // namespace weft::cpu
