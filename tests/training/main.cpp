// weft_training: repeats the stored training runs and compares gradients, losses, rates, norms and final weights.
// Place: a tool of the build tree; its command line and its output are fixed in docs/architecture.md (contracts).
#include <algorithm>
#include <fstream>
#include <iostream>

#include "tensor/cuda/products.h"
#include "tests/support/check_run.h"
#include "tests/support/command_line.h"
#include "tests/support/compare.h"
#include "tests/training/setup.h"

namespace weft::tests {
namespace {

using Json = nlohmann::json;

struct Options {
  std::string manifest, tensors, data, mode = "eager", device = "cpu";
  std::vector<std::string> ids;  // empty: all runs
};

// ---- Modes ------------------------------------------------------------------------------------------------------------

const std::vector<std::string> kModes = {"eager", "aot_eager", "compiled", "step", "step-graph"};

struct StepResult {
  Tensor loss;
  Scalar norm;  // of the gradients before they were clipped; 0 where they are not
};
struct Steps {
  std::function<Tensor(Tensor, Tensor)> differentiate;  // the loss; its gradients stay in .grad
  std::function<StepResult(Tensor, Tensor)> step;
};

// aot_eager and compiled compile the model with its loss, step all that happens between two batches.
Steps make_steps(const std::string& mode, const std::shared_ptr<Model>& model, optim::Optimizer& optimizer,
                 std::optional<double> clip) {
  std::function<Tensor(Tensor, Tensor)> loss = [model](Tensor x, Tensor y) {
    return cross_entropy(model->forward(x), y);
  };
  if (mode == "aot_eager") loss = compile(loss, "aot_eager");
  if (mode == "compiled") loss = compile(loss);
  Steps steps;
  steps.differentiate = [loss](Tensor x, Tensor y) {
    Tensor l = loss(x, y);
    l.backward();
    return l;
  };
  steps.step = [model, &optimizer, clip, differentiate = steps.differentiate](Tensor x, Tensor y) {
    StepResult result{differentiate(x, y), 0.0};
    if (clip) result.norm = nn::utils::clip_grad_norm_(model->parameters(), *clip);
    optimizer.step();
    optimizer.zero_grad();
    return result;
  };
  if (mode != "step" && mode != "step-graph") return steps;
  const CompileOptions options = {.mode = mode == "step" ? "default" : "reduce-overhead"};
  return {compile(steps.differentiate, options), compile(steps.step, options)};
}

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

// What a run leaves behind, by name: losses, norms, weights. Equal in all modes, bit for bit.
using Trail = std::map<std::string, Tensor>;

// Errors: Error that says what differs from the stored run.
Trail run(const Json& run, const std::string& mode, const NamedTensors& tensors, const Digits& digits,
          Device device) {
  // The character model is described by other fields.
  const std::string name = run.value("model", run.at("id").get<std::string>().substr(0, 8));
  const std::shared_ptr<Model> model = make_model(name);
  model->to(device);
  const auto parameters = model->named_parameters();
  WEFT_CHECK(parameters.size() == run.at("init").size(), "the model has ", parameters.size(),
             " parameters, the run ", run.at("init").size());
  for (const auto& [parameter, key] : run.at("init").items()) {
    const Tensor to = model->get_parameter(parameter), &from = tensors.at(key);
    WEFT_CHECK(to.sizes() == from.sizes(), parameter, " is ", describe(to), " instead of ", describe(from));
    copy_data(from, to);
  }
  const int64_t num_steps = run.at("steps"), batch_size = run.at("batch");
  const auto optimizer = make_optimizer(run.at("optimizer"), model->parameters());
  const auto schedule = make_schedule(run.at("scheduler"), *optimizer, num_steps);
  const Json& limit = run.at("clip_grad_norm");
  const Steps steps = make_steps(mode, model, *optimizer,
                                 limit.is_null() ? std::nullopt : std::optional(limit.get<double>()));
  Trail trail;
  const auto keep = [&](const std::string& what, const Tensor& x) { trail[what] = copy_of(x); };
  {
    const auto [x, y] = digits.batch(0, batch_size);
    steps.differentiate(x, y);
    const auto gradient_of = [&](const std::string& parameter) {
      return model->get_parameter(parameter).grad();
    };
    check_tensors("the gradient", run.at("grads_step0"), tensors, gradient_of, kGradients);
    for (const auto& parameter : parameters)
      keep("the gradient of " + parameter.key(), gradient_of(parameter.key()));
    optimizer->zero_grad();
  }
  for (int64_t i = 0; i < num_steps; ++i) {
    const auto step = static_cast<size_t>(i);
    const double rtol = i < 5 ? kFirstLosses : kLaterLosses;
    const auto [x, y] = digits.batch(i * batch_size, batch_size);
    check_near("the learning rate", step, optimizer->param_groups()[0].options().get_lr(),
               run.at("lrs").at(step), 1e-9);
    const StepResult result = steps.step(x, y);
    check_near("the loss", step, result.loss.item<double>(), run.at("losses").at(step), rtol);
    keep("the loss of step " + std::to_string(i), result.loss);
    if (!limit.is_null()) {
      check_near("the gradient's norm", step, result.norm.to_double(), run.at("grad_norms").at(step), rtol);
      keep("the norm of step " + std::to_string(i), tensor(result.norm.to_double(), kFloat64));
    }
    if (schedule && i + 1 < num_steps) schedule->step();
  }
  const auto value_of = [&](const std::string& parameter) {
    return model->get_parameter(parameter).detach();
  };
  check_tensors("the final value", run.at("final"), tensors, value_of, kFinalWeights);
  for (const auto& parameter : parameters)
    keep("the final value of " + parameter.key(), value_of(parameter.key()));

  const NoGradGuard no_grad;
  const auto [x, y] = digits.batch(0, digits.rows());
  const double accuracy = argmax(model->forward(x), 1).eq(y).to(kFloat64).mean().item<double>();
  // A row or two may lie on the border between classes.
  WEFT_CHECK(std::abs(accuracy - run.at("accuracy_all_rows").get<double>()) <
                 2.5 / static_cast<double>(digits.rows()),
             "the accuracy on all rows is ", accuracy, ", want ", run.at("accuracy_all_rows").get<double>());
  return trail;
}

// Errors: Error that says what differs from the stored run, or from eager's, or that the model was not compiled.
void check(const Json& description, const std::string& mode, const NamedTensors& tensors,
           const Digits& digits, Device device) {
  const CompileStats before = compile_stats();
  const int64_t products = cuda::product_stats().calls;
  const Trail trail = run(description, mode, tensors, digits, device);
  if (mode == "eager") return;
  const CompileStats now = compile_stats();
  // The step and, in step mode, the function that leaves the first gradients behind; each once more where the state of
  // optimizer and gradients is another at its second call.
  WEFT_CHECK(now.traces - before.traces <= 4, "the run took ", now.traces - before.traces, " traces");
  WEFT_CHECK(now.hits > before.hits && now.eager_calls == before.eager_calls,
             "the run was not compiled: ", now.hits - before.hits, " hits, ",
             now.eager_calls - before.eager_calls, " eager calls");
  // A plan chooses cuBLASLt's algorithms and epilogues: such runs are held to the stored numbers alone.
  if (cuda::product_stats().calls != products) return;
  for (const auto& [what, want] : run(description, "eager", tensors, digits, device)) {
    const std::string text = difference_of_bits(trail.at(what), want);
    WEFT_CHECK(text.empty(), what, " is not that of eager: ", text);
  }
}

int run_all(const Options& options) {
  const NamedTensors tensors = read_safetensors(options.tensors);
  std::ifstream file(options.manifest);
  WEFT_CHECK(file.good(), options.manifest, ": cannot be opened");
  const Json manifest = Json::parse(file);
  const Device device(options.device);
  if (device.is_cuda() && !cuda::is_available()) throw Error(cuda::why_unavailable());
  const Digits digits(options.data, device);
  CheckRun checks;
  for (const Json& entry : manifest.at("runs")) {
    const std::string id = entry.at("id");
    if (!options.ids.empty() && std::find(options.ids.begin(), options.ids.end(), id) == options.ids.end())
      continue;
    checks.run(id, [&]() -> std::string {
      if (std::find(kModes.begin(), kModes.end(), options.mode) == kModes.end())
        return "mode '" + options.mode + "' is not there yet";
      check(entry, options.mode, tensors, digits, device);
      return {};
    });
  }
  if (checks.is_empty()) std::cerr << "weft_training: no run has an --id of these\n";
  return checks.finish();
}

}  // namespace
}  // namespace weft::tests

int main(int argc, char** argv) {
  weft::tests::Options options;
  weft::tests::CommandLine line(
      "Repeats the stored training runs and compares them with the values of PyTorch");
  line.required("--manifest", options.manifest, "the runs, a JSON file");
  line.required("--tensors", options.tensors, "weights and gradients, a safetensors file");
  line.required("--data", options.data, "the folder of digits.csv and devils_dictionary.txt");
  line.option("--mode", options.mode, "how a step runs",
              {"eager", "aot_eager", "compiled", "step", "step-graph"});
  line.option("--device", options.device, "where it runs", {"cpu", "cuda"});
  line.list("--id", options.ids, "only this run; may be given several times");
  if (const auto status = line.parse(argc, argv)) return *status;
  try {
    return weft::tests::run_all(options);
  } catch (const std::exception& error) {
    std::cerr << "weft_training: " << error.what() << '\n';
    return 2;
  }
}
