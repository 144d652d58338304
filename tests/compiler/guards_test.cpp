// GuardBlock: what it lets through, what it refuses, and the words for it.
#include "compiler/trace/guards.h"

#include <gtest/gtest.h>

#include <cmath>

#include "weft.h"

namespace weft::compiler {
namespace {

// Names leaves "x0", "x1", … and is never run.
class Names final : public Callee {
 public:
  void run(std::span<const Tensor>, std::span<const Scalar>) override {}
  void run_eager() override {}
  ResultLeaves result() const override { return {}; }
  std::shared_ptr<const void> structure() const override { return nullptr; }
  void clear() override {}
  void give(const void*, std::span<Tensor>, std::span<const Scalar>) override {}
  std::string tensor_name(size_t leaf) const override { return "x" + std::to_string(leaf); }
  std::string number_name(size_t leaf) const override { return "n" + std::to_string(leaf); }
};

ArgumentLeaves leaves_of(const std::vector<Tensor>& tensors, std::vector<NumberLeaf> numbers = {}) {
  ArgumentLeaves leaves;
  for (const Tensor& x : tensors) leaves.tensors.push_back(&x);
  for (const NumberLeaf& n : numbers) leaves.numbers.push_back(n);
  return leaves;
}

// All sizes and strides fixed, as a trace without dynamic dimensions leaves them.
GuardFacts facts_of(const std::vector<Tensor>& tensors, std::vector<NumberLeaf> numbers = {}) {
  GuardFacts facts(leaves_of(tensors, numbers), Names());
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined()) continue;
    facts.tensors[i].is_used = true;
    for (int64_t d = 0; d < tensors[i].dim(); ++d) {
      facts.tensors[i].sizes.push_back({true, tensors[i].size(d), {}});
      facts.tensors[i].strides.push_back({true, tensors[i].stride(d), {}});
    }
  }
  return facts;
}

// "" where the guards hold. check() and first_failure() must agree.
std::string failure_of(const GuardBlock& block, const ArgumentLeaves& leaves,
                       uint64_t word = current_global_word()) {
  std::vector<int64_t> symbols(block.num_symbols());
  const auto failure = block.first_failure(leaves, word);
  EXPECT_EQ(block.check(leaves, word, symbols), !failure.has_value());
  return failure ? failure->text : "";
}
std::string failure_of(const GuardBlock& block, const std::vector<Tensor>& tensors) {
  return failure_of(block, leaves_of(tensors));
}

TEST(Guards, HoldForTheTracedCall) {
  const std::vector<Tensor> tensors{ones({2, 3}), Tensor(), ones({})};
  EXPECT_EQ(failure_of(GuardBlock(facts_of(tensors)), tensors), "");
  EXPECT_EQ(failure_of(GuardBlock(facts_of(tensors)), {zeros({2, 3}), Tensor(), zeros({})}), "");
}

TEST(Guards, SayWhatDiffers) {
  const Tensor x = ones({64, 4});
  const GuardBlock block(facts_of({x}));
  EXPECT_EQ(failure_of(block, {ones({17, 4})}), "x0.size(0) was 64, is 17");
  EXPECT_EQ(failure_of(block, {ones({4, 64}).t()}), "x0.stride(0) was 4, is 1");
  EXPECT_EQ(failure_of(block, {ones({64, 4}, kFloat64)}), "x0.dtype() was float32, is float64");
  EXPECT_EQ(failure_of(block, {ones({64})}), "x0.dim() was 2, is 1");
  EXPECT_EQ(failure_of(block, {Tensor()}), "x0 was defined, is undefined");
  EXPECT_EQ(failure_of(GuardBlock(facts_of({Tensor()})), {x}), "x0 was undefined, is defined");
  ArgumentLeaves other = leaves_of({});
  EXPECT_NE(failure_of(block, other).find("other lengths of lists"), std::string::npos);
}

TEST(Guards, NameWhoFixedADimension) {
  const SourceLocation here = SourceLocation::current();
  GuardFacts facts(leaves_of({ones({120})}), Names());
  facts.tensors[0].sizes.push_back({true, 120, {here, nullptr}});
  const std::string where = weft::to_string(here);
  const GuardBlock block(facts);
  EXPECT_EQ(failure_of(block, {ones({121})}), "x0.size(0) was 120, is 121 (fixed at " + where + ")");
  const auto lines = block.facts().describe();
  EXPECT_EQ(lines[0], "x0: float32 on cpu of 1 dimension, not used");
  EXPECT_EQ(lines[1], "dim 0 of x0 fixed at 120 at " + where);
  const auto failure = block.first_failure(leaves_of({ones({121})}), current_global_word());
  EXPECT_EQ(failure->field, GuardFailure::Field::Size);
  EXPECT_EQ(failure->expected, 120);
  EXPECT_EQ(failure->got, 121);
  EXPECT_EQ(failure->place.where.line(), here.line());
}

