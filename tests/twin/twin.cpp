// A program written for libtorch's C++ frontend. It prints numbers that must be the same with Weft behind compat/.
// Place: built twice, against Weft and, where it is installed, against libtorch; both must print twin.expected.
//
// All values are float64 and printed with six digits, far from where the two libraries' roundings differ.
#include <torch/torch.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

using torch::Tensor;
using torch::indexing::None;
using torch::indexing::Slice;

namespace {

void show(const std::string& name, const Tensor& x) {
  const Tensor values = x.detach().to(torch::kFloat64).contiguous();
  std::printf("%s [", name.c_str());
  for (int64_t d = 0; d < values.dim(); ++d)
    std::printf(d == 0 ? "%d" : ", %d", static_cast<int>(values.size(d)));
  std::printf("]");
  const double* data = values.data_ptr<double>();
  for (int64_t i = 0; i < values.numel(); ++i) std::printf(" %.6f", std::abs(data[i]) < 5e-7 ? 0.0 : data[i]);
  std::printf("\n");
}

// Smooth values without pattern, the same in every library.
Tensor formula(std::vector<int64_t> sizes, double seed) {
  int64_t n = 1;
  for (int64_t size : sizes) n *= size;
  return torch::sin(torch::arange(n, torch::TensorOptions().dtype(torch::kFloat64)) * 0.73 + seed)
      .view(sizes);
}

// ---- A model by hand ----------------------------------------------------------------------------------------------

struct NetImpl : torch::nn::Module {
  NetImpl(int64_t in, int64_t hidden, int64_t out) {
    fc1 = register_module("fc1", torch::nn::Linear(in, hidden));
    fc2 = register_module("fc2", torch::nn::Linear(torch::nn::LinearOptions(hidden, out).bias(false)));
    scale = register_parameter("scale", torch::ones({hidden}, torch::kFloat64));
  }
  Tensor forward(Tensor x) {
    x = torch::tanh(fc1->forward(x));
    return fc2(x * scale);
  }
  torch::nn::Linear fc1{nullptr}, fc2{nullptr};
  Tensor scale;
};
TORCH_MODULE(Net);

void set_by_formula(torch::nn::Module& module) {
  torch::NoGradGuard no_grad;
  double seed = 1;
  for (auto& parameter : module.parameters()) {
    parameter.copy_(formula(parameter.sizes().vec(), seed) * 0.5);
    seed += 1;
  }
}

void train_by_hand() {
  std::printf("-- an MLP, SGD with momentum\n");
  Net net(6, 8, 3);
  net->to(torch::kFloat64);
  set_by_formula(*net);
  for (const auto& pair : net->named_parameters()) show(pair.key(), pair.value());
  const Tensor x = formula({5, 6}, 0.1), y = torch::arange(5, torch::kInt64) % 3;
  torch::optim::SGD optimizer(net->parameters(),
                              torch::optim::SGDOptions(0.2).momentum(0.9).weight_decay(1e-3));
  for (int step = 0; step < 6; ++step) {
    optimizer.zero_grad();
    Tensor loss = torch::nn::functional::cross_entropy(net->forward(x), y);
    loss.backward();
    std::printf("loss %d %.6f\n", step, loss.item<double>());
    if (step == 0)
      for (const auto& pair : net->named_parameters()) show("grad " + pair.key(), pair.value().grad());
    if (step == 3) {
      for (auto& group : optimizer.param_groups())
        static_cast<torch::optim::SGDOptions&>(group.options()).lr(0.05);
    }
    optimizer.step();
  }
  for (const auto& pair : net->named_parameters()) show("after " + pair.key(), pair.value());
}

void train_a_sequential() {
  std::printf("-- a Sequential, Adam\n");
  torch::nn::Sequential net(torch::nn::Linear(4, 6), torch::nn::ReLU(),
                            torch::nn::LayerNorm(torch::nn::LayerNormOptions({6})), torch::nn::Linear(6, 1));
  net->to(torch::kFloat64);
  set_by_formula(*net);
  const Tensor x = formula({7, 4}, 0.4), y = x.sum(1, true).sigmoid();
  torch::optim::Adam optimizer(net->parameters(), torch::optim::AdamOptions(0.02));
  for (int step = 0; step < 5; ++step) {
    optimizer.zero_grad();
    Tensor loss = torch::mse_loss(net->forward(x), y);
    loss.backward();
    optimizer.step();
    std::printf("loss %d %.6f\n", step, loss.item<double>());
  }
  net->eval();
  torch::NoGradGuard no_grad;
  show("prediction", net->forward(x).squeeze(1));
}

// ---- Autograd -------------------------------------------------------------------------------------------------------

struct Cube : torch::autograd::Function<Cube> {
  static Tensor forward(torch::autograd::AutogradContext* ctx, Tensor x) {
    ctx->save_for_backward({x});
    return x * x * x;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    return {3 * ctx->get_saved_variables()[0].square() * grads[0]};
  }
};

void tour_of_autograd() {
  std::printf("-- autograd\n");
  Tensor x = formula({2, 3}, 0.2).set_requires_grad(true);
  Tensor w = formula({3}, 0.9).requires_grad_();
  // Broadcasting sums the gradient; two passes add up.
  (x * w + w.exp()).sum().backward();
  (x / (2 + w)).mean().backward();
  show("x.grad", x.grad());
  show("w.grad", w.grad());
  x.mutable_grad().zero_();

  Tensor y = (x.sin() * x).sum();
  Tensor first =
      torch::autograd::grad({y}, {x}, /*grad_outputs=*/{}, /*retain_graph=*/true, /*create_graph=*/true)[0];
  Tensor second = torch::autograd::grad({first.sum()}, {x})[0];
  show("first", first);
  show("second", second);

  // Not on one tensor: PyTorch 1 and 2 differ on whether a retained gradient sees a later hook.
  Tensor h = x.matmul(formula({3, 2}, 0.3));
  h.retain_grad();
  Tensor hooked = h * 1;
  const auto hook = hooked.register_hook([](Tensor grad) { return grad * 2; });
  hooked.pow(2).sum().backward();
  show("h.grad", h.grad());
  show("x.grad", x.grad());
  hooked.remove_hook(hook);

  // In place on a view of a result: the base's history knows.
  Tensor base = x * 1;
  base.index({Slice(), Slice(0, 2)}).mul_(3);
  base.select(0, 1).add_(w);
  x.mutable_grad().zero_();
  w.mutable_grad().zero_();
  base.tanh().sum().backward();
  show("x.grad", x.grad());
  show("w.grad", w.grad());

  Tensor z = formula({4}, 1.5).requires_grad_();
  Cube::apply(z).sum().backward();
  show("cube", z.grad());
  show("detached", (z.detach() * z).sum().reshape({1}));
  {
    torch::NoGradGuard no_grad;
    std::printf("no_grad: %d\n", (z * 2).requires_grad() ? 1 : 0);
  }
  std::printf("leaf: %d %d\n", z.is_leaf() ? 1 : 0, (z * 2).is_leaf() ? 1 : 0);
}

// ---- Tensors ----------------------------------------------------------------------------------------------------------

void tour_of_tensors() {
  std::printf("-- tensors\n");
  Tensor x = formula({3, 4}, 2.0);
  show("slice", x.index({Slice(1, None), Slice(None, None, 2)}));
  show("row", x[1]);
  show("mask", x.index({x > 0.5}));
  x.index_put_({0, Slice(1, 3)}, 7.0);
  show("put", x);
  show("permuted", x.permute({1, 0}).contiguous().view({-1}).slice(0, 2, 8));
  show("stack", torch::stack({x[0], x[2]}, 1));
  show("cat", torch::cat({x, x.flip(0)}, 0).sum(0));
  show("softmax", torch::softmax(x, -1));
  show("where", torch::where(x > 0, x, torch::zeros_like(x)));
  show("std", x.std(0));
  const auto [values, indices] = x.max(1);
  show("max", values);
  show("argmax", indices);
  const auto [sorted, order] = x.flatten().sort();
  show("sorted", sorted);
  show("order", order);
  show("cumsum", x.cumsum(1));
  show("gather", x.gather(1, torch::arange(6, torch::kInt64).view({3, 2}) % 4));
  show("int", torch::arange(7) / 2);
  show("floor", torch::div(torch::arange(-3, 4), 2, "floor"));
  show("bools", (x > 0).logical_and(x < 0.5));
  std::printf("sizes %d %d %d\n", static_cast<int>(x.dim()), static_cast<int>(x.size(-1)),
              static_cast<int>(x.numel()));
  std::printf("all close: %d\n", torch::allclose(x + x, 2 * x) ? 1 : 0);
  try {
    TORCH_CHECK(x.size(0) == 4, "x has ", 3, " rows");
    std::printf("not thrown\n");
  } catch (const std::exception&) {
    std::printf("thrown\n");
  }
  try {
    x.matmul(x);
    std::printf("not thrown\n");
  } catch (const std::exception&) {
    std::printf("thrown\n");
  }
}

}  // namespace

int main() {
  train_by_hand();
  train_a_sequential();
  tour_of_autograd();
  tour_of_tensors();
  return 0;
}
