// Datasets: rows are copied by a loop of their own, since a batch of small rows is cheaper than one op's bookkeeping.
#include "nn/data/dataset.h"

#include <cstring>
#include <numeric>

#include "tensor/cpu/parallel.h"
#include "tensor/dispatch.h"
#include "tensor/random/philox.h"

namespace weft::data {

namespace {

void check_indices(std::span<const int64_t> indices, int64_t size) {
  for (int64_t index : indices)
    if (index < 0 || index >= size) [[unlikely]]
      throw IndexError(weft::detail::concat("get_batch: index ", index, " is out of range; the dataset has ",
                                            size, " examples, numbered from 0"));
}

// Indices are in range.
Tensor gather_rows(const Tensor& x, std::span<const int64_t> indices) {
  if (!x.defined()) return {};
  if (!x.is_cpu()) {
    Tensor rows = make_tensor({Sym::from_int(static_cast<int64_t>(indices.size()))}, kInt64);
    std::copy(indices.begin(), indices.end(), data_of<int64_t>(rows));
    return index_select(x, 0, rows.to(x.device()));
  }
  Sizes sizes(x->layout.sizes);
  sizes[0] = Sym::from_int(static_cast<int64_t>(indices.size()));
  Tensor batch = make_tensor(sizes, x.dtype());
  const size_t row_bytes = indices.empty() ? 0 : batch.nbytes() / indices.size();
  if (row_bytes == 0) return batch;
  // About 32 KB are worth a thread.
  const int64_t grain = std::max<int64_t>(1, static_cast<int64_t>(32768 / row_bytes));
  parallel_for(
      static_cast<int64_t>(indices.size()), grain,
      [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
          std::memcpy(bytes_of(batch) + static_cast<size_t>(i) * row_bytes,
                      bytes_of(x) + static_cast<size_t>(indices[static_cast<size_t>(i)]) * row_bytes,
                      row_bytes);
      },
      1);
  return batch;
}

// The dataset whose get() is being stacked on this thread: the two defaults call each other.
thread_local const Dataset* stacking = nullptr;
struct Stacking {
  explicit Stacking(const Dataset* dataset) : before(stacking) { stacking = dataset; }
  ~Stacking() { stacking = before; }
  const Dataset* before;
};

class MapDataset : public Dataset {
 public:
  MapDataset(std::shared_ptr<const Dataset> dataset, std::function<Example(Example)> function)
      : dataset_(std::move(dataset)), function_(std::move(function)) {}
  int64_t size() const override { return dataset_->size(); }
  Example get_batch(std::span<const int64_t> indices) const override {
    return function_(dataset_->get_batch(indices));
  }

 private:
  std::shared_ptr<const Dataset> dataset_;
  std::function<Example(Example)> function_;
};

}  // namespace

Example Dataset::get(int64_t index) const {
  WEFT_CHECK(stacking != this,
             "dataset: it overrides neither get() nor get_batch(); it must give one of them");
  const Example batch = get_batch({&index, 1});
  return {batch.data.select(0, 0), batch.target.defined() ? batch.target.select(0, 0) : Tensor()};
}

Example Dataset::get_batch(std::span<const int64_t> indices) const {
  check_indices(indices, size());
  WEFT_CHECK(!indices.empty(),
             "get_batch: a batch of no examples has no shape; this dataset makes single examples");
  const Stacking guard(this);
  std::vector<Tensor> data, target;
  for (int64_t index : indices) {
    Example example = get(index);
    data.push_back(std::move(example.data));
    if (example.target.defined()) target.push_back(std::move(example.target));
  }
  WEFT_CHECK(target.empty() || target.size() == data.size(), "get_batch: ", target.size(), " of ",
             data.size(), " examples have a target; either all have one or none");
  return {stack(data), target.empty() ? Tensor() : stack(target)};
}

TensorDataset::TensorDataset(Tensor data, Tensor target)
    : data_(std::move(data)), target_(std::move(target)) {
  WEFT_CHECK(data_.defined(), "tensor_dataset: the data is undefined");
  WEFT_CHECK(data_.dim() > 0,
             "tensor_dataset: the data is a single number; its first dimension counts the examples");
  if (target_.defined())
    WEFT_CHECK(target_.dim() > 0 && target_.size(0) == data_.size(0), "tensor_dataset: the data ",
               data_.sizes(), " and the target ", target_.sizes(), " have different numbers of rows");
  // Rows are copied as pieces of memory.
  for (Tensor* x : {&data_, &target_})
    if (x->defined() && x->is_cpu() && !x->is_contiguous()) {
      Tensor copy = make_tensor((*x)->layout.sizes, x->dtype());
      copy_data(*x, copy);
      *x = copy;
    }
}

int64_t TensorDataset::size() const { return data_.size(0); }

Example TensorDataset::get_batch(std::span<const int64_t> indices) const {
  check_indices(indices, size());
  return {gather_rows(data_, indices), gather_rows(target_, indices)};
}

TensorDataset TensorDataset::subset(std::span<const int64_t> indices) const {
  Example rows = get_batch(indices);
  return TensorDataset(std::move(rows.data), std::move(rows.target));
}

std::shared_ptr<Dataset> map(std::shared_ptr<const Dataset> dataset,
                             std::function<Example(Example)> function) {
  return std::make_shared<MapDataset>(std::move(dataset), std::move(function));
}

std::vector<int64_t> shuffled_indices(int64_t n, uint64_t seed, uint64_t round) {
  WEFT_CHECK(n >= 0, "shuffled_indices: n is ", n, "; it must not be negative");
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  // The upper half of the counter is zero in the streams of random ops and the round + 1 here.
  const auto block = [&](uint64_t i) {
    const uint64_t stream = round + 1;
    return philox4x32({{static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32),
                        static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)}},
                      static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
  };
  Philox4 words{};
  for (int64_t i = n - 1, drawn = 0; i > 0; --i, ++drawn) {
    const int lane = static_cast<int>(drawn % 2 * 2);
    if (lane == 0) words = block(static_cast<uint64_t>(drawn) / 2);
    const uint64_t word = uint64_t{words.v[lane + 1]} << 32 | words.v[lane];
    std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(philox_randint(word, 0, i + 1))]);
  }
  return order;
}

std::vector<TensorDataset> random_split(const TensorDataset& dataset, std::span<const int64_t> sizes,
                                        uint64_t seed) {
  int64_t total = 0;
  for (int64_t size : sizes) {
    WEFT_CHECK(size >= 0 && size <= dataset.size() - total, "random_split: the sizes ", DimList(sizes),
               " do not add up to the ", dataset.size(), " examples of the dataset");
    total += size;
  }
  WEFT_CHECK(total == dataset.size(), "random_split: the sizes ", DimList(sizes), " add up to ", total,
             ", but the dataset has ", dataset.size(), " examples");
  const std::vector<int64_t> order = shuffled_indices(dataset.size(), seed);
  std::vector<TensorDataset> parts;
  std::span<const int64_t> rest = order;
  for (int64_t size : sizes) {
    parts.push_back(dataset.subset(rest.first(static_cast<size_t>(size))));
    rest = rest.subspan(static_cast<size_t>(size));
  }
  return parts;
}

}  // namespace weft::data
