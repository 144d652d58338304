// The yardstick: small and large programs that any tensor library can run; and its kernels at the size of the bandwidth table.
// Place: main.cpp picks from these lists.
#include "bench/weft_bench/cases.h"

namespace weft::bench {
namespace {

Tensor rmsnorm_silu(const Tensor& x, const Tensor& w) {
  return silu(x * rsqrt(square(x).mean(-1, true) + 1e-6) * w);
}
Tensor bias_gelu_residual(const Tensor& x, const Tensor& b, const Tensor& r) {
  return gelu(x + b, "tanh") * 0.5 + r;
}

struct SimpleMLP : nn::Module {
  nn::Linear fc1 = register_module("fc1", nn::Linear(512, 256));
  nn::Linear fc2 = register_module("fc2", nn::Linear(256, 128));
  nn::Linear fc3 = register_module("fc3", nn::Linear(128, 10));
  Tensor forward(const Tensor& x) { return fc3(relu(fc2(relu(fc1(x))))); }
};

struct TrainedMLP : nn::Module {
  nn::Linear fc1 = register_module("fc1", nn::Linear(784, 512));
  nn::Linear fc2 = register_module("fc2", nn::Linear(512, 512));
  nn::Linear fc3 = register_module("fc3", nn::Linear(512, 10));
  Tensor forward(const Tensor& x) { return fc3(relu(fc2(relu(fc1(x))))); }
};

using Unary = Tensor(const Tensor&);
using Binary = Tensor(const Tensor&, const Tensor&);
using Ternary = Tensor(const Tensor&, const Tensor&, const Tensor&);

// The function as the mode runs it.
template <class Signature>
std::function<Signature> in_mode(const Mode& mode, std::function<Signature> f) {
  if (mode.compiles_function()) return compile(std::move(f), mode.options());
  return f;
}
std::function<void()> step_in_mode(const Mode& mode, std::function<void()> step) {
  if (mode.compiles_step()) return compile(std::move(step), mode.options());
  return step;
}

// Inference cases run without a tape, as their counterparts do.
template <class F>
std::function<void()> no_grad(F body) {
  return [body] {
    NoGradGuard guard;
    body();
  };
}

// A function of one tensor.
Case unary_case(std::string name, std::vector<int64_t> sizes, std::function<Unary> f, int iterations,
                double bytes) {
  return {std::move(name),
          [sizes, f](Device d, const Mode& mode) {
            const Tensor x = randn(sizes, d);
            return no_grad([x, run = in_mode<Unary>(mode, f)] { run(x); });
          },
          iterations,
          bytes,
          0,
          false,
          true};
}

Case rmsnorm_case(int64_t rows, DType dtype, int iterations) {
  const double element = static_cast<double>(size_of(dtype));
  return {detail::concat("rmsnorm_silu_", rows, "x4096_", name_of(dtype)),
          [rows, dtype](Device device, const Mode& mode) {
            const TensorOptions options = TensorOptions(dtype).device(device);
            const Tensor x = randn({rows, 4096}, options), w = randn({4096}, options);
            return no_grad([x, w, run = in_mode<Binary>(mode, rmsnorm_silu)] { run(x, w); });
          },
          iterations,
          2.0 * static_cast<double>(rows) * 4096 * element,
          0,
          false,
          rows > 8};
}

Case softmax_case(int64_t side) {
  const double bytes = 2.0 * 4 * static_cast<double>(side * side);
  return unary_case(
      detail::concat("softmax_", side, "x", side, "_f32"), {side, side},
      [](const Tensor& x) { return softmax(x, -1); }, 5, bytes);
}

Case bias_gelu_residual_case(int64_t side) {
  return {detail::concat("bias_gelu_residual_", side, "x", side, "_f32"),
          [side](Device d, const Mode& mode) {
            const Tensor x = randn({side, side}, d), b = randn({side}, d), r = randn({side, side}, d);
            return no_grad([x, b, r, run = in_mode<Ternary>(mode, bias_gelu_residual)] { run(x, b, r); });
          },
          5,
          3.0 * 4 * static_cast<double>(side * side),
          0,
          false,
          true};
}

Case matmul_bias_gelu_case(const std::string& name, int64_t side, DType dtype, const std::string& precision,
                           int iterations) {
  return {"matmul_bias_gelu_" + name,
          [side, dtype, precision](Device device, const Mode& mode) {
            const TensorOptions options = TensorOptions(dtype).device(device);
            const Tensor a = randn({side, side}, options), b = randn({side, side}, options),
                         c = randn({side}, options);
            const auto f = in_mode<Ternary>(mode, [](const Tensor& a, const Tensor& b, const Tensor& c) {
              return gelu(matmul(a, b) + c, "tanh");
            });
            return no_grad([a, b, c, f, precision] {
              set_float32_matmul_precision(precision);
              f(a, b, c);
              set_float32_matmul_precision("highest");
            });
          },
          iterations,
          0,
          2.0 * static_cast<double>(side * side * side),
          false,
          true};
}

// Forward reads x and writes y; backward reads x and the gradient and writes that of x.
Case rmsnorm_fwdbwd_case(int64_t rows) {
  return {detail::concat("rmsnorm_silu_fwdbwd_", rows, "x4096_f32"),
          [rows](Device d, const Mode& mode) {
            Tensor x = randn({rows, 4096}, d), w = ones({4096}, d);
            for (Tensor* t : {&x, &w}) t->requires_grad_();
            const Tensor g = randn({rows, 4096}, d);
            return step_in_mode(mode, [x, w, g, run = in_mode<Binary>(mode, rmsnorm_silu)]() mutable {
              for (Tensor* t : {&x, &w}) t->mutable_grad().reset();
              run(x, w).backward(g);
            });
          },
          10,
          5.0 * 4 * static_cast<double>(rows) * 4096,
          0,
          true,
          true};
}

Case layernorm_fwdbwd_case(int64_t rows) {
  return {detail::concat("layernorm_fwdbwd_", rows, "x4096_f32"),
          [rows](Device d, const Mode& mode) {
            Tensor x = randn({rows, 4096}, d), w = ones({4096}, d), b = zeros({4096}, d);
            for (Tensor* t : {&x, &w, &b}) t->requires_grad_();
            const Tensor g = randn({rows, 4096}, d);
            const auto f = in_mode<Ternary>(mode, [](const Tensor& x, const Tensor& w, const Tensor& b) {
              return layer_norm(x, {4096}, w, b);
            });
            return step_in_mode(mode, [x, w, b, g, f]() mutable {
              for (Tensor* t : {&x, &w, &b}) t->mutable_grad().reset();
              f(x, w, b).backward(g);
            });
          },
          10,
          5.0 * 4 * static_cast<double>(rows) * 4096,
          0,
          true,
          true};
}

Case cross_entropy_case(int64_t rows, int64_t classes) {
  return {detail::concat("cross_entropy_fwdbwd_", rows, "x", classes, "_f32"),
          [rows, classes](Device d, const Mode& mode) {
            Tensor x = randn({rows, classes}, d);
            x.requires_grad_();
            const Tensor target = randint(0, classes, {rows}, TensorOptions(kInt64).device(d));
            const auto f = in_mode<Binary>(
                mode, [](const Tensor& x, const Tensor& target) { return cross_entropy(x, target); });
            return step_in_mode(mode, [x, target, f]() mutable {
              x.mutable_grad().reset();
              f(x, target).backward();
            });
          },
          5,
          3.0 * 4 * static_cast<double>(rows * classes),
          0,
          true,
          true};
}

Case mlp_train_case(int iterations) {
  return {"mlp_train_784_512_512_10_b128_adam",
          [](Device d, const Mode& mode) {
            auto model = std::make_shared<TrainedMLP>();
            model->to(d);
            auto optimizer = std::make_shared<optim::Adam>(model->parameters(), optim::AdamOptions(1e-3));
            const Tensor x = randn({128, 784}, d);
            const Tensor target = randint(0, 10, {128}, TensorOptions(kInt64).device(d));
            const auto loss = in_mode<Binary>(mode, [model](const Tensor& x, const Tensor& target) {
              return cross_entropy(model->forward(x), target);
            });
            return step_in_mode(mode, [loss, optimizer, x, target] {
              optimizer->zero_grad();
              loss(x, target).backward();
              optimizer->step();
            });
          },
          iterations,
          0,
          0,
          true};
}

}  // namespace

CompileOptions Mode::options() const {
  CompileOptions options;
  if (name == "reduce-overhead" || name == "step-graph") options.mode = "reduce-overhead";
  else if (name != "compiled" && name != "step") options.backend = Backend(name);
  return options;
}

Mode mode_of(const std::string& name) {
  static const std::vector<std::string> known = {"eager", "aot_eager",  "interpret",       "compiled",
                                                 "step",  "step-graph", "reduce-overhead", "cudagraphs"};
  std::string list;
  for (const std::string& each : known) {
    if (each == name) return {name};
    list += (list.empty() ? "" : ", ") + each;
  }
  throw Error("mode '" + name + "' does not exist yet; this build has: " + list);
}

std::vector<Case> yardstick_cases(Device device) {
  const bool cuda = device.is_cuda();
  std::vector<Case> cases;
  cases.push_back({"tiny_add",
                   [](Device d, const Mode& mode) {
                     const Tensor a = randn({16}, d), b = randn({16}, d);
                     const auto add =
                         in_mode<Binary>(mode, [](const Tensor& a, const Tensor& b) { return a + b; });
                     return no_grad([a, b, add] { add(a, b); });
                   },
                   2000});
  cases.push_back(rmsnorm_case(8, kFloat32, 300));
  cases.push_back(rmsnorm_case(8192, kFloat32, 20));
  cases.push_back(rmsnorm_case(8192, kBFloat16, 20));
  cases.push_back({"simple_mlp_b64",
                   [](Device d, const Mode& mode) {
                     auto model = std::make_shared<SimpleMLP>();
                     model->to(d);
                     model->eval();
                     const Tensor x = randn({64, 512}, d);
                     const auto forward =
                         in_mode<Unary>(mode, [model](const Tensor& x) { return model->forward(x); });
                     return no_grad([forward, x] { forward(x); });
                   },
                   300});
  cases.push_back(softmax_case(8192));
  cases.push_back(bias_gelu_residual_case(8192));
  cases.push_back(unary_case(
      "colsum_16384x4096_f32", {16384, 4096}, [](const Tensor& x) { return x.sum(0); }, 5,
      16384.0 * 4096 * 4));
  constexpr int64_t kMany = 64 * 1024 * 1024;
  cases.push_back(unary_case(
      "fullsum_64M_f32", {kMany}, [](const Tensor& x) { return x.sum(); }, 5, 4.0 * kMany));
  if (cuda) {
    cases.push_back(matmul_bias_gelu_case("4096_bfloat16_highest", 4096, kBFloat16, "highest", 20));
    cases.push_back(matmul_bias_gelu_case("4096_float32_highest", 4096, kFloat32, "highest", 20));
    cases.push_back(matmul_bias_gelu_case("4096_float32_high", 4096, kFloat32, "high", 20));
  } else {
    cases.push_back(matmul_bias_gelu_case("1024_f32", 1024, kFloat32, "highest", 20));
  }
  cases.push_back(layernorm_fwdbwd_case(8192));
  cases.push_back(rmsnorm_fwdbwd_case(8192));
  cases.push_back(cross_entropy_case(cuda ? 4096 : 512, 50257));
  cases.push_back(mlp_train_case(cuda ? 200 : 50));
  return cases;
}

std::vector<Case> bandwidth_cases() {
  std::vector<Case> cases = {rmsnorm_case(4096, kFloat32, 10), softmax_case(4096),
                             bias_gelu_residual_case(4096), rmsnorm_fwdbwd_case(4096),
                             layernorm_fwdbwd_case(4096)};
  const double elements = 4096.0 * 4096;
  cases.push_back(unary_case(
      "layer_norm_4096x4096_f32", {4096, 4096}, [](const Tensor& x) { return layer_norm(x, {4096}, {}, {}); },
      10, 8 * elements));
  cases.push_back(unary_case(
      "gelu_4096x4096_f32", {4096, 4096}, [](const Tensor& x) { return gelu(x); }, 10, 8 * elements));
  cases.push_back(unary_case(
      "colsum_4096x4096_f32", {4096, 4096}, [](const Tensor& x) { return x.sum(0); }, 10, 4 * elements));
  cases.push_back(unary_case(
      "transposed_add_4096x4096_f32", {4096, 4096}, [](const Tensor& x) { return x.t() + x; }, 10,
      8 * elements));
  return cases;
}

}  // namespace weft::bench
