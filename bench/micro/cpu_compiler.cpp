// What it costs to make a kernel of its source: by the steps or by the driver, at -O2 and -O3, and found on disk.
// Place: above the library; figures are in bench/RESULTS.md.
#include "compiler/codegen/cpu_compiler.h"

#include <benchmark/benchmark.h>
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

// Without a store: "-O2" or "-O3"; by the steps, or by the driver.
void tools(benchmark::State& state, const std::string& level, bool is_direct) {
  const Place place;
  uint64_t started = 0;
  CpuToolchain tools = find_cpu_toolchain("", weft::cpu::current_isa(), *place.cache, started);
  if (is_direct && tools.compile.empty())
    return state.SkipWithError("this compiler is run by its driver only");
  for (Arguments* words : {&tools.flags, &tools.compile})
    std::replace(words->begin(), words->end(), std::string("-O3"), level);
  const std::string text = place.path + "/k.cpp", object = place.path + "/k.o",
                    library = place.path + "/k.so";
  write_file(text, kernel().text);
  const ToolTime time(state);
  for (auto _ : state) {
    const Descriptor input = Descriptor::read(text);
    std::string failure;
    if (is_direct) {
      const std::string assembly = place.path + "/k.s";
      const Descriptor output = Descriptor::write(assembly);
      failure += ChildProcess(tools.compile, {&input, &output, nullptr}).wait();
      const Descriptor back = Descriptor::read(assembly);
      failure += ChildProcess(tools.assemble_command(object), {&back, nullptr, nullptr}).wait();
      failure += ChildProcess(tools.link_command(object, library), {}).wait();
    } else {
      failure += ChildProcess(tools.driver_command(library), {&input, nullptr, nullptr}).wait();
    }
    if (!failure.empty()) return state.SkipWithError(failure.c_str());
  }
}
BENCHMARK_CAPTURE(tools, driver_O3, "-O3", false)
    ->Name("cpu_compiler/driver_O3")
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(tools, steps_O3, "-O3", true)
    ->Name("cpu_compiler/steps_O3")
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(tools, steps_O2, "-O2", true)
    ->Name("cpu_compiler/steps_O2")
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(tools, steps_O1, "-O1", true)
    ->Name("cpu_compiler/steps_O1")
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace
