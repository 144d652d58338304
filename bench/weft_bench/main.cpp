// weft_bench: times the yardstick cases and prints one JSON object a line.
// Place: above the library; docs of the fields in bench/README.md.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>
#include <regex>

#include "bench/weft_bench/cases.h"
#include "tensor/cpu/isa.h"
#include "tensor/cpu/parallel.h"

namespace {

using namespace weft;
using Json = nlohmann::ordered_json;

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double rounded(double value, double digits) { return std::round(value * digits) / digits; }

// The median over repetitions of the mean over a loop of calls, in microseconds.
double loop_us(const std::function<void()>& call, int iterations) {
  for (int i = 0; i < std::min(5, iterations); ++i) call();
  std::vector<double> repetitions;
  for (int r = 0; r < 5; ++r) {
    const double start = seconds();
    for (int i = 0; i < iterations; ++i) call();
    repetitions.push_back((seconds() - start) / iterations * 1e6);
  }
  std::nth_element(repetitions.begin(), repetitions.begin() + 2, repetitions.end());
  return repetitions[2];
}

Json run(const bench::Case& item, const std::string& mode, Device device) {
  Json line{{"case", item.name}, {"dev", device.is_cuda() ? "cuda" : "cpu"}, {"mode", mode}};
  try {
    WEFT_CHECK(mode == "eager", "mode '", mode, "' does not exist yet; this build has: eager");
    manual_seed(0);
    const std::function<void()> call = item.make(device);
    const double start = seconds();
    call();
    const double first = seconds() - start;
    const double us = loop_us(call, item.iterations);
    line["us"] = rounded(us, 1e3);
    line["first_call_s"] = rounded(first, 1e6);
    if (item.bytes > 0) line["TBps"] = rounded(item.bytes / us / 1e6, 1e4);
    if (item.flops > 0) line["TFLOPs"] = rounded(item.flops / us / 1e6, 1e4);
  } catch (const std::exception& error) {
    line["error"] = error.what();
  }
  return line;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Times Weft on the yardstick cases; one JSON object a line."};
  std::string device_name = "cpu", suite = "yardstick", pattern = ".*", json_path;
  std::vector<std::string> modes{"eager"};
  int threads = 0;
  app.add_option("--device", device_name, "cpu or cuda")->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--suite", suite, "yardstick or models")->check(CLI::IsMember({"yardstick", "models"}));
  app.add_option("--cases", pattern, "regular expression that a case's name must match somewhere");
  app.add_option("--modes", modes, "eager,compiled,reduce-overhead,max-autotune,step")->delimiter(',');
  app.add_option("--threads", threads, "threads of the CPU kernels (default: all cores)")
      ->check(CLI::PositiveNumber);
  app.add_option("--json", json_path, "also write the lines to this file");
  CLI11_PARSE(app, argc, argv);

  try {
    if (threads > 0) set_num_threads(threads);
    WEFT_CHECK(suite == "yardstick", "suite '", suite, "' does not exist yet; this build has: yardstick");
    std::ofstream file;
    if (!json_path.empty()) {
      file.open(json_path);
      WEFT_CHECK(file.good(), "cannot write ", json_path);
    }
    const auto emit = [&](const Json& line) {
      std::cout << line.dump() << std::endl;
      if (file.is_open()) file << line.dump() << '\n';
    };
    const Device device(device_name);
    emit(Json{{"weft", "0.1.0"},
              {"threads", num_threads()},
              {"dev", device_name},
              {"isa", cpu::name_of(cpu::current_isa())}});
    const std::regex wanted(pattern);
    int failed = 0;
    for (const bench::Case& item : bench::yardstick_cases(device)) {
      if (!std::regex_search(item.name, wanted)) continue;
      for (const std::string& mode : modes) {
        const Json line = run(item, mode, device);
        failed += line.contains("error");
        emit(line);
      }
    }
    return failed == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << "weft_bench: " << error.what() << '\n';
    return 1;
  }
}
