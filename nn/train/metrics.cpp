// Measures of a model, by ops on whole batches.
#include "nn/train/metrics.h"

namespace weft::train {

namespace {

int64_t count_right(const Tensor& logits, const Tensor& target) {
  WEFT_CHECK(logits.dim() == 2 && target.dim() == 1 && logits.size(0) == target.size(0),
             "accuracy: the logits are ", logits.sizes(), " and the target ", target.sizes(),
             "; they should be [n, classes] and [n]");
  WEFT_CHECK(is_integral(target.dtype()), "accuracy: the target is ", target.dtype(),
             "; it should hold class numbers");
  return logits.argmax(1).eq(target).sum().item<int64_t>();
}

}  // namespace

double accuracy(const Tensor& logits, const Tensor& target) {
  const int64_t right = count_right(logits, target);
  WEFT_CHECK(target.numel() > 0, "accuracy: there are no rows");
  return static_cast<double>(right) / static_cast<double>(static_cast<int64_t>(target.numel()));
}

void Accuracy::add(const Tensor& logits, const Tensor& target) {
  right_ += count_right(logits, target);
  count_ += target.numel();
}

}  // namespace weft::train
