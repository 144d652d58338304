// Models, optimizers, schedules and data of the stored training runs.
#include "tests/training/setup.h"

#include "nn/data/csv.h"
#include "tensor/dispatch.h"

namespace weft::tests {
namespace {

struct Mlp : Model {
  nn::Linear fc1 = register_module("fc1", nn::Linear(64, 32));
  nn::Linear fc2 = register_module("fc2", nn::Linear(32, 10));
  Tensor forward(const Tensor& x) override { return fc2(relu(fc1(x))); }
};

struct RmsMlp : Model {
  nn::RMSNorm norm = register_module("norm", nn::RMSNorm(nn::RMSNormOptions({64}).eps(1e-6)));
  nn::Linear fc1 = register_module("fc1", nn::Linear(64, 48));
  nn::RMSNorm norm2 = register_module("norm2", nn::RMSNorm(nn::RMSNormOptions({48}).eps(1e-6)));
  nn::Linear fc2 = register_module("fc2", nn::Linear(48, 10));
  Tensor forward(const Tensor& x) override { return fc2(norm2(silu(fc1(norm(x))))); }
};

}  // namespace

std::shared_ptr<Model> make_model(const std::string& name) {
  if (name == "mlp") return std::make_shared<Mlp>();
  if (name == "rms_mlp") return std::make_shared<RmsMlp>();
  throw Error("model " + name + " is not there yet");
}

std::unique_ptr<optim::Optimizer> make_optimizer(const std::string& name,
                                                 const std::vector<Tensor>& parameters) {
  using namespace optim;
  if (name == "sgd") return std::make_unique<SGD>(parameters, SGDOptions(0.1));
  if (name == "sgd_momentum_nesterov_wd")
    return std::make_unique<SGD>(parameters,
                                 SGDOptions(0.05).momentum(0.9).nesterov(true).weight_decay(1e-3));
  if (name == "adam") return std::make_unique<Adam>(parameters, AdamOptions(1e-2).betas({0.9, 0.99}));
  if (name == "adamw") return std::make_unique<AdamW>(parameters, AdamWOptions(1e-2).weight_decay(0.1));
  if (name == "rmsprop") return std::make_unique<RMSprop>(parameters, RMSpropOptions(1e-3));
  if (name == "adagrad") return std::make_unique<Adagrad>(parameters, AdagradOptions(1e-2));
  throw Error("optimizer " + name + " is not there yet");
}

std::unique_ptr<optim::LRScheduler> make_schedule(const nlohmann::json& name, optim::Optimizer& optimizer,
                                                  int64_t steps) {
  using namespace optim;
  if (name.is_null()) return nullptr;
  if (name == "cosine") return std::make_unique<CosineAnnealingLR>(optimizer, steps);
  if (name == "step") return std::make_unique<StepLR>(optimizer, 10, 0.5);
  if (name == "onecycle") return std::make_unique<OneCycleLR>(optimizer, 0.05, steps);
  if (name == "linear_warmup") return std::make_unique<LinearLR>(optimizer, 0.1, 1.0, 10);
  throw Error("schedule " + name.get<std::string>() + " is not there yet");
}

Digits::Digits(const std::string& folder, Device device) : device_(device) {
  const Tensor table = data::read_csv(folder + "/digits.csv");
  WEFT_CHECK(table.dim() == 2 && table.size(1) == kPixels + 1, folder, "/digits.csv has sizes ",
             table.sizes());
  values_ = table.to_vector<float>();
  rows_ = table.size(0);
}

Batch Digits::batch(int64_t first, int64_t count) const {
  Batch batch{make_tensor(SymList{count, kPixels}, DType::Float32),
              make_tensor(SymList{count}, DType::Int64)};
  for (int64_t i = 0; i < count; ++i) {
    const float* row = &values_[static_cast<size_t>((first + i) % rows_ * (kPixels + 1))];
    for (int64_t p = 0; p < kPixels; ++p) data_of<float>(batch.x)[i * kPixels + p] = row[p] / 16;
    data_of<int64_t>(batch.y)[i] = static_cast<int64_t>(row[kPixels]);
  }
  return {batch.x.to(device_), batch.y.to(device_)};
}

}  // namespace weft::tests
