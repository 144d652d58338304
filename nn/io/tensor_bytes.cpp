// Between tensors and the bytes of a file.
#include "nn/io/tensor_bytes.h"

#include <fmt/format.h>

#include "tensor/dispatch.h"

namespace weft::io {

std::optional<uint64_t> checked_bytes(const std::vector<int64_t>& sizes, DType dtype) {
  // A size of 0 makes the product 0 only if the others alone fit: strides are made from them.
  int64_t product = static_cast<int64_t>(size_of(dtype));
  bool empty = false;
  for (int64_t size : sizes) {
    if (size == 0) empty = true;
    else if (__builtin_mul_overflow(product, size, &product)) return {};
  }
  return empty ? 0 : static_cast<uint64_t>(product);
}

std::string shape_text(const std::vector<int64_t>& sizes) {
  return fmt::format("[{}]", fmt::join(sizes, ", "));
}

std::string printable(std::string_view text, size_t max_bytes) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    // Not inside a character of several bytes.
    if (i >= max_bytes && (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) return result + "…";
    const auto c = static_cast<unsigned char>(text[i]);
    if (c < 0x20 || c == 0x7F) result += fmt::format("\\x{:02x}", c);
    else result += text[i];
  }
  return result;
}

std::string in_quotes(std::string_view text) { return "'" + printable(text, 200) + "'"; }

Tensor contiguous_on_cpu(const Tensor& x) {
  const Tensor host = x.is_cpu() ? x : x.cpu();
  if (host.is_contiguous()) return host;
  Tensor copy = make_tensor(host->layout.sizes, host.dtype());
  copy_data(host, copy);
  return copy;
}

int64_t find_bad_bool(const Tensor& x) {
  const uint8_t* bytes = data_of<uint8_t>(x);
  for (int64_t i = 0, n = int_numel(x); i < n; ++i)
    if (bytes[i] > 1) return i;
  return -1;
}

}  // namespace weft::io
