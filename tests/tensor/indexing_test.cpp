// x.index({…}), index_put_ and operator[].
#include <gtest/gtest.h>
#include <weft.h>

namespace weft {
namespace {

using namespace indexing;
using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;

Tensor x234() { return arange(24, kFloat32).view({2, 3, 4}); }
Floats values(const Tensor& x) { return x.to_vector<float>(); }

TEST(Indexing, SlicesNumbersAndNoneAreViews) {
  Tensor x = x234();
  Tensor v = x.index({1, Slice(0, 2), None, Slice(None, None, 2)});
  EXPECT_EQ(v.sizes(), (Ints{2, 1, 2}));
  EXPECT_EQ(v.strides(), (Ints{4, 4, 2}));  // None takes the row's extent before the last slice halves it
  EXPECT_EQ(v.storage_offset(), 12);
  EXPECT_EQ(v->storage, x->storage);
  EXPECT_EQ(values(v), (Floats{12, 14, 16, 18}));
  EXPECT_EQ(values(x.index({Ellipsis, -1})), (Floats{3, 7, 11, 15, 19, 23}));
  EXPECT_EQ(values(x.index({"...", 0, 0})), (Floats{0, 12}));
  EXPECT_EQ(x.index({None, Ellipsis, None}).sizes(), (Ints{1, 2, 3, 4, 1}));
  EXPECT_EQ(x.index({Slice(-1, None)}).sizes(), (Ints{1, 3, 4}));
  EXPECT_EQ(x.index({Slice(), Slice(1)}).sizes(), (Ints{2, 2, 4}));
  EXPECT_EQ(x.index({}).sizes(), (Ints{2, 3, 4}));
  EXPECT_FALSE(x.index({Ellipsis}).is_same(x));
  EXPECT_EQ(values(x[1][2]), (Floats{20, 21, 22, 23}));
  EXPECT_EQ(values(x.index({tensor(1), 2})), (Floats{20, 21, 22, 23}));
  EXPECT_EQ(x.index({tensor(1), 2})->storage, x->storage);
}

TEST(Indexing, TensorsGather) {
  Tensor x = x234();
  EXPECT_EQ(values(x.index({1, tensor({0, 2}), tensor({3, 1})})), (Floats{15, 21}));
  EXPECT_EQ(x.index({Slice(), tensor({0, 2})}).sizes(), (Ints{2, 2, 4}));
  EXPECT_EQ(x.index({tensor({1, 0}), Slice(0, 1), tensor({0, 1})}).sizes(), (Ints{2, 1}));
  EXPECT_EQ(values(x.index({x > 21})), (Floats{22, 23}));
  Tensor mask = tensor({{true, false, false}, {false, false, true}});
  EXPECT_EQ(x.index({mask}).sizes(), (Ints{2, 4}));
  // A mask of two dimensions stands for two: the slice behind it is that of dimension 2.
  Tensor behind = x.index({mask, Slice(1, 3)});
  EXPECT_EQ(behind.sizes(), (Ints{2, 2}));
  EXPECT_EQ(values(behind), (Floats{1, 2, 21, 22}));
  EXPECT_EQ(x.index({true}).sizes(), (Ints{1, 2, 3, 4}));
  EXPECT_EQ(x.index({false}).sizes(), (Ints{0, 2, 3, 4}));
  EXPECT_EQ(values(x.select(0, 0).select(0, 0)[tensor({3, 0})]), (Floats{3, 0}));
}

TEST(Indexing, PutWritesThrough) {
  Tensor x = zeros({2, 3});
  x.index_put_({0, Slice(1)}, 5);
  x.index_put_({Slice(), 0}, tensor({1., 2.}));
  x.index_put_({1, tensor({1, 2})}, tensor({7., 8.}));
  EXPECT_EQ(values(x), (Floats{1, 5, 5, 2, 7, 8}));
  x.index_put_({x > 6}, 0);
  EXPECT_EQ(values(x), (Floats{1, 5, 5, 2, 0, 0}));
  x.index_put_({1}, ones({1, 1, 3}));
  EXPECT_EQ(values(x), (Floats{1, 5, 5, 1, 1, 1}));
  // Case C28: everything is read before anything is stored.
  Tensor y = tensor({{3., -1.}, {5., 7.}});
  Tensor i = tensor({0, 0});
  y.index_put_({i}, y.index({i}) + y.index({i}));
  EXPECT_EQ(values(y), (Floats{6, -2, 5, 7}));
}

TEST(Indexing, MistakesAreIndexErrors) {
  Tensor x = zeros({2, 3});
  EXPECT_THROW(x.index({0, 0, 0}), IndexError);
  EXPECT_THROW(x.index({2}), IndexError);
  EXPECT_THROW(x.index({Ellipsis, Ellipsis}), Error);
  EXPECT_THROW(x.index({tensor({0.5})}), Error);
  EXPECT_THROW(x.index({tensor({5})}), IndexError);
  EXPECT_THROW(x.index({Tensor()}), Error);
  EXPECT_THROW(x.index({".."}), Error);
  EXPECT_THROW(tensor(1.)[0], IndexError);
}

TEST(Indexing, GradientsFlowThrough) {
  Tensor x = ones({2, 3}).requires_grad_();
  (x.index({Slice(), tensor({0, 0})}) * 2).sum().backward();
  EXPECT_EQ(values(x.grad()), (Floats{4, 0, 0, 4, 0, 0}));
}

}  // namespace
}  // namespace weft
