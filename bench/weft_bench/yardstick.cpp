// The yardstick: small and large programs that any tensor library can run.
// Place: main.cpp picks from this list.
#include "bench/weft_bench/cases.h"

namespace weft::bench {
namespace {

Tensor rmsnorm_silu(const Tensor& x, const Tensor& w) {
  return silu(x * rsqrt(square(x).mean(-1, true) + 1e-6) * w);
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

// Inference cases run without a tape, as their counterparts do.
template <class F>
std::function<void()> no_grad(F body) {
  return [body] {
    NoGradGuard guard;
    body();
  };
}

Case rmsnorm_case(int64_t rows, DType dtype, int iterations) {
  const double element = static_cast<double>(size_of(dtype));
  return {detail::concat("rmsnorm_silu_", rows, "x4096_", name_of(dtype)),
          [rows, dtype](Device device) {
            const TensorOptions options = TensorOptions(dtype).device(device);
            const Tensor x = randn({rows, 4096}, options), w = randn({4096}, options);
            return no_grad([x, w] { rmsnorm_silu(x, w); });
          },
          iterations, 2.0 * static_cast<double>(rows) * 4096 * element};
}

}  // namespace

std::vector<Case> yardstick_cases(Device device) {
  const bool cuda = device.is_cuda();
  std::vector<Case> cases;
  cases.push_back({"tiny_add",
                   [](Device d) {
                     const Tensor a = randn({16}, d), b = randn({16}, d);
                     return no_grad([a, b] { a + b; });
                   },
                   2000});
  cases.push_back(rmsnorm_case(8, kFloat32, 300));
  cases.push_back(rmsnorm_case(8192, kFloat32, 20));
  cases.push_back(rmsnorm_case(8192, kBFloat16, 20));
  cases.push_back({"simple_mlp_b64",
                   [](Device d) {
                     auto model = std::make_shared<SimpleMLP>();
                     model->to(d);
                     model->eval();
                     const Tensor x = randn({64, 512}, d);
                     return no_grad([model, x] { model->forward(x); });
                   },
                   300});
  cases.push_back({"softmax_8192x8192_f32",
                   [](Device d) {
                     const Tensor x = randn({8192, 8192}, d);
                     return no_grad([x] { softmax(x, -1); });
                   },
                   5, 2.0 * 8192 * 8192 * 4});
  cases.push_back(
      {"bias_gelu_residual_8192x8192_f32",
       [](Device d) {
         const Tensor x = randn({8192, 8192}, d), b = randn({8192}, d), r = randn({8192, 8192}, d);
         return no_grad([x, b, r] { gelu(x + b, "tanh") * 0.5 + r; });
       },
       5, 3.0 * 8192 * 8192 * 4});
  cases.push_back({"colsum_16384x4096_f32",
                   [](Device d) {
                     const Tensor x = randn({16384, 4096}, d);
                     return no_grad([x] { x.sum(0); });
                   },
                   5, 16384.0 * 4096 * 4});
  cases.push_back({"fullsum_64M_f32",
                   [](Device d) {
                     const Tensor x = randn({64 * 1024 * 1024}, d);
                     return no_grad([x] { x.sum(); });
                   },
                   5, 64.0 * 1024 * 1024 * 4});
  if (!cuda) {
    cases.push_back(
        {"matmul_bias_gelu_1024_f32",
         [](Device d) {
           const Tensor a = randn({1024, 1024}, d), b = randn({1024, 1024}, d), c = randn({1024}, d);
           return no_grad([a, b, c] { gelu(matmul(a, b) + c, "tanh"); });
         },
         20, 0, 2.0 * 1024 * 1024 * 1024});
  }
  cases.push_back({"layernorm_fwdbwd_8192x4096_f32",
                   [](Device d) {
                     Tensor x = randn({8192, 4096}, d), w = ones({4096}, d), b = zeros({4096}, d);
                     for (Tensor* t : {&x, &w, &b}) t->requires_grad_();
                     const Tensor g = randn({8192, 4096}, d);
                     return std::function<void()>([x, w, b, g]() mutable {
                       for (Tensor* t : {&x, &w, &b}) t->mutable_grad().reset();
                       layer_norm(x, {4096}, w, b).backward(g);
                     });
                   },
                   10, 5.0 * 8192 * 4096 * 4});
  cases.push_back({"rmsnorm_silu_fwdbwd_8192x4096_f32",
                   [](Device d) {
                     Tensor x = randn({8192, 4096}, d), w = ones({4096}, d);
                     for (Tensor* t : {&x, &w}) t->requires_grad_();
                     const Tensor g = randn({8192, 4096}, d);
                     return std::function<void()>([x, w, g]() mutable {
                       for (Tensor* t : {&x, &w}) t->mutable_grad().reset();
                       rmsnorm_silu(x, w).backward(g);
                     });
                   },
                   10, 5.0 * 8192 * 4096 * 4});
  const int64_t rows = cuda ? 4096 : 512;
  cases.push_back({detail::concat("cross_entropy_fwdbwd_", rows, "x50257_f32"),
                   [rows](Device d) {
                     Tensor x = randn({rows, 50257}, d);
                     x.requires_grad_();
                     const Tensor target = randint(0, 50257, {rows}, TensorOptions(kInt64).device(d));
                     return std::function<void()>([x, target]() mutable {
                       x.mutable_grad().reset();
                       cross_entropy(x, target).backward();
                     });
                   },
                   5, 3.0 * static_cast<double>(rows) * 50257 * 4});
  cases.push_back({"mlp_train_784_512_512_10_b128_adam",
                   [](Device d) {
                     auto model = std::make_shared<TrainedMLP>();
                     model->to(d);
                     auto optimizer =
                         std::make_shared<optim::Adam>(model->parameters(), optim::AdamOptions(1e-3));
                     const Tensor x = randn({128, 784}, d);
                     const Tensor target = randint(0, 10, {128}, TensorOptions(kInt64).device(d));
                     return std::function<void()>([model, optimizer, x, target] {
                       optimizer->zero_grad();
                       cross_entropy(model->forward(x), target).backward();
                       optimizer->step();
                     });
                   },
                   cuda ? 200 : 50, 0, 0, true});
  return cases;
}

}  // namespace weft::bench