TEST(Guards, UnreadInputDoesNotRetrace) {
  const GuardBlock block(GuardFacts(leaves_of({ones({3}), ones({4})}), Names()));
  for (int64_t size : {6, 0, 1}) EXPECT_EQ(failure_of(block, {ones({3}), ones({size})}), "");
}

TEST(Guards, RequiresGradCountsOnlyWhereItMatters) {
  const Tensor x = ones({2}), with_grad = ones({2}, requires_grad());
  GuardFacts facts = facts_of({x});
  EXPECT_EQ(failure_of(GuardBlock(facts), {with_grad}), "");
  facts.tensors[0].requires_grad = false;
  EXPECT_EQ(failure_of(GuardBlock(facts), {with_grad}), "x0.requires_grad() was false, is true");
}

TEST(Guards, AlignmentCountsOnlyWhereItMatters) {
  const Tensor x = ones({9});
  const Tensor odd = x.slice(0, 1, 9), even = x.slice(0, 0, 8);
  GuardFacts facts = facts_of({even});
  EXPECT_EQ(failure_of(GuardBlock(facts), {odd}), "");
  facts.tensors[0].is_aligned = true;
  EXPECT_EQ(failure_of(GuardBlock(facts), {even}), "");
  EXPECT_EQ(failure_of(GuardBlock(facts), {odd}),
            "the data of x0 started at a multiple of 16 bytes, does not now");
}

TEST(Guards, NumbersByTheirBits) {
  using Kind = NumberLeaf::Kind;
  const auto numbers = [](double f, int64_t i, bool b, double s) {
    return leaves_of({}, {{Kind::Float, f}, {Kind::Int, i}, {Kind::Bool, b}, {Kind::Scalar, s}});
  };
  const GuardBlock block(GuardFacts(numbers(0.0, 3, true, 1.0), Names()));
  EXPECT_EQ(failure_of(block, numbers(0.0, 3, true, 2.0)), "");
  EXPECT_EQ(failure_of(block, numbers(-0.0, 3, true, 1.0)), "n0 was 0, is -0");
  EXPECT_EQ(failure_of(block, numbers(0.0, 4, true, 1.0)), "n1 was 3, is 4");
  EXPECT_EQ(failure_of(block, numbers(0.0, 3, false, 1.0)), "n2 was true, is false");
  const GuardBlock nan(GuardFacts(numbers(std::nan(""), 0, true, 1), Names()));
  EXPECT_EQ(failure_of(nan, numbers(std::nan(""), 0, true, 1)), "");
}

TEST(Guards, GlobalsCountOnlyWhereTheyMatter) {
  GuardFacts facts(leaves_of({}), Names());
  const NoGradGuard no_grad;
  EXPECT_EQ(failure_of(GuardBlock(facts), leaves_of({})), "");
  facts.global_mask |= kGradModeBits;
  EXPECT_EQ(failure_of(GuardBlock(facts), leaves_of({})), "grad mode was on, is off");
  set_default_dtype(kFloat64);
  const uint64_t word = current_global_word();
  set_default_dtype(kFloat32);
  facts.global_mask = kDefaultDTypeBits;
  EXPECT_EQ(failure_of(GuardBlock(facts), leaves_of({}), word), "the default dtype was float32, is float64");
}

// As after a trace in which the first tensor is written.
GuardBlock block_that_writes_first(const std::vector<Tensor>& tensors) {
  GuardFacts facts = facts_of(tensors);
  facts.tensors[0].is_written = true;
  facts.add_overlaps(leaves_of(tensors));
  return GuardBlock(std::move(facts));
}

TEST(Guards, SharedMemoryIsFreeWhereNothingIsWritten) {
  const Tensor x = ones({4});
  EXPECT_EQ(failure_of(GuardBlock(facts_of({x, ones({4})})), {x, x}), "");
}

TEST(Guards, SharedMemoryCountsWhereOneTensorIsWritten) {
  const Tensor whole = ones({8});
  const Tensor low = whole.slice(0, 0, 4), high = whole.slice(0, 4, 8), middle = whole.slice(0, 2, 6);
  const GuardBlock apart = block_that_writes_first({ones({4}), ones({4})});
  EXPECT_EQ(failure_of(apart, {low, high}), "");  // halves of one storage do not meet
  EXPECT_EQ(failure_of(apart, {low, middle}),
            "x0 and x1 did not share memory, do now, and the function writes to it");
  EXPECT_EQ(failure_of(apart, {low, low}),
            "x0 and x1 did not share memory, do now, and the function writes to it");
  const GuardBlock shared = block_that_writes_first({low, middle});
  EXPECT_EQ(failure_of(shared, {low, middle}), "");
  EXPECT_EQ(failure_of(shared, {middle, high}), "");
  EXPECT_EQ(failure_of(shared, {low, high}),
            "x0 and x1 shared memory that the function writes to, do not now");
  EXPECT_EQ(failure_of(shared, {low, low}), "x0 and x1 shared memory at another distance");
  // Two wrappers of the same memory are different storages.
  float data[4] = {};
  EXPECT_NE(failure_of(apart, {from_blob(data, {4}), from_blob(data, {4})}), "");
}

