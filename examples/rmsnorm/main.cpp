// A normalisation and its activation, y = silu(x · rsqrt(mean(x²) + eps) · w), as one call after another and as one kernel.
// Needs weft.h; CLI11 for the command line.
#include <weft.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>

using namespace weft;

Tensor rmsnorm_silu(Tensor x, Tensor w) { return silu(x * rsqrt(mean(square(x), {-1}, true) + 1e-6) * w); }

Device used_device(kCPU);  // that the tensors lie on

double milliseconds(const std::function<void()>& run) {
  const auto start = std::chrono::steady_clock::now();
  run();
  if (used_device.is_cuda()) cuda::synchronize();  // a GPU works on while the program goes on
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// What moving the same bytes costs at least; on the CPU with plain stores of all threads.
void copy(const Tensor& from, Tensor& to) {
  if (used_device.is_cuda()) {
    to.copy_(from);
    return;
  }
  const float* const source = from.data_ptr<float>();
  float* const target = to.data_ptr<float>();
  parallel_for(from.numel(), 1 << 16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) target[i] = source[i];
  });
}

double megabytes(int64_t bytes) { return 1e-6 * static_cast<double>(bytes); }

int main(int argc, char** argv) {
  int64_t rows = 4096, columns = 4096;
  int rounds = 15, threads = 0;
  bool show_code = false;
  std::string device_name = "cpu";
  CLI::App app("Runs RMSNorm and SiLU eagerly and compiled.", "rmsnorm");
  app.option_defaults()->always_capture_default();
  app.add_option("--rows", rows, "rows of x")->check(CLI::PositiveNumber);
  app.add_option("--columns", columns, "columns of x")->check(CLI::PositiveNumber);
  app.add_option("--rounds", rounds, "calls of each, of which the median is taken")
      ->check(CLI::PositiveNumber);
  app.add_option("--threads", threads, "CPU threads; 0 for all")->check(CLI::NonNegativeNumber);
  app.add_option("--device", device_name, "cpu or cuda")->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_flag("--code", show_code, "print the generated code");
  CLI11_PARSE(app, argc, argv);
  if (threads > 0) set_num_threads(threads);
  used_device = Device(device_name);
  if (used_device.is_cuda() && !cuda::is_available()) {
    std::cerr << "rmsnorm: --device cuda: " << cuda::why_unavailable() << "\n";
    return 1;
  }

  manual_seed(0);
  NoGradGuard no_grad;
  const Tensor x = randn({rows, columns}).to(used_device), w = rand({columns}).to(used_device);
  const auto compiled = compile(rmsnorm_silu, {.name = "rmsnorm_silu", .arguments = {"x", "w"}});
  const double first_call = milliseconds([&] { compiled(x, w); });
  if (!equal(compiled(x, w), rmsnorm_silu(x, w))) {
    std::cerr << "rmsnorm: compiled and eager results differ\n";
    return 1;
  }

  const Explanation explanation = explain(compiled, x, w);
  std::cout << explanation << "\n";
  if (show_code) std::cout << explanation.code() << "\n";
  const Explanation::Graph& graph = explanation.entries[0].graphs[0];

  // They take turns, so that what else the machine does meets all three; each writes into memory that was used before.
  std::vector<double> eager_times, compiled_times, copy_times, gains, ratios;
  Tensor target = zeros_like(x);
  for (int round = 0; round < rounds; ++round) {
    eager_times.push_back(milliseconds([&] { rmsnorm_silu(x, w); }));
    compiled_times.push_back(milliseconds([&] { compiled(x, w); }));
    copy_times.push_back(milliseconds([&] { copy(x, target); }));
    gains.push_back(eager_times.back() / compiled_times.back());
    ratios.push_back(compiled_times.back() / copy_times.back());
  }
  const std::string where =
      used_device.is_cuda() ? cuda::get_device_name() : std::to_string(num_threads()) + " threads";
  std::printf("%lld x %lld float32, %s; compiled in %.0f ms at the first call; medians of %d calls\n\n",
              static_cast<long long>(rows), static_cast<long long>(columns), where.c_str(), first_call,
              rounds);
  std::printf("%-10s %12s %10s %8s\n", "", "MB moved", "ms", "GB/s");
  const auto line = [](const char* name, int64_t bytes, double ms) {
    std::printf("%-10s %12.1f %10.2f %8.1f\n", name, megabytes(bytes), ms, megabytes(bytes) / ms);
  };
  line("eager", graph.unfused.total(), median(eager_times));
  line("compiled", graph.bytes.total(), median(compiled_times));
  line("a copy", 2 * static_cast<int64_t>(x.nbytes()), median(copy_times));
  std::printf(
      "\ncompiled moves %.1f times fewer bytes, is %.1f times faster, and takes %.2f times as long as a "
      "copy\n",
      static_cast<double>(graph.unfused.total()) / static_cast<double>(graph.bytes.total()), median(gains),
      median(ratios));
}
