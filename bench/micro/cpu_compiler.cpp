// What it costs to make a kernel of its source: by the steps or by the driver, at other levels of optimisation, and found on disk.
// Place: above the library; figures are in bench/RESULTS.md.
#include "compiler/codegen/cpu_compiler.h"

#include <benchmark/benchmark.h>
#include <dlfcn.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "tensor/base/error.h"

namespace {

using namespace weft::compiler;

// RMSNorm and SiLU as a generated kernel looks: no headers, vector extensions, tails by a copy of some lanes.
constexpr const char* kKernel = R"(
typedef float f32 __attribute__((vector_size(64)));
typedef float f32_anywhere __attribute__((vector_size(64), may_alias, aligned(4)));
typedef int i32 __attribute__((vector_size(64)));
static inline f32 splat(float x) { return f32{} + x; }
static inline f32 load(const float* p) { return *(const f32_anywhere*)p; }
static inline void store(float* p, f32 x) { *(f32_anywhere*)p = x; }
static inline f32 load_some(const float* p, long n) { f32 x = {}; __builtin_memcpy(&x, p, n * 4); return x; }
static inline void store_some(float* p, f32 x, long n) { __builtin_memcpy(p, &x, n * 4); }
static inline f32 exponential(f32 x) {
  x = x > splat(88.7f) ? splat(88.7f) : x;
  x = x < splat(-87.3f) ? splat(-87.3f) : x;
  const f32 t = x * 1.44269504f;
  const i32 k = __builtin_convertvector(t + (t < 0.f ? splat(-0.5f) : splat(0.5f)), i32);
  const f32 n = __builtin_convertvector(k, f32);
  f32 r = x - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  f32 p = splat(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.f;
  return p * (f32)((k + 127) << 23);
}
static inline f32 silu(f32 x) { return x * (1.f / (1.f + exponential(-x))); }
static inline float sum(f32 a) {
  for (int w = 8; w > 0; w /= 2) {
    f32 b = {};
    for (int i = 0; i < w; ++i) b[i] = a[i] + a[i + w];
    a = b;
  }
  return a[0];
}
extern "C" void rms_norm_silu(void* const* buffers, const long* sizes, int threads) {
  const float* const x = (const float*)buffers[0];
  const float* const w = (const float*)buffers[1];
  float* const y = (float*)buffers[2];
  const long rows = sizes[0], columns = sizes[1];
#pragma omp parallel for num_threads(threads) if (threads > 1)
  for (long i = 0; i < rows; ++i) {
    const float* const in = x + i * columns;
    float* const out = y + i * columns;
    f32 a0 = {}, a1 = {}, a2 = {}, a3 = {};
    long j = 0;
    for (; j + 64 <= columns; j += 64) {
      const f32 b0 = load(in + j), b1 = load(in + j + 16), b2 = load(in + j + 32), b3 = load(in + j + 48);
      a0 += b0 * b0; a1 += b1 * b1; a2 += b2 * b2; a3 += b3 * b3;
    }
    for (; j + 16 <= columns; j += 16) { const f32 b = load(in + j); a0 += b * b; }
    if (j < columns) { const f32 b = load_some(in + j, columns - j); a0 += b * b; }
    const float r = 1.f / __builtin_sqrtf(sum((a0 + a1) + (a2 + a3)) / (float)columns + 1e-5f);
    for (j = 0; j + 16 <= columns; j += 16) store(out + j, silu(load(in + j) * r * load(w + j)));
    if (j < columns)
      store_some(out + j, silu(load_some(in + j, columns - j) * r * load_some(w + j, columns - j)), columns - j);
  }
}
)";

// What the tools have computed, in milliseconds a compilation: on a machine that others use it says more than the clock.
class ToolTime {
 public:
  explicit ToolTime(benchmark::State& state) : state_(state), start_(now()) {}
  ~ToolTime() {
    state_.counters["tools_cpu_ms"] =
        (now() - start_) / static_cast<double>(std::max<int64_t>(state_.iterations(), 1));
  }

 private:
  static double now() {
    struct rusage usage;
    ::getrusage(RUSAGE_CHILDREN, &usage);
    const auto milliseconds = [](timeval t) {
      return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_usec) * 1e-3;
    };
    return milliseconds(usage.ru_utime) + milliseconds(usage.ru_stime);
  }
  benchmark::State& state_;
  double start_;
};

// A cache that goes with the benchmark.
struct Place {
  Place() {
    std::string pattern = (std::filesystem::temp_directory_path() / "weft_bench_XXXXXX").string();
    WEFT_CHECK(::mkdtemp(pattern.data()) != nullptr, "bench: ", pattern, " cannot be made");
    path = pattern;
    cache = std::make_unique<DiskCache>(DiskCacheOptions{path + "/cache"});
  }
  ~Place() { std::filesystem::remove_all(path); }
  CpuCompilerOptions options() const {
    CpuCompilerOptions options = CpuCompilerOptions::of_environment();
    options.cache = cache.get();
    return options;
  }
  std::string path;
  std::unique_ptr<DiskCache> cache;
};

CpuSource kernel(int64_t number = 0) { return {"// " + std::to_string(number) + kKernel, {"rms_norm_silu"}}; }

