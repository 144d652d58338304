// CudaProgram finds variants, launches and memory by sizes and addresses: on a driver that compiles nothing and counts launches.
// No GPU is needed. Place: after cuda_codegen_test, whose texts these are.
#include "compiler/codegen/cuda_program.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/compiler/run_body.h"

namespace weft::compiler::tests {
namespace {

using weft::Expr;

struct FakeLaunch {
  uint32_t grid, threads;
  uint64_t first_word;
};
std::vector<FakeLaunch>& launches() {
  static std::vector<FakeLaunch> all;
  return all;
}
int& compilations() {
  static int count = 0;
  return count;
}

// A driver of host memory whose kernels do nothing.
const cuda::Driver& fake_driver() {
  static const cuda::Driver driver = [] {
    using cuda::Status;
    cuda::Driver d{};
    d.version = cuda::Driver::kVersion;
    d.bytes = sizeof(cuda::Driver);
    d.last_error = [] { return "nothing"; };
    d.why_unavailable = []() -> const char* { return nullptr; };
    d.toolkit_version = [] { return 13000; };
    d.get_device = [](int* device) {
      *device = 0;
      return Status::Ok;
    };
    d.allocate = [](void** memory, size_t bytes) {
      *memory = std::malloc(bytes);
      return Status::Ok;
    };
    d.free = [](void* memory) {
      std::free(memory);
      return Status::Ok;
    };
    d.memset = [](void* memory, int value, size_t bytes, cuda::Stream) {
      std::memset(memory, value, bytes);
      return Status::Ok;
    };
    d.compile = [](const char* text, const char*, const char*, const char* const*, int,
                   cuda::CompiledCode* code) {
      ++compilations();
      code->cubin = strdup(std::strstr(text, "refuse") != nullptr ? "" : "cubin");
      code->cubin_bytes = std::strlen(code->cubin);
      code->log = strdup("kernel.cu(3): error: no");
      return Status::Ok;
    };
    d.release = [](void* memory) { std::free(memory); };
    d.load_module = [](cuda::Module* module, const void*) {
      *module = reinterpret_cast<cuda::Module>(16);
      return Status::Ok;
    };
    d.unload_module = [](cuda::Module) { return Status::Ok; };
    d.get_function = [](cuda::Function* function, cuda::Module, const char*) {
      *function = reinterpret_cast<cuda::Function>(16);
      return Status::Ok;
    };
    d.launch = [](cuda::Function, const cuda::LaunchConfig* config, void** parameters, cuda::Stream) {
      launches().push_back({config->grid[0], config->block[0], *static_cast<const uint64_t*>(parameters[0])});
      return Status::Ok;
    };
    return d;
  }();
  return driver;
}

class CudaProgramTest : public ::testing::Test {
 protected:
  void SetUp() override {
    cuda::replace_driver(&fake_driver());
    launches().clear();
  }
  void TearDown() override { cuda::replace_driver(nullptr); }
};

// sum(x, 0) over symbolic sizes.
struct ColumnSums : Body {
  ColumnSums() {
    const auto names = arithmetic();
    const Sym n = size("n", 4096), m = size("m", 16384);
    loops(Sym::from_int(1), m, n);
    body.name = "sum";
    const Expr x = load(in(f32), r * n + c);
    store(out(f32), c, sum(Axis::Rows, x), Each::Column);
  }
};

TEST_F(CudaProgramTest, LaunchesByTheSizesOfTheCall) {
  const ColumnSums sums;
  const LoopBody* const body = &sums.body;
  CudaProgram program(std::span(&body, 1), CudaTarget{});
  EXPECT_EQ(program.entry(), "kernel_sum");
  void* const buffers[] = {reinterpret_cast<void*>(4096), reinterpret_cast<void*>(8192)};
  const int64_t large[] = {4096, 16384}, small[] = {128, 100}, none[] = {0, 100};
  program.run(buffers, nullptr, large, nullptr, nullptr);
  ASSERT_EQ(launches().size(), 1u);
  // 32 tiles of 128 columns; eight blocks of 64 rows each.
  EXPECT_EQ(launches()[0].grid, 32u * (16384 / cuda_rows_of_block(16384) / 8));
  EXPECT_EQ(launches()[0].threads, 256u);
  EXPECT_EQ(launches()[0].first_word, 4096u);
  program.run(buffers, nullptr, small, nullptr, nullptr);
  EXPECT_EQ(launches().back().grid, 2u);
  EXPECT_EQ(program.memory(buffers, small).counter_bytes, 256u);
  EXPECT_GE(program.memory(buffers, large).scratch_bytes, 4096 * 4u * 16384 / cuda_rows_of_block(16384) / 8);
  // Nothing to launch.
  program.run(buffers, nullptr, none, nullptr, nullptr);
  EXPECT_EQ(launches().size(), 2u);
}

TEST_F(CudaProgramTest, MakesCodeOncePerKindOfSizes) {
  const ColumnSums sums;
  const LoopBody* const body = &sums.body;
  CudaProgram program(std::span(&body, 1), CudaTarget{});
  EXPECT_EQ(program.num_variants(), 1u);
  void* const aligned[] = {reinterpret_cast<void*>(4096), reinterpret_cast<void*>(8192)};
  void* const shifted[] = {reinterpret_cast<void*>(4100), reinterpret_cast<void*>(8192)};
  const int64_t sizes[] = {4096, 16384}, others[] = {2048, 20000}, odd[] = {4095, 16384};
  program.run(aligned, nullptr, sizes, nullptr, nullptr);
  program.run(aligned, nullptr, others, nullptr, nullptr);
  EXPECT_EQ(program.num_variants(), 1u);
  program.run(shifted, nullptr, sizes, nullptr, nullptr);
  EXPECT_EQ(program.num_variants(), 2u);
  program.run(aligned, nullptr, odd, nullptr, nullptr);
  EXPECT_EQ(program.num_variants(), 3u);
  program.run(aligned, nullptr, sizes, nullptr, nullptr);
  EXPECT_EQ(program.num_variants(), 3u);
}

TEST_F(CudaProgramTest, ListsItsLaunchesWithAddressesInFront) {
  const ColumnSums sums;
  const LoopBody* const body = &sums.body;
  CudaProgram program(std::span(&body, 1), CudaTarget{});
  void* const buffers[] = {reinterpret_cast<void*>(4096), reinterpret_cast<void*>(8192)};
  const int64_t sizes[] = {4096, 16384};
  const std::vector<CudaLaunch> made = program.launches(buffers, nullptr, sizes, nullptr, nullptr, nullptr);
  ASSERT_EQ(made.size(), 1u);
  EXPECT_EQ(made[0].words[0], 4096u);
  EXPECT_EQ(made[0].words[1], 8192u);
  EXPECT_EQ(made[0].words[2], 4096u);  // the first size
  EXPECT_EQ(made[0].entry, "kernel_sum");
}

TEST_F(CudaProgramTest, SaysWhatTheCompilerRefuses) {
  Body b(1, 1, 100);
  b.body.name = "refuse";
  b.store(b.out(f32), b.c, b.load(b.in(f32), b.c));
  const LoopBody* const body = &b.body;
  try {
    const CudaProgram program(std::span(&body, 1), CudaTarget{});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(
        std::string(error.what()).find("NVRTC refuses the code of kernel_refuse: kernel.cu(3): error: no"),
        std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace weft::compiler::tests
