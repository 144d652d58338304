// Loading libweft_cuda.so, what is said where something is missing, and compiling by NVRTC, which needs no GPU.
#include <gtest/gtest.h>

#include "tensor/cuda/cuda.h"
#include "tests/support/fake_driver.h"

namespace weft {
namespace {

TEST(CudaDriver, WhatIsMissingIsSaid) {
  const tests::FakeDriverScope scope;
  tests::fake_gpu().missing =
      "cuda: there is no NVIDIA driver on this machine; install one, or stay on the CPU";
  EXPECT_FALSE(cuda::is_available());
  EXPECT_EQ(cuda::device_count(), 0);
  EXPECT_EQ(cuda::why_unavailable(), tests::fake_gpu().missing);
  tests::fake_gpu().missing.clear();
  EXPECT_TRUE(cuda::is_available());
  EXPECT_EQ(cuda::device_count(), 2);
}

TEST(CudaDriver, ADeviceThatIsNotThereIsNamed) {
  const tests::FakeDriverScope scope;
  try {
    cuda::set_device(2);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "cuda: there is no device cuda:2; this machine has 2 GPUs, counted from 0");
  }
  cuda::set_device(1);
  EXPECT_EQ(cuda::current_device(), 1);
  {
    const cuda::DeviceGuard guard(0);
    EXPECT_EQ(cuda::current_device(), 0);
  }
  EXPECT_EQ(cuda::current_device(), 1);
  cuda::set_device(0);
}

TEST(CudaDriver, TheCurrentStreamIsThatOfTheScope) {
  const auto stream = reinterpret_cast<cuda::Stream>(uintptr_t{64});
  EXPECT_EQ(cuda::current_stream(0), nullptr);
  {
    const cuda::StreamGuard guard(0, stream);
    EXPECT_EQ(cuda::current_stream(0), stream);
    EXPECT_EQ(cuda::current_stream(1), nullptr);
  }
  EXPECT_EQ(cuda::current_stream(0), nullptr);
}

TEST(CudaDriver, CompilesWithoutAGpu) {
  const cuda::Driver* const driver = cuda::find_driver();
  if (driver == nullptr) GTEST_SKIP() << cuda::why_unavailable();
  EXPECT_GE(driver->toolkit_version(), 12080);
  const char* const options[] = {"--fmad=false"};
  cuda::CompiledCode code;
  ASSERT_EQ(driver->compile("extern \"C\" __global__ void twice(float* x) { x[threadIdx.x] *= 2; }",
                            "twice.cu", "sm_90", options, 1, &code),
            cuda::Status::Ok)
      << driver->last_error() << '\n'
      << code.log;
  ASSERT_GT(code.cubin_bytes, 4u);
  EXPECT_EQ(std::string(code.cubin + 1, 3), "ELF");
  driver->release(code.cubin);
  driver->release(code.log);
}

TEST(CudaDriver, WhatTheCompilerSaysIsKept) {
  const cuda::Driver* const driver = cuda::find_driver();
  if (driver == nullptr) GTEST_SKIP() << cuda::why_unavailable();
  cuda::CompiledCode code;
  EXPECT_EQ(
      driver->compile("__global__ void broken() { nowhere = 1; }", "broken.cu", "sm_90", nullptr, 0, &code),
      cuda::Status::Failed);
  EXPECT_EQ(code.cubin, nullptr);
  EXPECT_NE(std::string(code.log).find("nowhere"), std::string::npos) << code.log;
  EXPECT_NE(std::string(driver->last_error()).find("nvrtcCompileProgram"), std::string::npos);
  driver->release(code.log);
}

}  // namespace
}  // namespace weft
