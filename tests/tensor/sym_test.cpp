// Sizes as libtorch programs use them. Most of this is a test by compiling; docs/idioms.md lists what cannot work.
#include <gtest/gtest.h>
#include <weft.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <sstream>

namespace weft {
namespace {

int64_t takes_int64(int64_t n) { return n; }
int takes_int(int n) { return n; }
double takes_double(double x) { return x; }

TEST(Sym, StandsWhereASizeIsExpected) {
  Tensor x = zeros({4, 6}), y = zeros({4, 6});
  int64_t n = x.size(0);
  int m = x.size(1);
  size_t u = x.size(1);
  long l = (long)x.size(0);
  const auto kept = x.size(0);
  EXPECT_EQ(n, 4);
  EXPECT_EQ(m, 6);
  EXPECT_EQ(u, 6u);
  EXPECT_EQ(l, 4);
  EXPECT_EQ(kept, 4);
  EXPECT_EQ(takes_int64(x.size(0)), 4);
  EXPECT_EQ(takes_int(x.size(0)), 4);
  EXPECT_EQ(takes_double(x.size(0)), 4.0);
  n += x.size(0);
  n = n * x.size(1);
  EXPECT_EQ(n, 48);

  EXPECT_EQ(x.size(0) * 2, 8);
  EXPECT_EQ(2 * x.size(0) + 1, 9);
  EXPECT_EQ(x.size(0) - x.size(1), -2);
  EXPECT_EQ(x.size(1) / x.size(0), 1);
  EXPECT_EQ(x.size(1) % 4, 2);
  EXPECT_EQ(-x.size(0), -4);
  EXPECT_EQ(static_cast<double>(1.0 / x.size(0)), 0.25);
  EXPECT_EQ(static_cast<float>(x.size(0)) / 8, 0.5f);
  EXPECT_EQ(std::sqrt(static_cast<double>(x.size(0))), 2.0);
  EXPECT_EQ(x.numel() / x.size(0), 6);

  EXPECT_TRUE(x.size(0) == 4 && x.size(0) != 5 && x.size(0) < 5 && x.size(0) <= 4 && 5 > x.size(0) &&
              x.size(1) >= n / 8);
  EXPECT_TRUE(x.size(0) == y.size(0));
  EXPECT_TRUE(x.sizes() == y.sizes());
  EXPECT_TRUE(x.sizes() == (std::vector<int64_t>{4, 6}));
  if (x.size(0)) n = 1;
  EXPECT_EQ(x.size(0) > 3 ? 1 : 0, 1);
  EXPECT_EQ(std::max<int64_t>(x.size(0), 5), 5);
  EXPECT_EQ(std::min<int64_t>(x.size(0), x.size(1)), 4);
  switch (x.size(0)) {
    case 4: n = 7; break;
    default: n = 0; break;
  }
  EXPECT_EQ(n, 7);
}

TEST(Sym, DrivesLoopsAndContainers) {
  Tensor x = zeros({4, 6});
  int64_t count = 0;
  for (int64_t i = 0; i < x.size(0); ++i) ++count;
  for (int i = 0; i < x.size(1); i++) ++count;
  for (auto i = x.size(0) - 1; i >= 0; i -= 1) ++count;
  for (auto size : x.sizes()) count += size;
  EXPECT_EQ(count, 4 + 6 + 4 + 10);
  std::vector<int64_t> v{x.size(0), 3};
  EXPECT_EQ(v[0], 4);
  v.push_back(x.size(1));
  std::vector<int64_t> sizes = x.sizes();
  EXPECT_EQ(sizes, (std::vector<int64_t>{4, 6}));
  EXPECT_EQ(x.sizes().vec(), sizes);
  std::vector<float> buffer(x.size(0));
  EXPECT_EQ(buffer.size(), 4u);
  std::array<float, 6> fixed{};
  EXPECT_EQ(fixed[x.size(0)], 0.f);
  EXPECT_EQ(std::accumulate(sizes.begin(), sizes.end(), int64_t{0}), 10);
  auto [b, c] = std::make_tuple(x.size(0), x.size(1));
  EXPECT_EQ(b * c, 24);
  const int64_t rows = x.size(0), columns = x.size(-1);
  EXPECT_EQ(rows * columns, 24);
}

TEST(Sym, MakesShapes) {
  Tensor x = zeros({4, 6});
  EXPECT_EQ(x.view({x.size(0), -1}).size(1), 6);
  EXPECT_EQ(x.view({x.size(0) * x.size(1)}).size(0), 24);
  EXPECT_EQ(x.reshape({2, x.size(0) / 2, -1}).dim(), 3);
  EXPECT_EQ(zeros({x.size(1), 2}).size(0), 6);
  EXPECT_EQ(zeros(x.sizes()).size(1), 6);
  EXPECT_EQ(x.expand({3, x.size(0), x.size(1)}).size(0), 3);
  EXPECT_EQ(x.narrow(1, 1, x.size(1) - 1).size(1), 5);
  EXPECT_EQ(x.slice(0, x.size(0) - 1).size(0), 1);
  EXPECT_EQ(arange(x.size(0)).size(0), 4);
  std::vector<int64_t> target = {x.size(1), x.size(0)};
  EXPECT_EQ(x.reshape(target).size(0), 6);
  Tensor scaled = x * (1.0 / x.size(0)) + x.size(1);
  EXPECT_EQ(scaled[0][0].item<float>(), 6.f);
}

TEST(Sym, Prints) {
  Tensor x = zeros({4, 6});
  std::ostringstream out;
  out << x.size(0) << ' ' << x.sizes();
  EXPECT_EQ(out.str(), "4 [4, 6]");
  EXPECT_EQ(std::to_string(int64_t{x.size(0)}), "4");
  EXPECT_EQ(std::to_string(takes_int64(x.size(1))), "6");
  char text[32];
  std::snprintf(text, sizeof(text), "%ld", (long)x.size(0));
  EXPECT_STREQ(text, "4");
}

}  // namespace
}  // namespace weft
