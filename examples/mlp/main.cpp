// Trains a small network to read handwritten digits, and prints how well and how fast it does in each mode.
// Needs weft.h as any user's program does; CLI11 for the command line. `scripts/demo` builds and runs it.
#include <weft.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iostream>

using namespace weft;

// 64 pixels -> 48 hidden values -> 10 logits, one for each digit.
struct Net : nn::Module {
  nn::RMSNorm norm1 = register_module("norm1", nn::RMSNorm(64));
  nn::Linear fc1 = register_module("fc1", nn::Linear(64, 48));
  nn::RMSNorm norm2 = register_module("norm2", nn::RMSNorm(48));
  nn::Linear fc2 = register_module("fc2", nn::Linear(48, 10));

  Tensor forward(const Tensor& x) { return fc2(norm2(silu(fc1(norm1(x))))); }
};

// How the training step is run: as it is written; with the model and its loss compiled; with all of it compiled, the update of
// the weights too.
const std::vector<std::string> kModes = {"eager", "compiled", "step"};

struct Options {
  int64_t epochs = 30;
  double lr = 1e-2;
  int64_t batch = 48;
  uint64_t seed = 0;
  int threads = 0;  // 0: as many as the machine has
  std::string data = WEFT_EXAMPLE_DATA_DIR "/digits.csv";
  std::string save, load, mode, device = "cpu";
};

struct Result {
  std::string mode;
  double accuracy = 0;
  double loss = 0;              // of step 25
  double compile_seconds = 0;   // what the steps that compiled took longer than the others
  double seconds_per_step = 0;  // the median
  int64_t steps = 0;
};

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// One digit a line: 64 pixels from 0 to 16, then the label.
data::TensorDataset read_digits(const std::string& path, Device device) {
  Tensor table = data::read_csv(path);
  WEFT_CHECK(table.size(1) == 65, "'", path, "' has ", table.size(1),
             " columns; a digit has 64 pixels and a label");
  Tensor pixels = table.narrow(1, 0, 64) / 16;
  Tensor labels = table.select(1, 64).to(kInt64);
  return data::TensorDataset(pixels.to(device), labels.to(device));
}

Result run(const std::string& mode, const Options& options) {
  manual_seed(options.seed);
  const Device device(options.device);

  // The seed shuffles the rows, deals out 1,400 to train on and 397 to test on, and orders each epoch.
  auto [train_set, test_set] =
      data::random_split(read_digits(options.data, device), {1400, 397}, options.seed);
  data::DataLoader loader(train_set, data::DataLoaderOptions(options.batch).shuffle(true).seed(options.seed));

  auto net = std::make_shared<Net>();
  if (!options.load.empty()) load(net, options.load);
  net->to(device);
  optim::AdamW optimizer(net->parameters(), optim::AdamWOptions(options.lr));

  std::function<Tensor(Tensor, Tensor)> loss_of = [net](Tensor x, Tensor y) {
    return cross_entropy(net->forward(x), y);
  };
  if (mode == "compiled") loss_of = compile(loss_of);
  std::function<Tensor(Tensor, Tensor)> step = [&optimizer, loss_of](Tensor x, Tensor y) {
    Tensor loss = loss_of(x, y);
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    return loss;
  };
  if (mode == "step") step = compile(step);

  Result result;
  result.mode = mode;
  result.steps = options.epochs * loader.size();
  std::vector<double> times, compiling;
  {
    train::Progress progress(mode, result.steps);
    for (int64_t epoch = 0; epoch < options.epochs; ++epoch) {
      for (auto [x, y] : loader) {
        const uint64_t compilations = compile_stats().compilations;
        const double start = seconds_now();
        const Tensor loss = step(x, y);
        if (device.is_cuda()) cuda::synchronize();  // a GPU works on while the program goes on
        const double seconds = seconds_now() - start;
        (compile_stats().compilations == compilations ? times : compiling).push_back(seconds);
        constexpr size_t kCompared = 25;
        if (times.size() + compiling.size() == kCompared) result.loss = loss.item<double>();
        progress.update(loss, x.size(0));
      }
    }
  }
  result.seconds_per_step = median(times);
  for (const double seconds : compiling) result.compile_seconds += seconds - result.seconds_per_step;

  net->eval();
  NoGradGuard no_grad;
  result.accuracy = train::accuracy(net->forward(test_set.data()), test_set.target());
  if (!options.save.empty()) save(net, options.save);
  return result;
}

// What each mode took, and after how many steps compiling has paid against eager.
void print_table(const std::vector<Result>& results) {
  std::printf("\n%-9s %10s %14s %10s %10s %12s %10s\n", "mode", "accuracy", "loss, step 25", "compile",
              "a step", "all steps", "pays after");
  for (const Result& result : results) {
    const double all = result.compile_seconds + static_cast<double>(result.steps) * result.seconds_per_step;
    std::string pays = "-";
    const double saved = results[0].seconds_per_step - result.seconds_per_step;
    if (&result != &results[0] && results[0].mode == "eager")
      pays = saved > 0 ? std::to_string(static_cast<int64_t>(std::ceil(result.compile_seconds / saved)))
                       : "never";
    std::printf("%-9s %8.2f %% %14.7f %8.2f s %7.0f us %10.2f s %10s\n", result.mode.c_str(),
                100 * result.accuracy, result.loss, result.compile_seconds, 1e6 * result.seconds_per_step,
                all, pays.c_str());
  }
}

// Checks a flag's number before it is stored: "--batch: 0 should be a number of 1 or more".
CLI::Validator at_least(double least) {
  return CLI::Validator(
      [least](std::string& text) {
        double value;
        const bool ok = CLI::detail::lexical_cast(text, value) && value >= least;
        return ok ? std::string()
                  : text + " should be a number of " + CLI::detail::to_string(least) + " or more";
      },
      "");
}

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Trains a small network to read handwritten digits.", "mlp");
  app.option_defaults()->always_capture_default();
  app.add_option("--epochs", options.epochs, "walks through the training rows")->check(at_least(0));
  app.add_option("--lr", options.lr, "learning rate of AdamW")->check(at_least(0));
  app.add_option("--batch", options.batch, "rows in a step")->check(at_least(1));
  app.add_option("--seed", options.seed, "of initial weights and the order of rows")->check(at_least(0));
  app.add_option("--threads", options.threads, "CPU threads; 0 for all")->check(at_least(0));
  app.add_option("--device", options.device, "cpu or cuda")->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--data", options.data, "CSV file of digits");
  app.add_option("--save", options.save, "write the trained weights to this safetensors file");
  app.add_option("--load", options.load, "begin with the weights of this safetensors file");
  app.add_option("--mode", options.mode, "every mode if not given")->check(CLI::IsMember(kModes));

  try {
    app.parse(argc, argv);
    if (options.threads > 0) set_num_threads(options.threads);

    std::vector<Result> results;
    for (const std::string& mode : kModes)
      if (options.mode.empty() || options.mode == mode) results.push_back(run(mode, options));

    print_table(results);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const std::exception& error) {  // a wrong flag, a file that is missing or does not fit
    std::cerr << "mlp: " << error.what() << "\n";
    return 1;
  }
}
