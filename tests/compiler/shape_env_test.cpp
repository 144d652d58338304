// ShapeEnv and SymGuardProgram: what a trace asks of sizes, what it relies on, and how a call checks that.
#include "compiler/trace/shape_env.h"

#include <gtest/gtest.h>

#include "compiler/trace/sym_guards.h"
#include "tensor/op.h"

namespace weft::compiler {
namespace {

constexpr DimPolicy kStatic = {};
constexpr DimPolicy kDynamic = {DimPolicy::Kind::Dynamic, {}};
constexpr DimPolicy declared(int64_t min, int64_t max) { return {DimPolicy::Kind::Declared, {min, max}}; }

bool same(Sym a, Sym b) { return __builtin_memcmp(&a, &b, sizeof a) == 0; }

struct ShapeEnvTest : testing::Test {
  std::shared_ptr<Expressions> tables = std::make_shared<Expressions>();
  ShapeEnv env{tables->syms};
  SymEnvironment* outer = current_sym_environment();
  ShapeEnvTest() { current_sym_environment() = &env; }
  ~ShapeEnvTest() override { current_sym_environment() = outer; }

  Sym size(uint32_t leaf, int64_t value, const DimPolicy& policy) {
    return env.add({SymbolSource::Kind::Size, leaf, 0}, value, policy);
  }
  Layout<Sym> layout(uint32_t leaf, std::vector<int64_t> sizes, std::vector<int64_t> strides,
                     std::vector<DimPolicy> policies, uint64_t dynamic_strides = 0) {
    return env.add_layout(leaf, sizes, strides, policies, dynamic_strides);
  }
  // "s0 == s1; s0 % 8 == 0", and what was fixed: "arg0.size(0) = 4".
  std::string guards() {
    std::string text;
    for (const SymGuard& guard : env.guards())
      text += (text.empty() ? "" : "; ") + tables->syms.to_string(guard.a) + " " + name_of(guard.op) + " " +
              tables->syms.to_string(guard.b);
    return text;
  }
  std::string fixed() {
    static constexpr const char* kinds[] = {"size", "stride", "number", "result"};
    std::string text;
    for (const FixedValue& value : env.fixed())
      text += (text.empty() ? "" : "; ") + std::to_string(value.source.leaf) + "." +
              kinds[static_cast<size_t>(value.source.kind)] + "(" + std::to_string(value.source.dim) +
              ") = " + std::to_string(value.value);
    return text;
  }
};

TEST_F(ShapeEnvTest, PlaceholdersSettleOnUseAndOnce) {
  const Sym a = size(0, 4, kStatic), b = size(1, 5, kStatic), c = size(2, 6, kStatic);
  EXPECT_TRUE(env.is_placeholder(a));
  EXPECT_EQ(hint_of(a), 4);
  EXPECT_FALSE(statically_known(SymCompare::Eq, a, Sym::from_int(4)));
  EXPECT_TRUE(statically_known(SymCompare::Eq, a, a));
  EXPECT_TRUE(statically_known(SymCompare::Ge, a, Sym::from_int(0)));
  EXPECT_TRUE(a >= 0);
  EXPECT_EQ(env.expression(a), "4");
  EXPECT_EQ(fixed(), "");

  EXPECT_TRUE(same(a + 1, Sym::from_int(5)));
  EXPECT_EQ(fixed(), "0.size(0) = 4");
  EXPECT_FALSE(env.is_placeholder(a));
  EXPECT_FALSE(a == b);
  EXPECT_TRUE(a == 4);
  EXPECT_EQ(static_cast<int64_t>(b), 5);
  EXPECT_EQ(fixed(), "0.size(0) = 4; 1.size(0) = 5");
  EXPECT_TRUE(same(env.settle(c), Sym::from_int(6)));
  EXPECT_TRUE(same(env.settle(c), Sym::from_int(6)));
  EXPECT_EQ(fixed(), "0.size(0) = 4; 1.size(0) = 5; 2.size(0) = 6");
  EXPECT_EQ(guards(), "");
}

TEST_F(ShapeEnvTest, SymbolsDecideByFormThenByHint) {
  const Sym s0 = size(0, 8, kDynamic), s1 = size(1, 16, kDynamic);
  EXPECT_FALSE(s0 == 1);
  EXPECT_FALSE(s0 == 0);
  EXPECT_TRUE(s0 * s1 == s1 * s0);
  EXPECT_TRUE(s0 * s1 >= 4);
  EXPECT_EQ(guards(), "");
  EXPECT_TRUE(s0 < s1);
  EXPECT_TRUE(s0 < s1);
  EXPECT_FALSE(s0 >= s1);
  EXPECT_TRUE(s0 * 2 < s1 * 2);
  EXPECT_EQ(guards(), "s0 < s1");
  EXPECT_FALSE(s0 > 64);
  EXPECT_EQ(guards(), "s0 < s1; s0 <= 64");
  EXPECT_TRUE(statically_known(SymCompare::Lt, s0, Sym::from_int(65)));
  EXPECT_TRUE(s0 % 8 == 0);
  EXPECT_TRUE(s0 * 3 % 4 == 0);
  EXPECT_EQ(guards(), "s0 < s1; s0 <= 64; s0 % 8 == 0");
}

TEST_F(ShapeEnvTest, EqualitiesAreRemembered) {
  const Sym s0 = size(0, 8, kDynamic), s1 = size(1, 8, kDynamic), s2 = size(2, 64, kDynamic);
  EXPECT_TRUE(s0 == s1);
  EXPECT_TRUE(s1 * 3 == s0 * 3);
  EXPECT_TRUE(same(env.settle(s1), s0));
  EXPECT_TRUE(s2 == s0 * s1);
  EXPECT_TRUE(s2 / s0 == s1);
  EXPECT_EQ(guards(), "s0 == s1; s2 == s0*s0");
  EXPECT_TRUE(s0 * 2 == 16);
  EXPECT_TRUE(same(env.settle(s2), Sym::from_int(64)));
  EXPECT_TRUE(same(s1 + 1, Sym::from_int(9)));
  EXPECT_EQ(guards(), "s0 == s1; s2 == s0*s0");
  EXPECT_EQ(fixed(), "0.size(0) = 8");
}

TEST_F(ShapeEnvTest, SpecializingFixesSymbolsAndGuardsExpressions) {
  const Sym s0 = size(0, 8, kDynamic), s1 = size(1, 9, kDynamic);
  EXPECT_EQ(static_cast<int64_t>(s0), 8);
  EXPECT_EQ(static_cast<int64_t>(s0), 8);
  EXPECT_EQ(static_cast<int64_t>(s1 / 2), 4);
  EXPECT_EQ(static_cast<int64_t>(s1 / 2), 4);
  EXPECT_EQ(fixed(), "0.size(0) = 8");
  EXPECT_EQ(guards(), "s1 // 2 == 4");
}

TEST_F(ShapeEnvTest, PoliciesDecideWhatIsASymbol) {
  EXPECT_TRUE(env.is_placeholder(size(0, 0, kDynamic)));
  EXPECT_TRUE(env.is_placeholder(size(1, 1, kDynamic)));
  EXPECT_FALSE(env.is_placeholder(size(2, 2, kDynamic)));
  const Sym s = size(3, 1, declared(0, 64));
  EXPECT_FALSE(env.is_placeholder(s));
  EXPECT_TRUE(s <= 64);
  EXPECT_EQ(guards(), "");
  EXPECT_TRUE(s == 1);
  EXPECT_EQ(fixed(), "3.size(0) = 1");
  const Sym number = env.add({SymbolSource::Kind::Number, 4, 0}, -3, kDynamic);
  EXPECT_TRUE(number < 0);
  EXPECT_EQ(guards(), "");
  try {
    size(5, 65, declared(2, 64));
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "mark_dynamic: arg5.size(0) is 65, outside its declared range [2, 64]; widen the range or pass a "
        "size within it");
  }
}

TEST_F(ShapeEnvTest, ContiguityOfSymbolicSizesNeedsNoGuard) {
  const Layout<Sym> x = layout(0, {4, 8, 16}, {128, 16, 1}, {kDynamic, kDynamic, kStatic});
  EXPECT_TRUE(is_contiguous(x));
  EXPECT_EQ(env.expression(x.strides[0]), "s1*16");
  // What contiguity looked at: the strides, and the static size that they contain.
  EXPECT_EQ(guards(), "arg0.stride(0) == s1*16");
  EXPECT_EQ(fixed(), "0.stride(2) = 1; 0.size(2) = 16; 0.stride(1) = 16");
  const Layout<Sym> y = contiguous_layout(x.sizes);
  EXPECT_TRUE(is_contiguous(y));
  EXPECT_EQ(guards(), "arg0.stride(0) == s1*16");
}

TEST_F(ShapeEnvTest, StridesFollowTheOrderInMemory) {
  // A transposed batch of matrices, and one that is a slice of wider rows.
  Layout<Sym> x = layout(0, {4, 16, 8}, {128, 1, 16}, {kDynamic, kDynamic, kDynamic});
  env.settle(x);
  EXPECT_EQ(env.expression(x.strides[2]), "s1");
  EXPECT_EQ(env.expression(x.strides[0]), "s1*s2");
  EXPECT_FALSE(is_contiguous(x));
  EXPECT_EQ(guards(), "arg0.stride(0) == s1*s2; arg0.stride(2) == s1");
  Layout<Sym> y = layout(1, {4, 8}, {100, 1}, {kDynamic, kDynamic});
  env.settle(y);
  EXPECT_TRUE(same(y.strides[0], Sym::from_int(100)));
  Layout<Sym> z = layout(2, {4, 8}, {100, 1}, {kDynamic, kDynamic}, 1);
  env.settle(z);
  EXPECT_TRUE(z.strides[0].is_symbolic());
}

TEST_F(ShapeEnvTest, StridesOfSizeOneCarryNothing) {
  for (const int64_t stride : {8, 64}) {
    Layout<Sym> x = layout(static_cast<uint32_t>(stride), {1, 8}, {stride, 1}, {});
    EXPECT_TRUE(is_contiguous(x));
    env.settle(x);
    EXPECT_TRUE(same(x.strides[0], Sym::from_int(8)));
  }
  for (const FixedValue& value : env.fixed())
    EXPECT_FALSE(value.source.kind == SymbolSource::Kind::Stride && value.source.dim == 0);
}

TEST_F(ShapeEnvTest, DeclaredSizesAllowZeroAndOne) {
  // One row of a wider matrix: its stride says nothing until there are two.
  Layout<Sym> x = layout(0, {1, 8}, {64, 1}, {declared(0, 100), kStatic});
  EXPECT_TRUE(is_contiguous(x));
  EXPECT_EQ(fixed(), "0.stride(1) = 1; 0.size(1) = 8");
  const SymGuardProgram program(env, tables);
  ASSERT_EQ(program.symbols().size(), 2u);
  std::vector<int64_t> values(program.symbols().back() + 1);
  const auto check = [&](int64_t rows, int64_t stride) {
    values[program.symbols()[0]] = rows;
    values[program.symbols()[1]] = stride;
    EXPECT_EQ(program.check(values), !program.first_failure(values));
    return program.check(values);
  };
  EXPECT_TRUE(check(1, 64));
  EXPECT_TRUE(check(1, 8));
  EXPECT_TRUE(check(0, 8));
  EXPECT_TRUE(check(5, 8));
  EXPECT_FALSE(check(5, 64));
  EXPECT_FALSE(check(101, 8));
}

TEST_F(ShapeEnvTest, WhatNobodyAsksIsNotGuarded) {
  layout(0, {4, 8}, {8, 1}, {kDynamic, kStatic});
  layout(1, {4, 8}, {8, 1}, {});
  EXPECT_EQ(guards(), "");
  EXPECT_EQ(fixed(), "");
  EXPECT_TRUE(env.live_symbols().empty());
}

TEST_F(ShapeEnvTest, DeepExpressionsAreFixed) {
  const Sym s0 = size(0, 1000, kDynamic), s1 = size(1, 7, kDynamic);
  Sym n = s0;
  for (int i = 0; i < 200; ++i) n = (n + s1) / 2;
  EXPECT_EQ(n, 7);
  EXPECT_FALSE(env.guards().empty());
}

TEST_F(ShapeEnvTest, QuestionsOutsideATraceAreErrors) {
  const Sym s0 = size(0, 8, kDynamic);
  current_sym_environment() = nullptr;
  EXPECT_THROW((void)(s0 + 1), Error);
  current_sym_environment() = &env;
  EXPECT_THROW((void)(s0 / 0), Error);
}

// ---- The program of checks

struct SymGuardsTest : ShapeEnvTest {
  const Op& op = OpTable::instance().get("add");
  SourceLocation line = SourceLocation::current();
};

TEST_F(SymGuardsTest, ChecksAndNamesEveryKindOfFact) {
  env.set_place({line, &op});
  const Sym s0 = size(0, 8, kDynamic), s1 = size(1, 16, kDynamic), s2 = size(2, 6, kDynamic),
            s3 = size(3, 48, kDynamic), s4 = size(4, 5, declared(0, 9)), s5 = size(5, 11, kDynamic);
  EXPECT_TRUE(s0 < s1);
  EXPECT_TRUE(s0 % 8 == 0);
  EXPECT_TRUE(s3 == s0 * s2);
  EXPECT_TRUE(s1 != 12);
  EXPECT_TRUE(s2 <= 100);
  EXPECT_TRUE((s0 + s1) / 3 == s4 + 3);
  EXPECT_EQ(static_cast<int64_t>(s5), 11);
  auto program = std::make_unique<SymGuardProgram>(env, tables);

  const std::vector<int64_t> good = {8, 16, 6, 48, 5, 11};
  EXPECT_TRUE(program->check(good));
  EXPECT_EQ(program->first_failure(good), std::nullopt);
  EXPECT_TRUE(program->check(std::vector<int64_t>{16, 17, 2, 32, 8, 11}));
  const std::string place = ", asked by add at shape_env_test.cpp:" + std::to_string(line.line());
  const std::pair<std::vector<int64_t>, std::string> failures[] = {
      {{0, 16, 6, 0, 2, 11}, "s0 >= 2, because the sizes 0 and 1 are programs of their own; s0 is 0"},
      {{16, 16, 6, 96, 7, 11}, "s0 < s1" + place + "; s0 is 16, s1 is 16"},
      {{9, 15, 6, 54, 5, 11}, "s0 % 8 == 0" + place + "; s0 is 9"},
      {{8, 16, 6, 49, 5, 11}, "s3 == s0*s2" + place + "; s3 is 49, s0 is 8, s2 is 6"},
      {{8, 12, 6, 48, 3, 11}, "s1 != 12" + place + "; s1 is 12"},
      {{8, 16, 101, 808, 5, 11}, "s2 <= 100" + place + "; s2 is 101"},
      {{8, 16, 6, 48, 4, 11}, "s4 + 3 == (s0 + s1) // 3" + place + "; s4 is 4, s0 is 8, s1 is 16"},
      {{8, 100, 6, 48, 33, 11}, "s4 in [0, 9], as declared; s4 is 33"},
      {{8, 16, 6, 48, 5, 12}, "s5 == 11" + place + "; s5 is 12"},
  };
  for (const auto& [values, text] : failures) {
    EXPECT_FALSE(program->check(values)) << text;
    const auto failure = program->first_failure(values);
    ASSERT_TRUE(failure.has_value()) << text;
    EXPECT_EQ(program->explain(*failure, values), text);
  }
  // Sizes for which an expression has no value are a miss, not an error.
  const int64_t big = INT64_MAX / 8 * 8;
  EXPECT_FALSE(program->check(std::vector<int64_t>{big - 8, big, 6, 48, 5, 11}));
}

TEST_F(SymGuardsTest, OutlivesTheEnvironment) {
  auto own = std::make_shared<Expressions>();
  SymGuardProgram program;
  {
    ShapeEnv inner(own->syms);
    current_sym_environment() = &inner;
    const Sym s0 = inner.add({SymbolSource::Kind::Size, 0, 0}, 8, kDynamic);
    EXPECT_TRUE(s0 / 3 * 2 < 7);
    program = SymGuardProgram(inner, own);
  }
  own.reset();
  EXPECT_TRUE(program.check(std::vector<int64_t>{11}));
  EXPECT_FALSE(program.check(std::vector<int64_t>{12}));
  EXPECT_EQ(program.to_string(1), "s0 // 3 <= 3");
}

}  // namespace
}  // namespace weft::compiler
