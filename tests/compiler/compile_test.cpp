// compile(): what it takes and returns, and how it is turned off.

#include <gtest/gtest.h>

#include "weft.h"

namespace weft {
namespace {

Tensor twice(const Tensor& x) { return x * 2; }

struct Scale {
  double by;
  Tensor operator()(Tensor x) const { return x * by; }
};
struct Net : nn::Module {
  nn::Linear fc = register_module("fc", nn::Linear(3, 2));
  Tensor forward(const Tensor& x) { return fc(x); }
};
struct AnyNet : nn::Module {
  template <class T>
  Tensor forward(const T& x) {
    return x + 1;
  }
};

TEST(Compile, KeepsTheSignature) {
  auto from_lambda = compile([](Tensor x, double f) { return x * f; });
  static_assert(std::is_same_v<decltype(from_lambda), Compiled<Tensor(Tensor, double)>>);
  static_assert(std::is_same_v<decltype(compile(twice)), Compiled<Tensor(const Tensor&)>>);
  static_assert(std::is_same_v<decltype(compile(&twice)), Compiled<Tensor(const Tensor&)>>);
  static_assert(std::is_same_v<decltype(compile(Scale{2})), Compiled<Tensor(Tensor)>>);
  static_assert(
      std::is_same_v<decltype(compile(std::function<Tensor(Tensor)>(twice))), Compiled<Tensor(Tensor)>>);
  const Tensor x = ones({2});
  EXPECT_EQ(from_lambda(x, 3).sum().item<float>(), 6);
  EXPECT_EQ(compile(twice)(x).sum().item<float>(), 4);
  EXPECT_EQ(compile(Scale{4})(x).sum().item<float>(), 8);
  const std::function<Tensor(Tensor)> held = compile(twice);
  EXPECT_EQ(held(x).sum().item<float>(), 4);
}

TEST(Compile, TakesBracesAndReferencesAsTheFunctionDoes) {
  auto add_all = compile([](std::vector<Tensor> all) { return all[0] + all[1]; });
  EXPECT_EQ(add_all({ones({1}), ones({1})}).item<float>(), 2);
  auto in_place = compile([](Tensor& x) -> Tensor& { return x.add_(1); });
  Tensor x = zeros({1});
  static_assert(std::is_same_v<decltype(in_place(x)), Tensor>);
  EXPECT_EQ(in_place(x).item<float>(), 1);
  EXPECT_EQ(x.item<float>(), 1);
  auto consume = compile([](std::vector<Tensor>&& all) { return std::vector<Tensor>(std::move(all)); });
  EXPECT_EQ(consume({ones({1})}).size(), 1u);
  auto nothing = compile([] {});
  nothing();
}

TEST(Compile, TakesModulesByHandleAndByReference) {
  auto net = std::make_shared<Net>();
  const Tensor x = ones({1, 3});
  const float expected = net->forward(x).sum().item<float>();
  auto by_pointer = compile(net);
  static_assert(std::is_same_v<decltype(by_pointer), Compiled<Tensor(const Tensor&)>>);
  EXPECT_EQ(by_pointer(x).sum().item<float>(), expected);
  EXPECT_EQ(compile(*net)(x).sum().item<float>(), expected);
  Net on_stack;
  EXPECT_EQ(compile(on_stack)(x).sum().item<float>(), on_stack.forward(x).sum().item<float>());
  nn::Linear layer(3, 2);  // its forward also takes the caller's place
  static_assert(std::is_same_v<decltype(compile(layer)), Compiled<Tensor(const Tensor&)>>);
  EXPECT_EQ(compile(layer)(x).sum().item<float>(), layer(x).sum().item<float>());
  EXPECT_EQ(compile(std::make_shared<AnyNet>())(x).sum().item<float>(), 6);
  auto kept = [] { return compile(*std::make_shared<Net>()); }();
  EXPECT_EQ(kept(x).size(1), 2);
  EXPECT_THROW(compile(nn::Linear(nullptr)), Error);
}

TEST(Compile, TakesGenericLambdas) {
  auto add = compile([](const auto& a, const auto& b) { return a + b; });
  EXPECT_EQ(add(ones({1}), 2).item<float>(), 3);
  EXPECT_EQ(add(ones({1}), ones({1})).item<float>(), 2);
  EXPECT_EQ(add(1, 2), 3);
}

TEST(Compile, TakesFunctionsThatCannotBeCopied) {
  auto f = compile([held = std::make_unique<Tensor>(ones({2}))](Tensor x) { return x + *held; });
  const auto copy = f;
  EXPECT_EQ(copy(ones({2})).sum().item<float>(), 4);
}

TEST(Compile, GuardTurnsItOffForItsScope) {
  const bool before = is_compile_enabled();
  {
    const CompileGuard off(false);
    EXPECT_FALSE(is_compile_enabled());
    {
      const CompileGuard on(true);
      EXPECT_TRUE(is_compile_enabled());
    }
    EXPECT_FALSE(is_compile_enabled());
    EXPECT_EQ(compile(twice)(ones({1})).item<float>(), 2);
  }
  EXPECT_EQ(is_compile_enabled(), before);
}

TEST(Compile, RefusesUnknownBackendsAndModes) {
  const auto error_of = [](CompileOptions options) -> std::string {
    try {
      compile(twice, options);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(error_of({.backend = "inductor"}),
            "compile: there is no backend \"inductor\"; there are aot_eager, cudagraphs, eager, interpret, "
            "weft");
  EXPECT_EQ(error_of({.mode = "fast"}),
            "compile: there is no mode \"fast\"; the modes are default, reduce-overhead and max-autotune");
  EXPECT_EQ(compile(twice, "eager").core().options().backend.name(), "eager");
  compile(twice, {.backend = [](const compiler::Graph&, std::span<const Tensor>) {
            return [](std::span<const Tensor> inputs) {
              return std::vector<Tensor>(inputs.begin(), inputs.end());
            };
          }});
}

}  // namespace
}  // namespace weft
