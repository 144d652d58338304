// Between tensors and the bytes of a file: claimed sizes, bools that are none, contiguous copies, quoted names.
// Needs tensor; shared by the file formats. Internal: weft.h does not reach it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/tensor.h"

namespace weft::io {

// PyTorch's limit; more is a sign of a damaged file.
inline constexpr size_t kMaxFileRank = 64;

// The bytes of a tensor, or nothing where they do not fit 63 bits.
std::optional<uint64_t> checked_bytes(const std::vector<int64_t>& sizes, DType dtype);
// "[2, 3]"
std::string shape_text(const std::vector<int64_t>& sizes);

// The text with control characters as \x1b and cut after so many bytes: what may stand in an error.
std::string printable(std::string_view text, size_t max_bytes);
// "'fc1.weight'"
std::string in_quotes(std::string_view text);

// The same values in row-major order in host memory; x itself where they lie so already.
Tensor contiguous_on_cpu(const Tensor& x);

// The first element of a bool tensor whose byte is neither 0 nor 1, or -1: such a byte is no value of C++'s bool.
int64_t find_bad_bool(const Tensor& x);

// Errors: a bool tensor read from a file holds another byte than 0 and 1. `context()` begins the text.
template <class Context>
void check_bools(const Tensor& x, const Context& context) {
  if (x.dtype() != kBool) return;
  const int64_t bad = find_bad_bool(x);
  WEFT_CHECK(bad < 0, context(), " is bool, but byte ", bad, " of it is neither 0 nor 1");
}

}  // namespace weft::io