// All of it, with the store: a source that nobody has seen.
void cold(benchmark::State& state) {
  const Place place;
  CpuCompiler compiler(place.options());
  int64_t number = 0;
  const ToolTime time(state);
  for (auto _ : state) {
    const CpuSource source = kernel(++number);
    benchmark::DoNotOptimize(compiler.compile({&source, 1}));
  }
}
BENCHMARK(cold)->Name("cpu_compiler/cold")->Unit(benchmark::kMillisecond)->UseRealTime();

// What a new process does: finds the compiler, looks the source up, checks and loads the library.
void warm(benchmark::State& state) {
  Place place;
  const CpuSource source = kernel();
  CpuCompiler(place.options()).compile({&source, 1});
  for (auto _ : state) {
    place.cache = std::make_unique<DiskCache>(DiskCacheOptions{place.path + "/cache"});
    CpuCompiler compiler(place.options());
    benchmark::DoNotOptimize(compiler.compile({&source, 1}));
    if (compiler.stats().programs != 0) state.SkipWithError("a program was started");
  }
}
BENCHMARK(warm)->Name("cpu_compiler/warm")->Unit(benchmark::kMicrosecond)->UseRealTime();

// The tools as they are used, or with "-O1" or "-O3" and all that belongs to it in place of what was chosen.
CpuToolchain tools_at(const std::string& level, DiskCache& cache) {
  uint64_t started = 0;
  CpuToolchain tools = find_cpu_toolchain("", weft::cpu::current_isa(), cache, started);
  if (level.empty()) return tools;
  for (Arguments* words : {&tools.flags, &tools.compile}) {
    std::erase_if(*words, [](const std::string& word) {
      static const Arguments kept = {"-fno-math-errno", "-fno-exceptions", "-fno-rtti"};
      return word == "-fpeel-loops" ||
             (word.rfind("-fno-", 0) == 0 && std::find(kept.begin(), kept.end(), word) == kept.end());
    });
    std::replace(words->begin(), words->end(), std::string("-O2"), level);
  }
  return tools;
}

// Empty, or what failed.
std::string run_tools(const CpuToolchain& tools, bool is_direct, const std::string& path) {
  const Descriptor input = Descriptor::read(path + "/k.cpp");
  if (!is_direct)
    return ChildProcess(tools.driver_command(path + "/k.so"), {&input, nullptr, nullptr}).wait();
  const Descriptor output = Descriptor::write(path + "/k.s");
  std::string failure = ChildProcess(tools.compile, {&input, &output, nullptr}).wait();
  const Descriptor assembly = Descriptor::read(path + "/k.s");
  failure += ChildProcess(tools.assemble_command(path + "/k.o"), {&assembly, nullptr, nullptr}).wait();
  failure += ChildProcess(tools.link_command(path + "/k.o", path + "/k.so"), {}).wait();
  return failure;
}

// Without the store; by the steps, or by the driver.
void tools(benchmark::State& state, const std::string& level, bool is_direct) {
  const Place place;
  const CpuToolchain tools = tools_at(level, *place.cache);
  if (is_direct && tools.compile.empty())
    return state.SkipWithError("this compiler is run by its driver only");
  write_file(place.path + "/k.cpp", kernel().text);
  const ToolTime time(state);
  for (auto _ : state) {
    if (const std::string failure = run_tools(tools, is_direct, place.path); !failure.empty())
      return state.SkipWithError(failure.c_str());
  }
}
BENCHMARK_CAPTURE(tools, driver, "", false)
    ->Name("cpu_compiler/driver")
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(tools, steps, "", true)
    ->Name("cpu_compiler/steps")
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(tools, steps_O3, "-O3", true)
    ->Name("cpu_compiler/steps_O3")
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(tools, steps_O1, "-O1", true)
    ->Name("cpu_compiler/steps_O1")
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

// What they make: 16 rows of 1000 floats, which stay in the second level of cache.
void kernel_runs(benchmark::State& state, const std::string& level) {
  const Place place;
  const CpuToolchain tools = tools_at(level, *place.cache);
  write_file(place.path + "/k.cpp", kernel().text);
  const std::string failure = run_tools(tools, false, place.path);
  if (!failure.empty()) return state.SkipWithError(failure.c_str());
  const CpuLibrary library(::dlopen((place.path + "/k.so").c_str(), RTLD_NOW | RTLD_LOCAL));
  const long sizes[] = {16, 1000};
  std::vector<float> x(16000, 0.3f), w(1000, 1.1f), y(16000);
  void* const buffers[] = {x.data(), w.data(), y.data()};
  const auto function =
      reinterpret_cast<void (*)(void* const*, const long*, int)>(library.entry("rms_norm_silu"));
  for (auto _ : state) {
    function(buffers, sizes, 1);
    benchmark::ClobberMemory();
  }
}
BENCHMARK_CAPTURE(kernel_runs, chosen, "")->Name("cpu_compiler/kernel")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(kernel_runs, O3, "-O3")->Name("cpu_compiler/kernel_O3")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(kernel_runs, O1, "-O1")->Name("cpu_compiler/kernel_O1")->Unit(benchmark::kMicrosecond);

}  // namespace
