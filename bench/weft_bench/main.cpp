// weft_bench: times the yardstick cases and prints one JSON object a line.
// Place: above the library; docs of the fields in bench/README.md.
#include <nlohmann/json.hpp>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <regex>

#include "bench/weft_bench/cases.h"
#include "bench/weft_bench/copy.h"
#include "tensor/cpu/isa.h"
#include "tensor/cpu/parallel.h"
#include "tensor/cuda/cuda.h"
#include "tests/support/command_line.h"

namespace {

using namespace weft;
using Json = nlohmann::ordered_json;

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

constexpr double kDeviceSeconds = 0.2;  // of calls, for each mode

double rounded(double value, double digits) { return std::round(value * digits) / digits; }

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// A GPU is still at work when a call returns.
void finish(Device device) {
  if (device.is_cuda()) cuda::synchronize(device.index);
}

// As triton.testing.do_bench measures: events around each call, after a write of 256 MB that clears the L2. The write keeps the
// GPU busy while the host prepares the call, so that the host counts only where it takes longer than that.
double device_us(const std::function<void()>& call, double seconds_to_spend) {
  static Tensor& written = *new Tensor(empty({64 << 20}, TensorOptions(kInt32).device(kCUDA)));
  std::vector<double> us;
  const auto measure = [&](int calls) {
    std::vector<std::unique_ptr<cuda::Timer>> timers;
    for (int i = 0; i < calls; ++i) {
      written.zero_();
      timers.push_back(std::make_unique<cuda::Timer>());
      timers.back()->start();
      call();
      timers.back()->stop();
    }
    for (const auto& timer : timers) us.push_back(timer->milliseconds() * 1e3);
  };
  measure(5);
  const double calls = seconds_to_spend * 1e6 / median(us);
  us.clear();
  measure(static_cast<int>(std::clamp(calls, 5.0, 1000.0)));
  return median(us);
}

// A case in one mode, ready to be called.
struct Subject {
  std::string mode;
  std::function<void()> call;
  double first_call = 0;
  std::string error = {};
  std::vector<double> us = {};  // by repetition: the mean of a loop of calls, or the median of their times
};

Subject prepare(const bench::Case& item, const std::string& name, Device device) {
  Subject subject{name, nullptr};
  try {
    const bench::Mode mode = bench::mode_of(name);
    manual_seed(0);
    subject.call = item.make(device, mode);
    finish(device);
    const double start = seconds();
    subject.call();
    finish(device);
    subject.first_call = seconds() - start;
    for (int i = 0; i < std::min(5, item.iterations); ++i) subject.call();
    finish(device);
  } catch (const std::exception& error) {
    subject.error = error.what();
  }
  return subject;
}

// The median over repetitions of the quotient of two times that were taken next to one another.
double median_ratio(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> ratios;
  for (size_t i = 0; i < a.size(); ++i) ratios.push_back(a[i] / b[i]);
  return median(std::move(ratios));
}

// Modes, and the copy of as many bytes, take turns: what else the machine does meets all of them.
std::vector<Json> run(const bench::Case& item, const std::vector<std::string>& modes, Device device,
                      int repetitions) {
  std::vector<Subject> subjects;
  for (const std::string& mode : modes) {
    if ((mode == "step" || mode == "step-graph") && !item.training) continue;
    subjects.push_back(prepare(item, mode, device));
  }
  const bool has_copy = item.bytes > 0 && device == kCPU;
  std::vector<double> copies;
  for (int r = 0; r < repetitions; ++r) {
    if (has_copy) copies.push_back(bench::copy_us(item.bytes));
    for (Subject& subject : subjects) {
      if (!subject.error.empty()) continue;
      if (item.is_device_time && device.is_cuda()) {
        subject.us.push_back(device_us(subject.call, kDeviceSeconds / repetitions));
        continue;
      }
      const double start = seconds();
      for (int i = 0; i < item.iterations; ++i) subject.call();
      finish(device);
      subject.us.push_back((seconds() - start) / item.iterations * 1e6);
    }
  }
  const auto eager = std::find_if(subjects.begin(), subjects.end(), [](const Subject& each) {
    return each.mode == "eager" && each.error.empty();
  });
  std::vector<Json> lines;
  for (const Subject& subject : subjects) {
    Json line{{"case", item.name}, {"dev", device.is_cuda() ? "cuda" : "cpu"}, {"mode", subject.mode}};
    if (!subject.error.empty()) {
      line["error"] = subject.error;
    } else {
      const double us = median(subject.us);
      line["us"] = rounded(us, 1e3);
      line["first_call_s"] = rounded(subject.first_call, 1e6);
      if (item.bytes > 0) line["TBps"] = rounded(item.bytes / us / 1e6, 1e4);
      if (item.flops > 0) line["TFLOPs"] = rounded(item.flops / us / 1e6, 1e4);
      if (has_copy) line["ratio_to_copy"] = rounded(median_ratio(subject.us, copies), 1e3);
      if (eager != subjects.end() && subject.mode != "eager")
        line["times_eager"] = rounded(median_ratio(eager->us, subject.us), 1e3);
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace

int main(int argc, char** argv) {
  tests::CommandLine line("Times Weft on the yardstick cases; one JSON object a line.");
  std::string device_name = "cpu", suite = "yardstick", pattern = ".*", json_path;
  std::vector<std::string> modes;
  int threads = 0, repetitions = 5;
  bool cold = false;
  line.option("--device", device_name, "cpu or cuda", {"cpu", "cuda"});
  line.option("--suite", suite, "yardstick, models, or bandwidth: kernels at 4096x4096",
              {"yardstick", "models", "bandwidth"});
  line.option("--cases", pattern, "regular expression that a case's name must match somewhere");
  line.list("--modes", modes,
            "eager,compiled,reduce-overhead,step,step-graph,aot_eager,interpret,cudagraphs (default: eager)",
            ',');
  line.option("--threads", threads, "threads of the CPU kernels (default: all cores)");
  line.option("--repetitions", repetitions, "of the loop of calls, of which the median is taken");
  line.flag("--cold", cold, "compile everything anew, in a cache that is removed afterwards");
  line.option("--json", json_path, "also write the lines to this file");
  if (const auto status = line.parse(argc, argv)) return *status;
  if (modes.empty()) modes = {"eager"};

  const std::string cache =
      (std::filesystem::temp_directory_path() / ("weft_bench_" + std::to_string(getpid()))).string();
  if (cold) setenv("WEFT_CACHE_DIR", cache.c_str(), 1);
  int failed = 0;
  try {
    if (threads > 0) set_num_threads(threads);
    WEFT_CHECK(suite != "models", "suite 'models' does not exist yet; this build has: yardstick, bandwidth");
    std::ofstream file;
    if (!json_path.empty()) {
      file.open(json_path);
      WEFT_CHECK(file.good(), "cannot write ", json_path);
    }
    const auto emit = [&](const Json& object) {
      std::cout << object.dump() << std::endl;
      if (file.is_open()) file << object.dump() << '\n';
    };
    const Device device(device_name);
    emit(Json{{"weft", "0.1.0"},
              {"threads", num_threads()},
              {"dev", device_name},
              {"isa", cpu::name_of(cpu::current_isa())}});
    const std::regex wanted(pattern);
    for (const bench::Case& item :
         suite == "bandwidth" ? bench::bandwidth_cases() : bench::yardstick_cases(device)) {
      if (!std::regex_search(item.name, wanted)) continue;
      for (const Json& result : run(item, modes, device, repetitions)) {
        failed += result.contains("error");
        emit(result);
      }
    }
  } catch (const std::exception& error) {
    std::cerr << "weft_bench: " << error.what() << '\n';
    failed = 1;
  }
  std::error_code ignored;  // the system clears its directory of temporary files too
  if (cold) std::filesystem::remove_all(cache, ignored);
  return failed == 0 ? 0 : 1;
}
