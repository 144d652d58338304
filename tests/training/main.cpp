// weft_training: repeats the stored training runs and compares gradients, losses, rates, norms and final weights.
// Place: a tool of the build tree; its command line and its output are fixed in docs/architecture.md (contracts).
#include <weft.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "nn/data/csv.h"
#include "tests/support/compare.h"

namespace weft::tests {
namespace {

using Json = nlohmann::json;

struct Options {
  std::string manifest, tensors, data, mode = "eager", device = "cpu";
  std::vector<std::string> ids;  // empty: all runs
};

// ---- Models: the names of their parameters are those of the stored weights --------------------------------------------

struct Model : nn::Module {
  virtual Tensor forward(const Tensor& x) = 0;
};

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

std::unique_ptr<optim::LRScheduler> make_schedule(const Json& name, optim::Optimizer& optimizer,
                                                  int64_t steps) {
  using namespace optim;
  if (name.is_null()) return nullptr;
  if (name == "cosine") return std::make_unique<CosineAnnealingLR>(optimizer, steps);
  if (name == "step") return std::make_unique<StepLR>(optimizer, 10, 0.5);
  if (name == "onecycle") return std::make_unique<OneCycleLR>(optimizer, 0.05, steps);
  if (name == "linear_warmup") return std::make_unique<LinearLR>(optimizer, 0.1, 1.0, 10);
  throw Error("schedule " + name.get<std::string>() + " is not there yet");
}

// ---- Data -----------------------------------------------------------------------------------------------------------

struct Batch {
  Tensor x, y;
};

class Digits {
 public:
  explicit Digits(const std::string& folder) {
    const Tensor table = data::read_csv(folder + "/digits.csv");
    WEFT_CHECK(table.dim() == 2 && table.size(1) == kPixels + 1, folder, "/digits.csv has sizes ",
               table.sizes());
    values_ = table.to_vector<float>();
    rows_ = table.size(0);
  }
  int64_t rows() const { return rows_; }
  // Rows first, …, first + count - 1, starting again at the end; pixels divided by 16.
  Batch batch(int64_t first, int64_t count) const {
    Batch batch{make_tensor(SymList{count, kPixels}, DType::Float32),
                make_tensor(SymList{count}, DType::Int64)};
    for (int64_t i = 0; i < count; ++i) {
      const float* row = &values_[static_cast<size_t>((first + i) % rows_ * (kPixels + 1))];
      for (int64_t p = 0; p < kPixels; ++p) data_of<float>(batch.x)[i * kPixels + p] = row[p] / 16;
      data_of<int64_t>(batch.y)[i] = static_cast<int64_t>(row[kPixels]);
    }
    return batch;
  }

