// Tests of datasets and the loader: every row once an epoch, the same order for the same seed.
#include "nn/data/data_loader.h"

#include <algorithm>
#include <set>

#include "tests/io/files.h"

namespace weft {
namespace {

// Row i of the data is {10 i, 10 i + 1}, its target is i.
data::TensorDataset numbered(int64_t n) {
  Tensor x = make_tensor({Sym::from_int(n), Sym::from_int(2)}, kFloat32);
  Tensor y = make_tensor({Sym::from_int(n)}, kInt64);
  for (int64_t i = 0; i < n; ++i) {
    data_of<float>(x)[2 * i] = static_cast<float>(10 * i);
    data_of<float>(x)[2 * i + 1] = static_cast<float>(10 * i + 1);
    data_of<int64_t>(y)[i] = i;
  }
  return data::TensorDataset(x, y);
}

// The targets of one epoch in their order; checks that each data row fits its target.
std::vector<int64_t> walk(data::DataLoader& loader, std::vector<int64_t>* batch_sizes = nullptr) {
  std::vector<int64_t> rows;
  for (auto [x, y] : loader) {
    EXPECT_EQ(int_sizes(x)[0], int_numel(y));
    if (batch_sizes) batch_sizes->push_back(int_numel(y));
    for (int64_t i = 0; i < int_numel(y); ++i) {
      const int64_t row = data_of<int64_t>(y)[i];
      EXPECT_EQ(data_of<float>(x)[2 * i], static_cast<float>(10 * row));
      EXPECT_EQ(data_of<float>(x)[2 * i + 1], static_cast<float>(10 * row + 1));
      rows.push_back(row);
    }
  }
  return rows;
}

std::vector<int64_t> count_to(int64_t n) {
  std::vector<int64_t> result(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) result[static_cast<size_t>(i)] = i;
  return result;
}

TEST(DataLoader, EachEpochCoversEveryRowOnceInANewOrder) {
  data::DataLoader loader(numbered(1000), data::DataLoaderOptions(48).shuffle(true).seed(3));
  EXPECT_EQ(loader.size(), 21);
  std::set<std::vector<int64_t>> orders;
  for (int epoch = 0; epoch < 5; ++epoch) {
    std::vector<int64_t> sizes, rows = walk(loader, &sizes);
    EXPECT_EQ(static_cast<int64_t>(sizes.size()), loader.size());
    EXPECT_EQ(sizes.back(), 1000 % 48);
    EXPECT_TRUE(std::all_of(sizes.begin(), sizes.end() - 1, [](int64_t n) { return n == 48; }));
    orders.insert(rows);
    std::sort(rows.begin(), rows.end());
    EXPECT_EQ(rows, count_to(1000));
  }
  EXPECT_EQ(orders.size(), 5u);
}

TEST(DataLoader, TheSameSeedRepeatsAndAnotherDoesNot) {
  const auto options = [](uint64_t seed) { return data::DataLoaderOptions(7).shuffle(true).seed(seed); };
  data::DataLoader a(numbered(100), options(1)), b(numbered(100), options(1)), c(numbered(100), options(2));
  const auto first = walk(a), second = walk(a);
  EXPECT_EQ(walk(b), first);
  EXPECT_EQ(walk(b), second);
  EXPECT_NE(walk(c), first);
  b.set_epoch(0);
  EXPECT_EQ(walk(b), first) << "a run that continues chooses its epoch";
}

TEST(DataLoader, WithoutShuffleRowsKeepTheirOrder) {
  data::DataLoader loader(numbered(10), 4);
  EXPECT_EQ(walk(loader), count_to(10));
  EXPECT_EQ(walk(loader), count_to(10));
}

TEST(DataLoader, DropLastLeavesOutTheShortBatch) {
  for (auto [n, batches] : {std::pair<int64_t, int64_t>{10, 2}, {8, 2}, {3, 0}}) {
    data::DataLoader loader(numbered(n), data::DataLoaderOptions(4).drop_last(true));
    EXPECT_EQ(loader.size(), batches);
    EXPECT_EQ(static_cast<int64_t>(walk(loader).size()), batches * 4);
  }
}

TEST(DataLoader, ABatchIsACopy) {
  const data::TensorDataset dataset = numbered(3);
  data::DataLoader loader(dataset, 3);
  for (auto [x, y] : loader) data_of<float>(x)[0] = 99;
  EXPECT_EQ(data_of<float>(dataset.data())[0], 0.0f);
}

TEST(DataLoader, OverlappingWalksHaveOrdersOfTheirOwn) {
  data::DataLoader loader(numbered(20), data::DataLoaderOptions(20).shuffle(true));
  auto a = loader.begin(), b = loader.begin();
  EXPECT_NE(raw_bytes((*a).target), raw_bytes((*b).target));
  EXPECT_EQ(raw_bytes((*a).target), raw_bytes((*a).target));
}

TEST(DataLoader, TakesTheSpellingOfLibtorch) {
  auto loader = data::make_data_loader<data::samplers::SequentialSampler>(numbered(5), 2);
  int64_t rows = 0;
  for (const auto& batch : *loader) rows += int_numel(batch.target);
  EXPECT_EQ(rows, 5);
  EXPECT_TRUE(data::make_data_loader(numbered(5), 2)->options().shuffle());
}

TEST(DataLoader, ABatchSizeBelowOneIsAnError) {
  EXPECT_EQ(error_of([] { data::DataLoader(numbered(3), 0); }),
            "data_loader: the batch size is 0; it must be 1 or more");
}

TEST(Shuffle, IsAPermutationThatDependsOnSeedAndRound) {
  for (int64_t n : {0, 1, 2, 3, 1000}) {
    std::vector<int64_t> order = data::shuffled_indices(n, 5);
    EXPECT_EQ(order, data::shuffled_indices(n, 5));
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, count_to(n));
  }
  EXPECT_NE(data::shuffled_indices(100, 5, 0), data::shuffled_indices(100, 5, 1));
  EXPECT_NE(data::shuffled_indices(100, 5), data::shuffled_indices(100, 6));
}

TEST(Shuffle, EveryElementReachesEveryPlaceEquallyOften) {
  constexpr int kElements = 6, kRounds = 60'000;
  int counts[kElements][kElements] = {};
  for (int round = 0; round < kRounds; ++round) {
    const auto order = data::shuffled_indices(kElements, 11, static_cast<uint64_t>(round));
    for (int place = 0; place < kElements; ++place) ++counts[place][order[static_cast<size_t>(place)]];
  }
  // 10,000 each; the standard deviation is 91.
  for (auto& row : counts)
    for (int count : row) EXPECT_NEAR(count, kRounds / kElements, 460);
}

TEST(TensorDataset, PartsOfASplitAreDisjointAndCoverAll) {
  auto [train, test] = data::random_split(numbered(50), {40, 10}, 7);
  EXPECT_EQ(train.size(), 40);
  EXPECT_EQ(test.size(), 10);
  std::vector<int64_t> rows;
  for (const auto& part : {train, test})
    rows.insert(rows.end(), data_of<int64_t>(part.target()), data_of<int64_t>(part.target()) + part.size());
  EXPECT_NE(rows, count_to(50));
  std::sort(rows.begin(), rows.end());
  EXPECT_EQ(rows, count_to(50));
  EXPECT_EQ(error_of([] {
              data::random_split(numbered(50), {40, 20}, 7);
            }),
            "random_split: the sizes [40, 20] do not add up to the 50 examples of the dataset");
  EXPECT_EQ(error_of([] {
              data::random_split(numbered(50), {40, 5}, 7);
            }),
            "random_split: the sizes [40, 5] add up to 45, but the dataset has 50 examples");
}

TEST(TensorDataset, SaysWhatDoesNotFit) {
  const Tensor x = counting_tensor({3, 2}, kFloat32), y = counting_tensor({4}, kInt64);
  EXPECT_EQ(error_of([&] { data::TensorDataset(x, y); }),
            "tensor_dataset: the data [3, 2] and the target [4] have different numbers of rows");
  EXPECT_EQ(error_of([&] { data::TensorDataset{Tensor()}; }), "tensor_dataset: the data is undefined");
  const std::vector<int64_t> outside = {0, 3};
  EXPECT_EQ(error_of([&] { data::TensorDataset(x).get_batch(outside); }),
            "get_batch: index 3 is out of range; the dataset has 3 examples, numbered from 0");
  const std::vector<int64_t> rows = {2, 0, 2};
  const data::Example batch = data::TensorDataset(x).get_batch(rows);
  EXPECT_FALSE(batch.target.defined());
  EXPECT_TRUE(batch.data.sizes() == (std::vector<int64_t>{3, 2}));
}

TEST(Dataset, OneThatGivesNothingIsAnErrorNotARecursion) {
  struct Nothing : data::Dataset {
    int64_t size() const override { return 1; }
  };
  const std::vector<int64_t> rows = {0};
  EXPECT_EQ(error_of([&] { Nothing().get_batch(rows); }),
            "dataset: it overrides neither get() nor get_batch(); it must give one of them");
}

TEST(Dataset, SingleExamplesAreStackedToABatch) {
  // Windows of three numbers; the target is the number that follows.
  struct Windows : data::Dataset {
    int64_t size() const override { return 10; }
    data::Example get(int64_t index) const override {
      Tensor x = make_tensor({Sym::from_int(3)}, kInt64), y = make_tensor({}, kInt64);
      for (int64_t i = 0; i < 3; ++i) data_of<int64_t>(x)[i] = index + i;
      *data_of<int64_t>(y) = index + 3;
      return {x, y};
    }
  };
  data::DataLoader loader(Windows(), 4);
  std::vector<int64_t> targets;
  for (auto [x, y] : loader) {
    ASSERT_EQ(x.dim(), 2);
    ASSERT_EQ(y.dim(), 1);
    for (int64_t i = 0; i < y.size(0); ++i) {
      EXPECT_EQ(data_of<int64_t>(x)[3 * i + 2] + 1, data_of<int64_t>(y)[i]);
      targets.push_back(data_of<int64_t>(y)[i]);
    }
  }
  EXPECT_EQ(targets, (std::vector<int64_t>{3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
}

TEST(Dataset, ARowIsABatchOfOneWithoutItsDimension) {
  const auto [x, y] = numbered(5).get(3);
  EXPECT_TRUE(x.sizes() == (std::vector<int64_t>{2}));
  EXPECT_EQ(y.dim(), 0);
  EXPECT_EQ(y.item<int64_t>(), 3);
}

TEST(Dataset, NormalizeShiftsAndScales) {
  const auto dataset = data::map(numbered(3), data::transforms::Normalize{10, 2});
  const std::vector<int64_t> rows = {2};
  EXPECT_EQ(dataset->get_batch(rows).data.to_vector<float>(), (std::vector<float>{5, 5.5f}));
}

TEST(TensorDataset, AStridedTensorIsReadByItsRows) {
  const Tensor x = counting_tensor({2, 3}, kInt16), turned = x.t();
  const std::vector<int64_t> rows = {2, 0};
  const int16_t* v = data_of<int16_t>(x);
  EXPECT_EQ(data::TensorDataset(turned).get_batch(rows).data.to_vector<int16_t>(),
            (std::vector<int16_t>{v[2], v[5], v[0], v[3]}));
}

TEST(Dataset, MapChangesEachBatch) {
  int calls = 0;
  data::DataLoader loader(data::map(numbered(4),
                                    [&](data::Example e) {
                                      ++calls;
                                      data_of<float>(e.data)[0] = -1;
                                      return e;
                                    }),
                          2);
  for (auto [x, y] : loader) EXPECT_EQ(data_of<float>(x)[0], -1.0f);
  EXPECT_EQ(calls, 2);
}

}  // namespace
}  // namespace weft
