// Trains a small network to read handwritten digits, and prints how well and how fast it does in each mode.
// Needs weft.h as any user's program does; CLI11 for the command line. `scripts/demo` builds and runs it.
#include <weft.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
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

// How the training step is run. Modes that compile it join this list as they come.
const std::vector<std::string> kModes = {"eager"};

struct Options {
  int64_t epochs = 30;
  double lr = 1e-2;
  int64_t batch = 48;
  uint64_t seed = 0;
  int threads = 0;  // 0: as many as the machine has
  std::string data = WEFT_EXAMPLE_DATA_DIR "/digits.csv";
  std::string save, load, mode;
};

struct Result {
  std::string mode;
  double accuracy, seconds_per_step, seconds;
};

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// One digit a line: 64 pixels from 0 to 16, then the label.
data::TensorDataset read_digits(const std::string& path) {
  Tensor table = data::read_csv(path);
  WEFT_CHECK(table.size(1) == 65, "'", path, "' has ", table.size(1),
             " columns; a digit has 64 pixels and a label");
  Tensor pixels = table.narrow(1, 0, 64) / 16;
  Tensor labels = table.select(1, 64).to(kInt64);
  return data::TensorDataset(pixels, labels);
}

Result run(const std::string& mode, const Options& options) {
  const double start = seconds_now();
  manual_seed(options.seed);

  // The seed shuffles the rows, deals out 1,400 to train on and 397 to test on, and orders each epoch.
  auto [train_set, test_set] = data::random_split(read_digits(options.data), {1400, 397}, options.seed);
  data::DataLoader loader(train_set, data::DataLoaderOptions(options.batch).shuffle(true).seed(options.seed));

  auto net = std::make_shared<Net>();
  if (!options.load.empty()) load(net, options.load);
  optim::AdamW optimizer(net->parameters(), optim::AdamWOptions(options.lr));

  auto step = [&](const Tensor& x, const Tensor& y) {
    Tensor loss = cross_entropy(net->forward(x), y);
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    return loss;
  };

  const int64_t steps = options.epochs * loader.size();
  const double training_start = seconds_now();
  {
    train::Progress progress(mode, steps);
    for (int64_t epoch = 0; epoch < options.epochs; ++epoch)
      for (auto [x, y] : loader) progress.update(step(x, y), x.size(0));
  }
  const double training_seconds = seconds_now() - training_start;

  net->eval();
  NoGradGuard no_grad;
  const double accuracy = train::accuracy(net->forward(test_set.data()), test_set.target());
  if (!options.save.empty()) save(net, options.save);
  return {mode, accuracy, steps > 0 ? training_seconds / static_cast<double>(steps) : 0,
          seconds_now() - start};
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

    std::printf("%-8s %14s %12s %9s\n", "mode", "test accuracy", "time a step", "in all");
    for (const Result& result : results)
      std::printf("%-8s %12.2f %% %9.0f us %7.2f s\n", result.mode.c_str(), 100 * result.accuracy,
                  1e6 * result.seconds_per_step, result.seconds);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const std::exception& error) {  // a wrong flag, a file that is missing or does not fit
    std::cerr << "mlp: " << error.what() << "\n";
    return 1;
  }
}
