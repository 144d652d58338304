// FakeDriver: a GPU of the tests that is host memory, to try what stands on the driver where there is no GPU.
// Needs tensor/cuda/driver.h. Copies and fills happen at once; kernels cannot be launched.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <vector>

#include "tensor/base/half.h"
#include "tensor/cpu/sort.h"
#include "tensor/cuda/driver.h"

namespace weft::tests {

struct FakeGpu {
  size_t memory = size_t{16} << 30;
  size_t taken = 0;
  std::map<void*, size_t> segments;
  int synchronizations = 0;
  // Events are numbers; one has been passed once it stands here.
  uintptr_t next_event = 1;
  std::set<uintptr_t> pending;
  std::string error;
  std::string missing;  // why there is no GPU
  // A product of the call, and by which of the offers.
  struct ProductCall {
    cuda::Matmul what;
    uint64_t algorithm = 0;
  };
  std::vector<ProductCall> products;
  std::vector<cuda::RowSort> sorts;
  std::vector<cuda::RowScan> scans;
  std::vector<cuda::RowExtreme> extremes;
  std::string name = "a GPU of the tests";
  int offers = 8;                  // of the heuristic for each product
  uint64_t fastest = 0;            // the number of the offer whose events lie closest
  bool refuses_epilogues = false;  // no offer for a product with an epilogue
  bool is_capturing = false;
  double clock = 0;  // microseconds
  std::map<uintptr_t, double> times;
};

// One for the process: the driver's functions carry no state.
inline FakeGpu& fake_gpu() {
  static FakeGpu gpu;
  return gpu;
}

// D = epilogue(alpha * op(A) op(B) + beta * C), one element after another, in double.
inline cuda::Status fake_multiply(cuda::Product product, const cuda::ProductAlgorithm* algorithm,
                                  const void* a, const void* b, const void* c, void* d, const void* bias,
                                  void*, double alpha, double beta, void*, cuda::Stream) {
  const cuda::Matmul* const what = reinterpret_cast<const cuda::Matmul*>(product);
  fake_gpu().products.push_back({*what, algorithm->words[0]});
  fake_gpu().clock += algorithm->words[0] == fake_gpu().fastest ? 50 : 100;
  if (c == nullptr) c = d;
  using Type = cuda::Matmul::Type;
  const cuda::Matmul& w = *what;
  const auto read = [&](const void* at, int64_t i) -> double {
    switch (w.type) {
      case Type::F64: return static_cast<const double*>(at)[i];
      case Type::BF16: return to_float(static_cast<const BFloat16*>(at)[i]);
      case Type::F16: return to_float(static_cast<const Float16*>(at)[i]);
      default: return static_cast<const float*>(at)[i];
    }
  };
  for (int64_t batch = 0; batch < w.batch; ++batch) {
    for (int64_t j = 0; j < w.n; ++j) {
      for (int64_t i = 0; i < w.m; ++i) {
        double sum = 0;
        for (int64_t k = 0; k < w.k; ++k)
          sum += read(a, batch * w.stride_a + (w.transpose_a ? i * w.lda + k : k * w.lda + i)) *
                 read(b, batch * w.stride_b + (w.transpose_b ? k * w.ldb + j : j * w.ldb + k));
        const int64_t at = batch * w.stride_d + j * w.ldd + i;
        double value = alpha * sum + (beta != 0 ? beta * read(c, at) : 0);
        using E = cuda::Matmul::Epilogue;
        const E e = w.epilogue;
        if (e == E::Bias || e == E::ReluBias || e == E::GeluBias) value += read(bias, i);
        if (e == E::Relu || e == E::ReluBias) value = std::max(value, 0.0);
        if (e == E::Gelu || e == E::GeluBias)
          value =
              0.5 * value * (1 + std::tanh(0.7978845608028654 * (value + 0.044715 * value * value * value)));
        switch (w.type) {
          case Type::F64: static_cast<double*>(d)[at] = value; break;
          case Type::BF16: static_cast<BFloat16*>(d)[at] = to_bfloat16(static_cast<float>(value)); break;
          case Type::F16: static_cast<Float16*>(d)[at] = to_float16(static_cast<float>(value)); break;
          default: static_cast<float*>(d)[at] = static_cast<float>(value);
        }
      }
    }
  }
  return cuda::Status::Ok;
}

// What a call of sort or scan asked for as its workspace.
inline constexpr size_t kFakeWorkspace = 4096;

inline DType dtype_of_element(cuda::Element element) {
  using E = cuda::Element;
  switch (element) {
    case E::UInt8: return DType::UInt8;
    case E::Int8: return DType::Int8;
    case E::Int16: return DType::Int16;
    case E::Int32: return DType::Int32;
    case E::Int64: return DType::Int64;
    case E::Float16: return DType::Float16;
    case E::BFloat16: return DType::BFloat16;
    case E::Float32: return DType::Float32;
    default: return DType::Float64;
  }
}

inline cuda::Status fake_sort(const cuda::RowSort* what, const void* x, void* values, int64_t* indices,
                              void* workspace, size_t workspace_bytes, cuda::Stream) {
  fake_gpu().sorts.push_back(*what);
  if (workspace_bytes != kFakeWorkspace) return cuda::Status::Failed;
  std::memset(workspace, 0xA5, workspace_bytes);
  const int64_t sizes[] = {what->outer, what->n, what->inner};
  const int64_t strides[] = {what->n * what->inner, what->inner, 1};
  cpu::sort_rows({.dtype = dtype_of_element(what->element),
                  .x = x,
                  .sizes = sizes,
                  .strides = strides,
                  .dim = 1,
                  .descending = what->is_descending,
                  .count = what->count,
                  .values = values,
                  .indices = indices});
  return cuda::Status::Ok;
}

template <class T, class Read, class Write>
void fake_scan_of(const cuda::RowScan& what, const void* x, void* out, const Read& read, const Write& write) {
  for (int64_t row = 0; row < what.outer * what.inner; ++row) {
    auto sum = read(T{});
    sum = what.is_product ? 1 : 0;
    for (int64_t i = 0; i < what.n; ++i) {
      const int64_t at = (row / what.inner * what.n + i) * what.inner + row % what.inner;
      const auto next = read(static_cast<const T*>(x)[at]);
      sum = what.is_product ? sum * next : sum + next;
      static_cast<T*>(out)[at] = write(sum);
    }
  }
}

inline cuda::Status fake_scan(const cuda::RowScan* what, const void* x, void* out, void* workspace,
                              cuda::Stream) {
  fake_gpu().scans.push_back(*what);
  std::memset(workspace, 0xA5, kFakeWorkspace);
  const auto same = [](auto value) { return value; };
  const auto widen = [](auto value) { return to_float(value); };
  using E = cuda::Element;
  switch (what->element) {
    case E::Int64:
      fake_scan_of<int64_t>(
          *what, x, out, [](int64_t value) { return static_cast<uint64_t>(value); },
          [](uint64_t sum) { return static_cast<int64_t>(sum); });
      break;
    case E::Float32: fake_scan_of<float>(*what, x, out, same, same); break;
    case E::Float64: fake_scan_of<double>(*what, x, out, same, same); break;
    case E::Float16:
      fake_scan_of<Float16>(*what, x, out, widen, [](float sum) { return to_float16(sum); });
      break;
    case E::BFloat16:
      fake_scan_of<BFloat16>(*what, x, out, widen, [](float sum) { return to_bfloat16(sum); });
      break;
    default: return cuda::Status::Failed;
  }
  return cuda::Status::Ok;
}

// The one that a stable sort would put first; of smallest elements a NaN before all others.
inline cuda::Status fake_extreme(const cuda::RowExtreme* what, const void* x, void* values, int64_t* places,
                                 void* workspace, cuda::Stream) {
  fake_gpu().extremes.push_back(*what);
  std::memset(workspace, 0xA5, kFakeWorkspace);
  visit(dtype_of_element(what->element), [&](auto zero) {
    using T = decltype(zero);
    const auto number = [](T value) {
      if constexpr (sizeof(T) == 2 && !std::is_integral_v<T>) return to_float(value);
      else return value;
    };
    for (int64_t row = 0; row < what->outer * what->inner; ++row) {
      const T* const first =
          static_cast<const T*>(x) + row / what->inner * what->n * what->inner + row % what->inner;
      int64_t best = 0;
      for (int64_t i = 1; i < what->n; ++i) {
        const auto old = number(first[best * what->inner]), now = number(first[i * what->inner]);
        if (old != old) break;
        if (now != now || (what->is_min ? now < old : now > old)) best = i;
      }
      places[row] = best;
      if (values != nullptr) static_cast<T*>(values)[row] = first[best * what->inner];
    }
  });
  return cuda::Status::Ok;
}

inline const cuda::Driver& fake_driver() {
  using cuda::Status;
  static const cuda::Driver driver = [] {
    cuda::Driver d{};
    d.version = cuda::Driver::kVersion;
    d.bytes = sizeof(cuda::Driver);
    d.last_error = [] { return fake_gpu().error.c_str(); };
    d.why_unavailable = []() -> const char* {
      return fake_gpu().missing.empty() ? nullptr : fake_gpu().missing.c_str();
    };
    d.device_count = [](int* count) {
      *count = 2;
      return Status::Ok;
    };
    d.set_device = [](int) { return Status::Ok; };
    d.synchronize = [] {
      ++fake_gpu().synchronizations;
      fake_gpu().pending.clear();
      return Status::Ok;
    };
    d.synchronize_stream = [](cuda::Stream) {
      ++fake_gpu().synchronizations;
      return Status::Ok;
    };
    d.allocate = [](void** memory, size_t bytes) {
      FakeGpu& gpu = fake_gpu();
      if (gpu.taken + bytes > gpu.memory) {
        gpu.error = "cudaMalloc: out of memory";
        return Status::OutOfMemory;
      }
      *memory = std::aligned_alloc(512, bytes);
      gpu.segments[*memory] = bytes;
      gpu.taken += bytes;
      return Status::Ok;
    };
    d.free = [](void* memory) {
      FakeGpu& gpu = fake_gpu();
      gpu.taken -= gpu.segments.at(memory);
      gpu.segments.erase(memory);
      std::free(memory);
      return Status::Ok;
    };
    d.create_product = [](cuda::Product* product, const cuda::Matmul* what) {
      *product = reinterpret_cast<cuda::Product>(new cuda::Matmul(*what));
      return Status::Ok;
    };
    d.offered_algorithms = [](cuda::Product product, size_t, cuda::ProductAlgorithm* algorithms, int most,
                              int* count) {
      const FakeGpu& gpu = fake_gpu();
      const bool has_epilogue =
          reinterpret_cast<cuda::Matmul*>(product)->epilogue != cuda::Matmul::Epilogue::None;
      *count = has_epilogue && gpu.refuses_epilogues ? 0 : std::min(most, gpu.offers);
      for (int i = 0; i < *count; ++i) algorithms[i].words[0] = static_cast<uint64_t>(i);
      return Status::Ok;
    };
    d.check_algorithm = [](cuda::Product, cuda::ProductAlgorithm*, bool* is_usable) {
      *is_usable = true;
      return Status::Ok;
    };
    d.multiply = fake_multiply;
    d.sort_workspace = [](const cuda::RowSort*, size_t* bytes) {
      *bytes = kFakeWorkspace;
      return Status::Ok;
    };
    d.sort = fake_sort;
    d.scan_workspace = [](const cuda::RowScan*, size_t* bytes) {
      *bytes = kFakeWorkspace;
      return Status::Ok;
    };
    d.scan = fake_scan;
    d.extreme_workspace = [](const cuda::RowExtreme*, size_t* bytes) {
      *bytes = kFakeWorkspace;
      return Status::Ok;
    };
    d.extreme = fake_extreme;
    d.product_version = []() -> size_t { return 130000; };
    d.is_capturing = [](cuda::Stream, bool* answer) {
      *answer = fake_gpu().is_capturing;
      return Status::Ok;
    };
    d.device_properties = [](int, cuda::DeviceProperties* properties) {
      std::strncpy(properties->name, fake_gpu().name.c_str(), sizeof(properties->name) - 1);
      return Status::Ok;
    };
    d.memory_info = [](size_t* free_bytes, size_t* total_bytes) {
      *free_bytes = fake_gpu().memory - fake_gpu().taken;
      *total_bytes = fake_gpu().memory;
      return Status::Ok;
    };
    d.copy = [](void* to, const void* from, size_t bytes, cuda::CopyKind, cuda::Stream) {
      std::memcpy(to, from, bytes);
      return Status::Ok;
    };
    d.copy_peer = [](void* to, int, const void* from, int, size_t bytes, cuda::Stream) {
      std::memcpy(to, from, bytes);
      return Status::Ok;
    };
    d.memset = [](void* memory, int value, size_t bytes, cuda::Stream) {
      std::memset(memory, value, bytes);
      return Status::Ok;
    };
    d.create_event = [](cuda::Event* event, bool) {
      *event = reinterpret_cast<cuda::Event>(fake_gpu().next_event++);
      return Status::Ok;
    };
    d.record_event = [](cuda::Event event, cuda::Stream) {
      fake_gpu().pending.insert(reinterpret_cast<uintptr_t>(event));
      fake_gpu().times[reinterpret_cast<uintptr_t>(event)] = fake_gpu().clock;
      return Status::Ok;
    };
    d.query_event = [](cuda::Event event) {
      return fake_gpu().pending.contains(reinterpret_cast<uintptr_t>(event)) ? Status::NotReady : Status::Ok;
    };
    d.synchronize_event = [](cuda::Event event) {
      fake_gpu().pending.erase(reinterpret_cast<uintptr_t>(event));
      return Status::Ok;
    };
    d.elapsed = [](float* milliseconds, cuda::Event start, cuda::Event stop) {
      std::map<uintptr_t, double>& times = fake_gpu().times;
      *milliseconds = static_cast<float>(
          (times[reinterpret_cast<uintptr_t>(stop)] - times[reinterpret_cast<uintptr_t>(start)]) / 1000);
      return Status::Ok;
    };
    d.destroy_event = [](cuda::Event event) {
      fake_gpu().pending.erase(reinterpret_cast<uintptr_t>(event));
      fake_gpu().times.erase(reinterpret_cast<uintptr_t>(event));
      return Status::Ok;
    };
    return d;
  }();
  return driver;
}

// The process uses the fake until the end of the scope.
class FakeDriverScope {
 public:
  FakeDriverScope() {
    fake_gpu().memory = size_t{1} << 30;
    cuda::replace_driver(&fake_driver());
  }
  ~FakeDriverScope() { cuda::replace_driver(nullptr); }
};

}  // namespace weft::tests
