// Measures of a model: the share of right answers, and means over batches of different size.
// Needs tensor.
#pragma once

#include "tensor/tensor.h"

namespace weft::train {

// The share of rows whose largest logit is the target's class.  Shapes: logits [n, classes], target [n] integers.
// Errors: shapes that do not fit, no rows.
double accuracy(const Tensor& logits, const Tensor& target);

// A mean over batches: each value counts as often as its batch has rows.
class Mean {
 public:
  void add(double value, int64_t count = 1) {
    sum_ += value * static_cast<double>(count);
    count_ += count;
  }
  // NaN before the first value.
  double value() const { return sum_ / static_cast<double>(count_); }
  int64_t count() const { return count_; }
  void reset() { *this = {}; }

 private:
  double sum_ = 0;
  int64_t count_ = 0;
};

// The accuracy over batches: exact, as right answers are counted.
class Accuracy {
 public:
  void add(const Tensor& logits, const Tensor& target);
  double value() const { return static_cast<double>(right_) / static_cast<double>(count_); }
  int64_t right() const { return right_; }
  int64_t count() const { return count_; }
  void reset() { *this = {}; }

 private:
  int64_t right_ = 0, count_ = 0;
};

}  // namespace weft::train