 private:
  static constexpr int64_t kPixels = 64;
  std::vector<float> values_;
  int64_t rows_ = 0;
};

// ---- A run ------------------------------------------------------------------------------------------------------------

constexpr Tolerance kGradients{1e-4, 1e-6};  // of step 0
constexpr double kFirstLosses = 1e-4, kLaterLosses = 2e-3;
// Rounding differences grow from step to step, most where Adam divides by the root of a small second moment.
constexpr Tolerance kFinalWeights{2e-3, 2e-4};

void check_near(const char* what, size_t step, double got, double want, double rtol) {
  WEFT_CHECK(std::abs(got - want) <= rtol * std::abs(want), what, " of step ", step, " is ", got, ", want ",
             want);
}

void check_tensors(const char* what, const Json& keys, const NamedTensors& tensors,
                   const std::function<Tensor(const std::string&)>& value_of, Tolerance tolerance) {
  for (const auto& [name, key] : keys.items()) {
    const std::string text = difference(value_of(name), tensors.at(key), tolerance);
    WEFT_CHECK(text.empty(), what, " of ", name, ": ", text);
  }
}

// Errors: Error that says what differs.
void run(const Json& run, const NamedTensors& tensors, const Digits& digits) {
  // The character model is described by other fields.
  const std::string name = run.value("model", run.at("id").get<std::string>().substr(0, 8));
  const std::shared_ptr<Model> model = make_model(name);
  const auto parameters = model->named_parameters();
  WEFT_CHECK(parameters.size() == run.at("init").size(), "the model has ", parameters.size(),
             " parameters, the run ", run.at("init").size());
  for (const auto& [parameter, key] : run.at("init").items()) {
    const Tensor to = model->get_parameter(parameter), &from = tensors.at(key);
    WEFT_CHECK(to.sizes() == from.sizes(), parameter, " is ", describe(to), " instead of ", describe(from));
    copy_data(from, to);
  }
  const int64_t steps = run.at("steps"), batch_size = run.at("batch");
  const auto optimizer = make_optimizer(run.at("optimizer"), model->parameters());
  const auto schedule = make_schedule(run.at("scheduler"), *optimizer, steps);
  for (int64_t i = 0; i < steps; ++i) {
    const auto step = static_cast<size_t>(i);
    const auto [x, y] = digits.batch(i * batch_size, batch_size);
    optimizer->zero_grad();
    const Tensor loss = cross_entropy(model->forward(x), y);
    loss.backward();
    check_near("the loss", step, loss.item<double>(), run.at("losses").at(step),
               i < 5 ? kFirstLosses : kLaterLosses);
    if (i == 0) {
      check_tensors(
          "the gradient", run.at("grads_step0"), tensors,
          [&](const std::string& parameter) { return model->get_parameter(parameter).grad(); }, kGradients);
    }
    if (const Json& limit = run.at("clip_grad_norm"); !limit.is_null()) {
      const Scalar norm = nn::utils::clip_grad_norm_(model->parameters(), limit);
      check_near("the gradient's norm", step, norm.to_double(), run.at("grad_norms").at(step),
                 i < 5 ? kFirstLosses : kLaterLosses);
    }
    check_near("the learning rate", step, optimizer->param_groups()[0].options().get_lr(),
               run.at("lrs").at(step), 1e-9);
    optimizer->step();
    if (schedule && i + 1 < steps) schedule->step();
  }
  check_tensors(
      "the final value", run.at("final"), tensors,
      [&](const std::string& parameter) { return model->get_parameter(parameter).detach(); }, kFinalWeights);

  const NoGradGuard no_grad;
  const auto [x, y] = digits.batch(0, digits.rows());
  const double accuracy = argmax(model->forward(x), 1).eq(y).to(kFloat64).mean().item<double>();
  // A row or two may lie on the border between classes.
  WEFT_CHECK(std::abs(accuracy - run.at("accuracy_all_rows").get<double>()) <
                 2.5 / static_cast<double>(digits.rows()),
             "the accuracy on all rows is ", accuracy, ", want ", run.at("accuracy_all_rows").get<double>());
}

int run_all(const Options& options) {
  const NamedTensors tensors = read_safetensors(options.tensors);
  std::ifstream file(options.manifest);
  WEFT_CHECK(file.good(), options.manifest, ": cannot be opened");
  const Json manifest = Json::parse(file);
  const Digits digits(options.data);
  int passed = 0, failed = 0;
  for (const Json& entry : manifest.at("runs")) {
    const std::string id = entry.at("id");
    if (!options.ids.empty() && std::find(options.ids.begin(), options.ids.end(), id) == options.ids.end())
      continue;
    std::string text;
    try {
      WEFT_CHECK(options.mode == "eager", "mode '", options.mode, "' is not there yet");
      WEFT_CHECK(options.device == "cpu", "device '", options.device, "' is not there yet");
      run(entry, tensors, digits);
    } catch (const std::exception& error) {
      text = error.what();
      std::replace(text.begin(), text.end(), '\n', ' ');
    }
    if (text.empty()) {
      ++passed;
      continue;
    }
    ++failed;
    std::cout << "FAIL " << id << ": " << text << std::endl;
  }
  if (passed + failed == 0) std::cerr << "weft_training: no run has an --id of these\n";
  std::cout << passed << " passed, " << failed << " failed" << std::endl;
  return failed == 0 && passed > 0 ? 0 : 1;
}

}  // namespace
}  // namespace weft::tests

int main(int argc, char** argv) {
  weft::tests::Options options;
  CLI::App app("Repeats the stored training runs and compares them with the values of PyTorch");
  app.add_option("--manifest", options.manifest, "the runs, a JSON file")->required();
  app.add_option("--tensors", options.tensors, "weights and gradients, a safetensors file")->required();
  app.add_option("--data", options.data, "the folder of digits.csv and devils_dictionary.txt")->required();
  app.add_option("--mode", options.mode, "how a step runs")
      ->check(CLI::IsMember({"eager", "aot_eager", "compiled", "step", "step-graph"}));
  app.add_option("--device", options.device, "where it runs")->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--id", options.ids, "only this run; may be given several times");
  CLI11_PARSE(app, argc, argv);
  try {
    return weft::tests::run_all(options);
  } catch (const std::exception& error) {
    std::cerr << "weft_training: " << error.what() << '\n';
    return 2;
  }
}
