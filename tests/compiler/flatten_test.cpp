// Leaves of arguments and results, and compile()'s handling of types, with compilation itself left out.
#include "compiler/trace/typed_callee.h"

#include <gtest/gtest.h>

#include <array>
#include <map>

#include "tests/support/error_text.h"
#include "weft.h"

namespace weft {
namespace {

using tests::error_of;

using compiler::ArgumentLeaves;
using compiler::Callee;
using compiler::NumberLeaf;
using compiler::detail::TypedCallee;

struct Inner {
  Tensor q;
  std::optional<Tensor> mask;
};
struct Batch {
  Tensor x;
  int step = 0;
  Inner inner;
  std::vector<Tensor> extra;
};
class Hidden {
 public:
  Hidden() = default;
  Hidden(Tensor a, double b) : a_(std::move(a)), b_(b) {}
  template <class V>
  void visit_members(V&& visit) {
    visit("weight", a_);
    visit(b_);
  }

 private:
  Tensor a_;
  double b_ = 0;
};
struct Twelve {
  int a, b, c, d, e, f, g, h, i, j, k;
  Tensor l;
};

// The callee of one call, as compile.h makes it. It refers to the arguments.
template <class R, class... Params>
struct Call {
  template <class... Args>
  explicit Call(std::function<R(Params...)> f, Args&... args)
      : function(std::move(f)), callee(function, {}, args...) {
    callee.collect(leaves);
  }
  std::function<R(Params...)> function;
  TypedCallee<std::function<R(Params...)>, R, Params...> callee;
  ArgumentLeaves leaves;
};

template <class T>
ArgumentLeaves leaves_of(const T& value) {
  ArgumentLeaves leaves;
  compiler::detail::CollectArguments visitor(leaves);
  compiler::walk(value, visitor);
  return leaves;
}

TEST(Flatten, FindsTensorsAndNumbersInOrder) {
  const Batch batch{ones({2}), 7, {ones({3}), ones({4})}, {ones({5}), ones({6})}};
  const auto leaves = leaves_of(batch);
  ASSERT_EQ(leaves.tensors.size(), 5u);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(leaves.tensors[i]->size(0), i + 2);
  EXPECT_EQ(leaves.tensors[0], &batch.x);
  ASSERT_EQ(leaves.numbers.size(), 1u);
  EXPECT_EQ(leaves.numbers[0].kind, NumberLeaf::Kind::Int);
  EXPECT_EQ(leaves.numbers[0].value.to_int(), 7);
}

TEST(Flatten, KnowsKindsOfNumbers) {
  const auto leaves = leaves_of(
      std::tuple(1.5f, 2, true, Scalar(2.5), Sym::from_int(9), kFloat64, static_cast<uint8_t>(200)));
  const NumberLeaf::Kind kinds[] = {NumberLeaf::Kind::Float,  NumberLeaf::Kind::Int,  NumberLeaf::Kind::Bool,
                                    NumberLeaf::Kind::Scalar, NumberLeaf::Kind::Size, NumberLeaf::Kind::Int,
                                    NumberLeaf::Kind::Int};
  ASSERT_EQ(leaves.numbers.size(), std::size(kinds));
  for (size_t i = 0; i < std::size(kinds); ++i) EXPECT_EQ(leaves.numbers[i].kind, kinds[i]) << i;
  EXPECT_EQ(leaves.numbers[6].value.to_int(), 200);
}

TEST(Flatten, StructureTellsShapesOfContainersApart) {
  using List = std::vector<Tensor>;
  const Tensor x = ones({1});
  const auto structure = [](const auto& value) { return leaves_of(value).structure; };
  EXPECT_EQ(structure(std::pair(List{x, x}, List{x})), structure(std::pair(List{x, x}, List{x})));
  EXPECT_NE(structure(std::pair(List{x, x}, List{x})), structure(std::pair(List{x}, List{x, x})));
  EXPECT_NE(structure(std::optional<Tensor>()), structure(std::optional<Tensor>(x)));
  EXPECT_NE(structure(std::string("a")), structure(std::string("b")));
  using Map = std::map<std::string, Tensor>;
  EXPECT_NE(structure(Map{{"a", x}}), structure(Map{{"b", x}}));
  EXPECT_NE(structure(Device("cuda:0")), structure(Device("cuda:1")));
  EXPECT_NE(structure(TensorOptions(kFloat32)), structure(TensorOptions(kFloat64)));
}

TEST(Flatten, ModulesAreStateToldApartByAddress) {
  nn::Linear a(2, 2), b(2, 2);
  const nn::Linear same = a;
  EXPECT_EQ(leaves_of(a).tensors.size(), 0u);
  EXPECT_EQ(leaves_of(a).structure, leaves_of(same).structure);
  EXPECT_NE(leaves_of(a).structure, leaves_of(b).structure);
  EXPECT_EQ(leaves_of(a).structure, leaves_of(a.ptr()).structure);
  EXPECT_EQ(leaves_of(a).structure, leaves_of(*a).structure);
  const nn::Linear empty{nullptr};
  EXPECT_NE(leaves_of(empty).structure, leaves_of(a).structure);
}

TEST(Flatten, CountsTwelveMembersAndVisitsPrivateOnes) {
  const Twelve twelve{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ones({3})};
  EXPECT_EQ(leaves_of(twelve).numbers.size(), 11u);
  EXPECT_EQ(leaves_of(twelve).tensors.size(), 1u);
  const Hidden hidden(ones({2}), 0.5);
  EXPECT_EQ(leaves_of(hidden).tensors.size(), 1u);
  EXPECT_EQ(leaves_of(hidden).numbers[0].kind, NumberLeaf::Kind::Float);
}

TEST(Flatten, RunReplacesEveryLeafAndKeepsTheCallers) {
  const Batch batch{ones({2}), 7, {ones({3}), std::nullopt}, {ones({5})}};
  const double factor = 2;
  Call<Tensor, const Batch&, double> call(
      [](const Batch& b, double f) { return (b.x + b.inner.q + b.extra[0]) * f * b.step; }, batch, factor);
  const Tensor given[] = {full({1}, 10.0), full({1}, 20.0), full({1}, 30.0)};
  const Scalar numbers[] = {3, 0.5};
  call.callee.run(given, numbers);
  EXPECT_EQ(call.callee.take().item<float>(), 90);
  EXPECT_EQ(batch.x.size(0), 2);
  EXPECT_EQ(batch.step, 7);
}

TEST(Flatten, GiveMakesResultsFromTheirStructure) {
  const Tensor x = ones({3});
  using Result = std::tuple<Tensor, std::vector<Tensor>, std::optional<Tensor>, double, Sym, std::string>;
  Call<Result, Tensor> call(
      [](Tensor t) {
        return Result(t, {t, t}, std::nullopt, 1.5, t.size(0), "loss");
      },
      x);
  call.callee.run_eager();
  const auto leaves = call.callee.result();
  ASSERT_EQ(leaves.tensors.size(), 3u);
  ASSERT_EQ(leaves.numbers.size(), 2u);
  EXPECT_EQ(leaves.numbers[1].kind, NumberLeaf::Kind::Size);
  const auto structure = call.callee.structure();
  EXPECT_FALSE(std::get<0>(*static_cast<const Result*>(structure.get())).defined());
  call.callee.clear();
  Tensor outputs[] = {zeros({1}), ones({1}), full({1}, 2.0)};
  const Scalar numbers[] = {2.5, 8};
  call.callee.give(structure.get(), outputs, numbers);
  const Result result = call.callee.take();
  EXPECT_EQ(std::get<1>(result)[1].item<float>(), 2);
  EXPECT_FALSE(std::get<2>(result).has_value());
  EXPECT_EQ(std::get<3>(result), 2.5);
  EXPECT_EQ(std::get<4>(result), 8);
  EXPECT_EQ(std::get<5>(result), "loss");
}

TEST(Flatten, NamesLeavesByTheirPath) {
  const std::map<std::string, Tensor> map{{"fc1.weight", ones({1})}, {"w", ones({1})}};
  const Hidden hidden(ones({2}), 0.5);
  const Batch batch{ones({1}), 1, {}, {ones({1})}};
  Call<void, const std::map<std::string, Tensor>&, Hidden, Batch> call(
      [](const auto&, const auto&, const auto&) {}, map, hidden, batch);
  const char* names[] = {"x0.fc1.weight", "x0.w", "x1.weight", "x2.0", "x2.2.0", "x2.3.0"};
  for (size_t i = 0; i < std::size(names); ++i) EXPECT_EQ(call.callee.tensor_name(i), names[i]);
  EXPECT_EQ(call.callee.number_name(0), "x1.1");
  EXPECT_EQ(call.callee.number_name(1), "x2.1");
  Call<void, Tensor> alone([](Tensor) {}, batch.x);
  EXPECT_EQ(alone.callee.tensor_name(0), "x");
}

TEST(Flatten, ReferenceArgumentsMayBeWrittenButNotReassigned) {
  Tensor x = zeros({2});
  const Tensor given[] = {zeros({2})};
  Call<void, Tensor&> writes([](Tensor& t) { t.add_(1); }, x);
  writes.callee.run(given, {});
  EXPECT_EQ(given[0].sum().item<float>(), 2);
  Call<void, Tensor&> assigns([](Tensor& t) { t = t + 1; }, x);
  EXPECT_EQ(error_of([&] { assigns.callee.run(given, {}); }),
            "compile: the function re-assigned x, a handle that it takes by reference; a later call would "
            "not do that "
            "again. Write into the tensor (x.copy_(…)) or return the new one");
  int count = 3;
  const Scalar numbers[] = {3};
  Call<void, Tensor&, int&> counts([](Tensor&, int& n) { ++n; }, x, count);
  EXPECT_EQ(
      error_of([&] { counts.callee.run(given, numbers); }),
      "compile: the function changed x1, a number that it takes by reference; a later call would not do that "
      "again. Return the new value");
  EXPECT_EQ(count, 3);
  std::vector<Tensor> list{x};
  Call<void, std::vector<Tensor>&> grows([](std::vector<Tensor>& l) { l.push_back(l[0]); }, list);
  EXPECT_NE(error_of([&] { grows.callee.run(given, {}); }).find("length or presence"), std::string::npos);
  EXPECT_EQ(list.size(), 1u);
}

TEST(Flatten, StateArgumentsAreNotCopied) {
  nn::Linear net(2, 2);
  const nn::LinearImpl* seen = nullptr;
  const Tensor x = ones({2});
  Call<void, nn::LinearImpl&, Tensor> call([&](nn::LinearImpl& m, Tensor) { seen = &m; }, *net, x);
  const Tensor given[] = {zeros({2})};
  call.callee.run(given, {});
  EXPECT_EQ(seen, net.get());
}

TEST(Flatten, SpansOfTensorsAreCopiedAsVectors) {
  const std::vector<Tensor> list{ones({1}), ones({2})};
  const std::span<const Tensor> span(list);
  Call<Tensor, std::span<const Tensor>> call([](std::span<const Tensor> all) { return all[0] + all[1]; },
                                             span);
  ASSERT_EQ(call.leaves.tensors.size(), 2u);
  EXPECT_EQ(call.leaves.tensors[1], &list[1]);
  const Tensor given[] = {full({1}, 2.0), full({1}, 3.0)};
  call.callee.run(given, {});
  EXPECT_EQ(call.callee.take().item<float>(), 5);
}

}  // namespace
}  // namespace weft
