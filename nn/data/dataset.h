// Datasets: numbered examples that a DataLoader gathers into batches.
// Needs tensor. libtorch's torch::data with the pair {data, target} as the one kind of example.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "tensor/tensor.h"

namespace weft::data {

// `auto [x, y] = dataset.get_batch(rows)`. The target is undefined where a dataset has none.
struct Example {
  Tensor data, target;
};

// A user's dataset derives from it: size() and either get() or, where many rows come at once more cheaply, get_batch().
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  // One example, without a batch dimension. The default takes it out of a batch of one.
  virtual Example get(int64_t index) const;
  // Several, along a new first dimension. The default stacks those of get().
  virtual Example get_batch(std::span<const int64_t> indices) const;
};

// Rows of one or two tensors: example i is {data[i], target[i]}. A batch is always a copy.
class TensorDataset : public Dataset {
 public:
  // Errors: an undefined or 0-d tensor, or different numbers of rows.
  explicit TensorDataset(Tensor data, Tensor target = {});

  const Tensor& data() const { return data_; }
  const Tensor& target() const { return target_; }
  int64_t size() const override;
  Example get_batch(std::span<const int64_t> indices) const override;
  // The rows in this order; indices may repeat.
  TensorDataset subset(std::span<const int64_t> indices) const;

 private:
  Tensor data_, target_;
};

// The dataset with a function applied to each batch: map(dataset, [](Example e) { e.data = e.data / 255; return e; }).
std::shared_ptr<Dataset> map(std::shared_ptr<const Dataset> dataset,
                             std::function<Example(Example)> function);
template <class D>
requires std::derived_from<D, Dataset> std::shared_ptr<Dataset> map(
    D dataset, std::function<Example(Example)> function) {
  return map(std::shared_ptr<const Dataset>(std::make_shared<D>(std::move(dataset))), std::move(function));
}

// The numbers 0 to n - 1 in an order that depends on n, seed and round alone: Fisher and Yates over words of Philox, from
// counters that the generators of random ops never reach.
std::vector<int64_t> shuffled_indices(int64_t n, uint64_t seed, uint64_t round = 0);

// Disjoint parts of a shuffled dataset: auto [train, test] = random_split(all, {1400, 397}, seed).
// Errors: a negative size, or sizes that do not add up to the dataset's.
std::vector<TensorDataset> random_split(const TensorDataset& dataset, std::span<const int64_t> sizes,
                                        uint64_t seed);
template <size_t N>
std::array<TensorDataset, N> random_split(const TensorDataset& dataset, const int64_t (&sizes)[N],
                                          uint64_t seed) {
  std::vector<TensorDataset> parts = random_split(dataset, std::span<const int64_t>(sizes), seed);
  return [&]<size_t... I>(std::index_sequence<I...>) {
    return std::array<TensorDataset, N>{std::move(parts[I])...};
  }
  (std::make_index_sequence<N>());
}

namespace transforms {
// (x - mean) / std, for map().
struct Normalize {
  double mean, std;
  Example operator()(Example example) const {
    example.data = (example.data - mean) / std;
    return example;
  }
};
}  // namespace transforms

}  // namespace weft::data
