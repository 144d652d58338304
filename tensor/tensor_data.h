// tensor(…): tensors of numbers written in the program: tensor(3.5), tensor({{1, 2}, {3, 4}}), tensor(a_std_vector).
// Needs tensor. Kept light: every user's program includes it.
#pragma once

#include "tensor/tensor.h"

namespace weft {

// A number or a braced list of numbers and lists. Borrows the lists: for one call only.
class TensorData {
 public:
  template <class T>
  requires std::is_arithmetic_v<T> || std::same_as<T, Sym> || std::same_as<T, Scalar> TensorData(
      T value)  // NOLINT
      : number_(value) {}
  TensorData(std::initializer_list<TensorData> items)  // NOLINT
      : is_list_(true), count_(items.size()) {
    items_ = items.begin();
  }

  bool is_list() const { return is_list_; }
  const Scalar& number() const { return number_; }
  const TensorData* begin() const { return items_; }
  const TensorData* end() const { return items_ + count_; }
  size_t size() const { return count_; }

 private:
  Scalar number_;
  bool is_list_ = false;
  const TensorData* items_ = nullptr;
  size_t count_ = 0;
};

// A new tensor with these numbers.
// Shapes: a number gives [], {1, 2, 3} [3], {{1, 2}} [1, 2]; and so on, to any depth.
// Dtypes: without one in the options, bool if all are bools, int64 if all are integers, else the default float.
// Errors: rows of different lengths; a number outside the dtype.
Tensor tensor(const TensorData& data, const TensorOptions& options = {}, WEFT_HERE);

namespace detail {
Tensor tensor_of_array(const void* data, DType dtype, size_t count, const TensorOptions& options,
                       SourceLocation where);
}

template <class T>
requires std::is_arithmetic_v<T> Tensor tensor(const std::vector<T>& values,
                                               const TensorOptions& options = {}, WEFT_HERE) {
  if constexpr (std::same_as<T, bool>) {
    const std::vector<uint8_t> bytes(values.begin(), values.end());
    return detail::tensor_of_array(bytes.data(), DType::Bool, bytes.size(), options, where);
  } else {
    return detail::tensor_of_array(values.data(), dtype_of<T>, values.size(), options, where);
  }
}

}  // namespace weft
