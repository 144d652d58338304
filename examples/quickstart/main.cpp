// The sample program of README.md: a network that learns to read digits.
// Needs weft.h only; run it from the root of the repository.
#include <weft.h>

#include <iostream>

using namespace weft;

struct Net : nn::Module {
  nn::Linear fc1 = register_module("fc1", nn::Linear(64, 48));
  nn::RMSNorm norm = register_module("norm", nn::RMSNorm(48));
  nn::Linear fc2 = register_module("fc2", nn::Linear(48, 10));
  Tensor forward(const Tensor& x) { return fc2(norm(silu(fc1(x)))); }
};

int main() {
  Tensor table = data::read_csv("examples/data/digits.csv");  // 64 pixels and a label a line
  data::TensorDataset digits(table.narrow(1, 0, 64) / 16, table.select(1, 64).to(kInt64));
  auto [train_set, test_set] = data::random_split(digits, {1400, 397}, /*seed=*/0);
  data::DataLoader loader(train_set, data::DataLoaderOptions(48).shuffle(true));

  auto net = std::make_shared<Net>();
  optim::AdamW optimizer(net->parameters(), optim::AdamWOptions(1e-2));
  for (int epoch = 0; epoch < 30; ++epoch) {
    for (auto [x, y] : loader) {
      Tensor loss = cross_entropy(net->forward(x), y);
      loss.backward();
      optimizer.step();
      optimizer.zero_grad();
    }
  }

  NoGradGuard no_grad;
  std::cout << "test accuracy: " << train::accuracy(net->forward(test_set.data()), test_set.target()) << "\n";
  save(net, "digits.safetensors");
}
