// DataLoader: walks a dataset in batches, in a new order each time: for (auto [x, y] : loader).
// Needs dataset.h.
#pragma once

#include <iterator>
#include <memory>
#include <vector>

#include "nn/data/dataset.h"

namespace weft::data {

// DataLoaderOptions(48).shuffle(true).seed(7).drop_last(true)
class DataLoaderOptions {
 public:
  DataLoaderOptions(int64_t batch_size = 1) : batch_size_(batch_size) {}  // NOLINT

  DataLoaderOptions& batch_size(int64_t value) { return batch_size_ = value, *this; }
  DataLoaderOptions& shuffle(bool value) { return shuffle_ = value, *this; }
  DataLoaderOptions& seed(uint64_t value) { return seed_ = value, *this; }
  // Leaves out a last batch that would be smaller than the others.
  DataLoaderOptions& drop_last(bool value) { return drop_last_ = value, *this; }

  int64_t batch_size() const { return batch_size_; }
  bool shuffle() const { return shuffle_; }
  uint64_t seed() const { return seed_; }
  bool drop_last() const { return drop_last_; }

 private:
  int64_t batch_size_;
  bool shuffle_ = false, drop_last_ = false;
  uint64_t seed_ = 0;
};

// Each walk is an epoch: with shuffle its order follows from seed and epoch number, so that runs repeat. A walk covers
// every example once, drop_last apart. Walks of one loader may overlap; each has its own order.
class DataLoader {
 public:
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Example;
    using difference_type = std::ptrdiff_t;

    // Makes the batch anew at each call.
    Example operator*() const;
    Iterator& operator++() { return ++batch_, *this; }
    void operator++(int) { ++batch_; }
    bool operator==(std::default_sentinel_t) const { return batch_ == num_batches_; }

   private:
    friend class DataLoader;
    std::shared_ptr<const Dataset> dataset_;
    std::shared_ptr<const std::vector<int64_t>> order_;
    int64_t batch_ = 0, num_batches_ = 0, batch_size_ = 0;
  };

  // Errors: a batch size below 1.
  DataLoader(std::shared_ptr<const Dataset> dataset, const DataLoaderOptions& options = {});
  template <class D>
  requires std::derived_from<D, Dataset> DataLoader(D dataset, const DataLoaderOptions& options = {})
      : DataLoader(std::shared_ptr<const Dataset>(std::make_shared<D>(std::move(dataset))), options) {}

  // Begins the next epoch.
  Iterator begin();
  std::default_sentinel_t end() const { return {}; }

  // Batches in an epoch.
  int64_t size() const;
  const Dataset& dataset() const { return *dataset_; }
  const DataLoaderOptions& options() const { return options_; }
  // The number of the epoch that the next walk begins; a run that continues sets it.
  int64_t epoch() const { return epoch_; }
  void set_epoch(int64_t epoch) { epoch_ = epoch; }

 private:
  std::shared_ptr<const Dataset> dataset_;
  DataLoaderOptions options_;
  int64_t epoch_ = 0;
};

// As libtorch's samplers, which choose the order: make_data_loader<samplers::SequentialSampler>(dataset, 64).
namespace samplers {
struct RandomSampler {
  static constexpr bool shuffles = true;
};
struct SequentialSampler {
  static constexpr bool shuffles = false;
};
}  // namespace samplers

template <class Sampler = samplers::RandomSampler, class D>
std::unique_ptr<DataLoader> make_data_loader(D dataset, DataLoaderOptions options = {}) {
  return std::make_unique<DataLoader>(std::move(dataset), options.shuffle(Sampler::shuffles));
}

}  // namespace weft::data
