// A small network under every backend and mode: what each costs at first and at each call, and which one pays for how many calls.
// Needs weft.h; CLI11 for the command line.
#include <weft.h>

#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iostream>

using namespace weft;

// Layers of these sizes, with relu between them.
struct SimpleMLP : nn::Module {
  nn::Linear fc1{nullptr}, fc2{nullptr}, fc3{nullptr};
  explicit SimpleMLP(const std::vector<int64_t>& sizes)
      : fc1(register_module("fc1", nn::Linear(sizes[0], sizes[1]))),
        fc2(register_module("fc2", nn::Linear(sizes[1], sizes[2]))),
        fc3(register_module("fc3", nn::Linear(sizes[2], sizes[3]))) {}
  Tensor forward(const Tensor& x) { return fc3(relu(fc2(relu(fc1(x))))); }
};

Device used_device(kCPU);  // that the network lies on

// When all work is done: a GPU works on while the program goes on.
double seconds_now() {
  if (used_device.is_cuda()) cuda::synchronize();
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

using Forward = std::function<Tensor(const Tensor&)>;

// One way to run the network.
struct Way {
  std::string backend, mode;  // no backend: as it is written
  std::string why_not = {};   // it cannot run; empty if it can
  Forward forward = {};
  double first_call = 0;
  double step = 0;    // seconds: the median over rounds
  double launch = 0;  // of that: what is left where the layers have one element
  std::vector<double> rounds = {};
  double compile_seconds() const { return backend.empty() ? 0 : std::max(0.0, first_call - step); }
  double all(double steps) const { return compile_seconds() + steps * step; }
  std::string name() const {
    return backend.empty() ? "eager, no compile" : backend + (mode == "default" ? "" : ", " + mode);
  }
};

// What the machine lacks for a mode; empty if nothing.
std::string lacks(const std::string& backend, const std::string& mode) {
  if (mode == "max-autotune") return "kernels come without variants to choose from";
  if (mode != "reduce-overhead" && backend != "cudagraphs") return "";
  if (!cuda::is_available()) return "CUDA graphs need a GPU: " + cuda::why_unavailable();
  return used_device.is_cuda() ? "" : "CUDA graphs need tensors on the GPU: --device cuda";
}

// Runs it for the first time, or says why that is not possible.
void start(Way& way, const std::shared_ptr<SimpleMLP>& net, const Tensor& x) {
  way.why_not = lacks(way.backend, way.mode);
  if (!way.why_not.empty()) return;
  try {
    way.forward = [net](const Tensor& input) { return net->forward(input); };
    const double begin = seconds_now();
    if (!way.backend.empty())
      way.forward = compile(way.forward, {.backend = Backend(way.backend), .mode = way.mode});
    way.forward(x);
    way.first_call = seconds_now() - begin;
  } catch (const Error& error) {
    const std::string text = error.what();
    way.why_not = text.substr(0, text.find('\n'));
  }
}

// Seconds a call.
double time_calls(const std::function<void()>& call, int calls) {
  const double begin = seconds_now();
  for (int i = 0; i < calls; ++i) call();
  return (seconds_now() - begin) / calls;
}

// Ways take turns, so that what else the machine does meets all of them.
void time_rounds(std::vector<Way>& ways, const Tensor& x, int rounds, int calls, double Way::*result) {
  for (Way& way : ways) way.rounds.clear();
  for (int round = 0; round < rounds; ++round)
    for (Way& way : ways)
      if (way.forward) way.rounds.push_back(time_calls([&] { way.forward(x); }, calls));
  for (Way& way : ways)
    if (way.forward) way.*result = median(way.rounds);
}

// The ops of the network, each timed by itself on what it gets there.
std::vector<std::pair<std::string, double>> time_ops(SimpleMLP& net, const Tensor& x, int rounds, int calls) {
  const Tensor a = net.fc1(x), b = relu(a), c = net.fc2(b), d = relu(c);
  const std::vector<std::pair<std::string, std::function<void()>>> ops = {{"fc1", [&] { net.fc1(x); }},
                                                                          {"relu", [&] { relu(a); }},
                                                                          {"fc2", [&] { net.fc2(b); }},
                                                                          {"relu", [&] { relu(c); }},
                                                                          {"fc3", [&] { net.fc3(d); }}};
  std::vector<std::pair<std::string, double>> result;
  for (const auto& [name, op] : ops) {
    std::vector<double> times;
    for (int round = 0; round < rounds; ++round) times.push_back(time_calls(op, calls));
    result.emplace_back(name, median(std::move(times)));
  }
  return result;
}

void print_table(const std::vector<Way>& ways, double steps) {
  std::printf("%-24s %12s %10s %8s %12s %10s %10s\n", "backend, mode", "first call", "a step", "S", "t_fused",
              "t_launch", "R");
  for (const Way& way : ways) {
    if (!way.why_not.empty()) {
      std::printf("%-24s cannot run: %s\n", way.name().c_str(), way.why_not.c_str());
      continue;
    }
    const double saved = ways[0].step - way.step;
    const double compiling = way.compile_seconds();
    std::printf("%-24s %10.4f s %7.1f us %8.2f ", way.name().c_str(), way.first_call, 1e6 * way.step,
                ways[0].step / way.step);
    if (&way == &ways[0]) std::printf("%12s %10s %10s\n", "-", "-", "-");
    else if (compiling > 0)
      std::printf("%9.1f us %7.1f us %10.2f\n", 1e6 * (way.step - way.launch), 1e6 * way.launch,
                  saved * steps / compiling);
    else  // the first call took no longer than others
      std::printf("%9.1f us %7.1f us %10s\n", 1e6 * (way.step - way.launch), 1e6 * way.launch,
                  saved > 0 ? "at once" : "never");
  }
}

void print_pick(const std::vector<Way>& ways, double steps) {
  const Way* best = &ways[0];
  for (const Way& way : ways)
    if (way.why_not.empty() && way.all(steps) < best->all(steps)) best = &way;
  std::printf("for N = %6.0f steps: %s (%.4f s in all; eager %.4f s)\n", steps, best->name().c_str(),
              best->all(steps), ways[0].all(steps));
}

int main(int argc, char** argv) {
  int64_t batch = 64;
  int rounds = 9, calls = 200, threads = 0;
  bool warm = false;
  std::string device_name = "cpu";
  CLI::App app("Runs a network of 512-256-128-10 under every backend and mode.", "backends");
  app.option_defaults()->always_capture_default();
  app.add_option("--batch", batch, "rows of the input")->check(CLI::PositiveNumber);
  app.add_option("--rounds", rounds, "of the loop of calls, of which the median is taken")
      ->check(CLI::PositiveNumber);
  app.add_option("--calls", calls, "in a round")->check(CLI::PositiveNumber);
  app.add_option("--threads", threads, "CPU threads; 0 for all")->check(CLI::NonNegativeNumber);
  app.add_option("--device", device_name, "cpu or cuda")->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_flag("--warm", warm, "take kernels that an earlier run has left in the disk cache");
  CLI11_PARSE(app, argc, argv);
  if (threads > 0) set_num_threads(threads);
  used_device = Device(device_name);
  if (used_device.is_cuda() && !cuda::is_available()) {
    std::cerr << "backends: --device cuda: " << cuda::why_unavailable() << "\n";
    return 1;
  }

  const auto cache = std::filesystem::temp_directory_path() / ("weft_backends_" + std::to_string(getpid()));
  if (!warm) setenv("WEFT_CACHE_DIR", cache.c_str(), 1);

  manual_seed(0);
  NoGradGuard no_grad;
  const auto net = std::make_shared<SimpleMLP>(std::vector<int64_t>{512, 256, 128, 10});
  const auto tiny = std::make_shared<SimpleMLP>(std::vector<int64_t>{1, 1, 1, 1});
  net->to(used_device);
  tiny->to(used_device);
  const Tensor x = randn({batch, 512}).to(used_device), one = randn({1, 1}).to(used_device);

  std::vector<Way> ways = {{"", "default"}};
  for (const std::string& name : backend_names())
    if (name != "weft") ways.push_back({name, "default"});
  ways.push_back({"weft", "default"});
  ways.push_back({"cudagraphs", "default"});
  for (const char* mode : {"reduce-overhead", "max-autotune"}) ways.push_back({"weft", mode});

  net->forward(x);  // memory and threads are there
  std::vector<Way> tiny_ways = ways;
  for (size_t i = 0; i < ways.size(); ++i) {
    start(ways[i], net, x);
    start(tiny_ways[i], tiny, one);
    if (ways[i].why_not.empty() && !allclose(ways[i].forward(x), net->forward(x), 1e-6, 1e-6))
      ways[i].why_not = "its result is not that of eager mode";
  }
  time_rounds(ways, x, rounds, calls, &Way::step);
  time_rounds(tiny_ways, one, rounds, calls, &Way::step);
  for (size_t i = 0; i < ways.size(); ++i) ways[i].launch = tiny_ways[i].step;
  const auto ops = time_ops(*net, x, rounds, calls);

  constexpr double kFew = 10, kMany = 10000;
  const std::string where =
      used_device.is_cuda() ? cuda::get_device_name() : std::to_string(num_threads()) + " threads";
  std::printf("SimpleMLP 512-256-128-10, batch %lld, %s, kernels %s\n\n", static_cast<long long>(batch),
              where.c_str(), warm ? "from the disk cache where they are there" : "compiled anew");
  print_table(ways, kMany);
  double sum = 0;
  std::printf("\nops one by one:");
  for (const auto& [name, time] : ops) {
    std::printf(" %s %.1f", name.c_str(), 1e6 * time);
    sum += time;
  }
  const auto weft = std::find_if(ways.begin(), ways.end(), [](const Way& way) {
    return way.backend == "weft" && way.mode == "default";
  });
  std::printf(" us; their sum %.1f us, against t_fused + t_launch = %.1f + %.1f us of weft\n", 1e6 * sum,
              1e6 * (weft->step - weft->launch), 1e6 * weft->launch);
  std::printf(
      "S = T_eager / T; t_launch: a call of the same network with layers of one element; t_fused: the rest "
      "of "
      "a step;\nR = (T_eager - T) N / T_compile for N = %.0f: compiling has paid where it is above 1\n\n",
      kMany);
  print_pick(ways, kFew);
  print_pick(ways, kMany);
  std::error_code ignored;  // the system clears its directory of temporary files too
  if (!warm) std::filesystem::remove_all(cache, ignored);
}