TEST(Guards, SharedMemoryIsFoundAmongManyTensors) {
  for (size_t count : {9, 100, 3000}) {
    std::vector<Tensor> tensors;
    for (size_t i = 0; i < count; ++i) tensors.push_back(zeros({2}));
    const GuardBlock block = block_that_writes_first(tensors);
    EXPECT_EQ(failure_of(block, tensors), "");
    std::vector<Tensor> read_twice = tensors;
    read_twice[3] = read_twice[5];
    EXPECT_EQ(failure_of(block, read_twice), "");
    std::vector<Tensor> written = tensors;
    written[7] = written[0].view({2});
    EXPECT_EQ(failure_of(block, written),
              "x0 and x7 did not share memory, do now, and the function writes to it");
  }
}

TEST(Guards, ArgumentsMayNotLieOnCapturedTensorsThatAreWritten) {
  const Tensor weight = zeros({4}), bias = zeros({4});
  GuardFacts facts = facts_of({ones({4})});
  facts.captured = {{"weight", weight.impl(), true, false}, {"bias", bias.impl(), false, false}};
  const GuardBlock block(facts);
  EXPECT_EQ(failure_of(block, {ones({4})}), "");
  EXPECT_EQ(failure_of(block, {bias}), "");
  EXPECT_EQ(failure_of(block, {weight}),
            "x0 and weight did not share memory, do now, and the function writes to it");
}

TEST(Guards, OneObjectTwiceCountsWhereItsGradientIsWritten) {
  const Tensor x = ones({4}), y = ones({4});
  GuardFacts facts = facts_of({x, y});
  facts.tensors[0].is_grad_written = facts.tensors[1].is_grad_written = true;
  const GuardBlock block(facts);
  EXPECT_EQ(failure_of(block, {x, y}), "");
  EXPECT_EQ(failure_of(block, {x, x.view({4})}), "");
  EXPECT_NE(failure_of(block, {x, x}), "");
}

// A trace of a function of x [n, 3] and y, with dimension 0 of x symbolic.
struct SymbolicTrace {
  std::shared_ptr<Expressions> tables = std::make_shared<Expressions>();
  ShapeEnv shapes{tables->syms};
  std::vector<Tensor> tensors{ones({64, 3}), ones({64})};
  Layout<Sym> x, y;

  SymbolicTrace() {
    const DimPolicy policies[] = {{DimPolicy::Kind::Dynamic, {}}, {}};
    const int64_t sizes[] = {64, 3}, strides[] = {3, 1}, size[] = {64}, stride[] = {1};
    x = shapes.add_layout(0, sizes, strides, policies);
    y = shapes.add_layout(1, size, stride, {policies, 1});
  }
  GuardBlock guards() const {
    GuardFacts facts(leaves_of(tensors), Names());
    facts.add_shapes(shapes, tables);
    return GuardBlock(std::move(facts));
  }
};

TEST(Guards, SymbolsTakeTheSizesOfTheCall) {
  SymbolicTrace trace;
  trace.shapes.settle(trace.x);
  const GuardBlock block = trace.guards();
  std::vector<int64_t> symbols(block.num_symbols());
  const std::vector<Tensor> call{ones({17, 3}), ones({5})};
  EXPECT_TRUE(block.check(leaves_of(call), current_global_word(), symbols));
  EXPECT_EQ(trace.tables->syms.evaluate(trace.x.sizes[0], symbols), 17);
  EXPECT_EQ(failure_of(block, {ones({17, 4}), ones({5})}), "x0.size(1) was 3, is 4");
  EXPECT_NE(failure_of(block, {ones({1, 3}), ones({5})}), "");
  EXPECT_NE(failure_of(block, {ones({3, 17}).t(), ones({5})}), "");
  // The rows of a wider tensor have another stride than their sizes say.
  EXPECT_NE(failure_of(block, {ones({17, 8}).slice(1, 0, 3), ones({5})}), "");
}

TEST(Guards, SymbolicFactsAreCheckedAndSaid) {
  SymbolicTrace trace;
  trace.shapes.set_place({SourceLocation::current(), nullptr});
  EXPECT_TRUE(trace.shapes.compare(SymCompare::Eq, trace.x.sizes[0], trace.y.sizes[0]));
  const GuardBlock block = trace.guards();
  EXPECT_EQ(failure_of(block, {ones({9, 3}), ones({9})}), "");
  const auto failure = block.first_failure(leaves_of({ones({9, 3}), ones({8})}), current_global_word());
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->field, GuardFailure::Field::Symbolic);
  EXPECT_NE(failure->text.find("guards_test.cpp"), std::string::npos);
  std::string lines;
  for (const std::string& each : block.facts().describe()) lines += each + "\n";
  EXPECT_NE(lines.find("s0 is x0.size(0)\n"), std::string::npos) << lines;
}

}  // namespace
}  // namespace weft::compiler
