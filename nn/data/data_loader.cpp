// DataLoader: the order of an epoch is made when its walk begins, a batch when it is asked for.
#include "nn/data/data_loader.h"

#include <numeric>

namespace weft::data {

DataLoader::DataLoader(std::shared_ptr<const Dataset> dataset, const DataLoaderOptions& options)
    : dataset_(std::move(dataset)), options_(options) {
  WEFT_CHECK(dataset_ != nullptr, "data_loader: the dataset is null");
  WEFT_CHECK(options_.batch_size() >= 1, "data_loader: the batch size is ", options_.batch_size(),
             "; it must be 1 or more");
}

int64_t DataLoader::size() const {
  const int64_t n = dataset_->size(), batch = options_.batch_size();
  return n / batch + (!options_.drop_last() && n % batch != 0 ? 1 : 0);
}

DataLoader::Iterator DataLoader::begin() {
  const uint64_t round = static_cast<uint64_t>(epoch_++);
  Iterator it;
  if (options_.shuffle()) {
    // Round 0 is the order in which random_split() deals out.
    it.order_ = std::make_shared<const std::vector<int64_t>>(
        shuffled_indices(dataset_->size(), options_.seed(), round + 1));
  } else {
    std::vector<int64_t> order(static_cast<size_t>(dataset_->size()));
    std::iota(order.begin(), order.end(), 0);
    it.order_ = std::make_shared<const std::vector<int64_t>>(std::move(order));
  }
  it.dataset_ = dataset_;
  it.num_batches_ = size();
  it.batch_size_ = options_.batch_size();
  return it;
}

Example DataLoader::Iterator::operator*() const {
  const int64_t n = static_cast<int64_t>(order_->size());
  const int64_t begin = batch_ * batch_size_;
  const int64_t count = std::min(batch_size_, n - begin);
  return dataset_->get_batch(
      std::span(*order_).subspan(static_cast<size_t>(begin), static_cast<size_t>(count)));
}

}  // namespace weft::data
