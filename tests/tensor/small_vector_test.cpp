// Tests of SmallVector: the step from inline to heap storage, ownership of its elements, aliasing arguments.
#include "tensor/base/small_vector.h"

#include <gtest/gtest.h>

#include <list>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

namespace weft {
namespace {

using Ints = SmallVector<int64_t, 4>;
using Handles = SmallVector<std::shared_ptr<int>, 2>;

TEST(SmallVector, StaysInlineUpToItsCapacity) {
  Ints v;
  for (int i = 0; i < 4; ++i) v.push_back(i);
  EXPECT_TRUE(v.is_inline());
  v.push_back(4);
  EXPECT_FALSE(v.is_inline());
  EXPECT_EQ(v, (Ints{0, 1, 2, 3, 4}));
  EXPECT_EQ(v.front(), 0);
  EXPECT_EQ(v.back(), 4);
}

TEST(SmallVector, PushBackOfAnOwnElementSurvivesGrowth) {
  SmallVector<std::string, 1> v{"a long string that does not fit into the small buffer"};
  for (int i = 0; i < 5; ++i) v.push_back(v[0]);
  for (const std::string& s : v) EXPECT_EQ(s, v[0]);
  v.assign(3, v[0]);
  EXPECT_EQ(v.size(), 3u);
  EXPECT_EQ(v[2].substr(0, 6), "a long");
}

TEST(SmallVector, InsertAndEraseKeepTheOrder) {
  Ints v{1, 2, 5};
  int64_t* at = v.insert(v.begin() + 2, 3);
  EXPECT_EQ(*at, 3);
  v.insert(v.begin() + 3, {4, 4});
  EXPECT_EQ(v, (Ints{1, 2, 3, 4, 4, 5}));
  at = v.erase(v.begin() + 3);
  EXPECT_EQ(*at, 4);
  EXPECT_EQ(v, (Ints{1, 2, 3, 4, 5}));
  v.erase(v.begin(), v.begin() + 2);
  EXPECT_EQ(v, (Ints{3, 4, 5}));
  v.erase(v.begin(), v.end());
  EXPECT_TRUE(v.empty());
}

TEST(SmallVector, ResizeFillsWithZeroOrTheValue) {
  Ints v{1};
  v.resize(3);
  v.resize(6, 9);
  EXPECT_EQ(v, (Ints{1, 0, 0, 9, 9, 9}));
  v.resize(2);
  EXPECT_EQ(v, (Ints{1, 0}));
  EXPECT_EQ(Ints(3), (Ints{0, 0, 0}));
  EXPECT_EQ(Ints(2, 7), (Ints{7, 7}));
}

TEST(SmallVector, ElementsAreReleasedExactlyOnce) {
  auto counted = std::make_shared<int>(1);
  for (int n : {1, 2, 3, 9}) {
    Handles v;
    for (int i = 0; i < n; ++i) v.push_back(counted);
    EXPECT_EQ(counted.use_count(), n + 1);
    Handles copy = v;
    EXPECT_EQ(counted.use_count(), 2 * n + 1);
    Handles moved = std::move(copy);
    EXPECT_EQ(counted.use_count(), 2 * n + 1);
    EXPECT_TRUE(copy.empty());
    moved = std::move(v);
    EXPECT_EQ(counted.use_count(), n + 1);
    Handles other{counted, nullptr};
    swap(moved, other);
    EXPECT_EQ(moved.size(), 2u);
    EXPECT_EQ(other.size(), static_cast<size_t>(n));
    other = moved;
    EXPECT_EQ(counted.use_count(), 3);
    other.pop_back();
    other.pop_back();
    EXPECT_EQ(counted.use_count(), 2);
    moved.clear();
    EXPECT_EQ(counted.use_count(), 1);
  }
  EXPECT_EQ(counted.use_count(), 1);
}

TEST(SmallVector, TakesMoveOnlyElements) {
  SmallVector<std::unique_ptr<int>, 2> v;
  for (int i = 0; i < 5; ++i) v.emplace_back(std::make_unique<int>(i));
  v.insert(v.begin(), std::make_unique<int>(-1));
  auto moved = std::move(v);
  EXPECT_EQ(*moved[0], -1);
  EXPECT_EQ(*moved[5], 4);
}

TEST(SmallVector, IsMadeFromIteratorsAndRanges) {
  std::vector<int64_t> source(7);
  std::iota(source.begin(), source.end(), 0);
  EXPECT_EQ(Ints(source), Ints(source.begin(), source.end()));
  std::list<int> narrow{1, 2, 3};
  EXPECT_EQ(Ints(narrow), (Ints{1, 2, 3}));
  Ints v;
  v = {4, 5};
  v.append(source.begin(), source.begin() + 2);
  EXPECT_EQ(v, (Ints{4, 5, 0, 1}));
  EXPECT_NE(v, (Ints{4, 5, 0}));
  EXPECT_EQ(std::vector<int64_t>(v.rbegin(), v.rend()), (std::vector<int64_t>{1, 0, 5, 4}));
}

TEST(SmallVector, SelfAssignmentChangesNothing) {
  Ints v{1, 2, 3, 4, 5};
  Ints& same = v;
  v = same;
  v = std::move(same);
  EXPECT_EQ(v, (Ints{1, 2, 3, 4, 5}));
}

}  // namespace
}  // namespace weft
