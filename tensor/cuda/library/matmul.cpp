// Matrix products by cuBLASLt: descriptions that are made once for each kind of product, and the algorithms for them.
// Place: part of libweft_cuda.so.
#include <cublasLt.h>

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "tensor/cuda/library/library.h"

namespace weft::cuda {
namespace {

struct Lt {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtGetStatusString) status_string;
  decltype(&cublasLtMatmulDescCreate) desc_create;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set;
  decltype(&cublasLtMatrixLayoutCreate) layout_create;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy;
  decltype(&cublasLtMatrixLayoutSetAttribute) layout_set;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&cublasLtMatmulAlgoCheck) check;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtGetVersion) version;
  bool is_there;
};

template <class F>
bool find(F& function, const char* symbol) {
  function = reinterpret_cast<F>(find_in("cublasLt", CUDART_VERSION / 1000, symbol));
  return function != nullptr;
}

const Lt& lt() {
  static const Lt found = [] {
    Lt l{};
    l.is_there = find(l.create, "cublasLtCreate") && find(l.status_string, "cublasLtGetStatusString") &&
                 find(l.desc_create, "cublasLtMatmulDescCreate") &&
                 find(l.desc_destroy, "cublasLtMatmulDescDestroy") &&
                 find(l.desc_set, "cublasLtMatmulDescSetAttribute") &&
                 find(l.layout_create, "cublasLtMatrixLayoutCreate") &&
                 find(l.layout_destroy, "cublasLtMatrixLayoutDestroy") &&
                 find(l.layout_set, "cublasLtMatrixLayoutSetAttribute") &&
                 find(l.preference_create, "cublasLtMatmulPreferenceCreate") &&
                 find(l.preference_destroy, "cublasLtMatmulPreferenceDestroy") &&
                 find(l.preference_set, "cublasLtMatmulPreferenceSetAttribute") &&
                 find(l.heuristic, "cublasLtMatmulAlgoGetHeuristic") &&
                 find(l.check, "cublasLtMatmulAlgoCheck") && find(l.matmul, "cublasLtMatmul") &&
                 find(l.version, "cublasLtGetVersion");
    return l;
  }();
  return found;
}

Status keep_lt(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return Status::Ok;
  return fail(call, lt().status_string(status));
}

cudaDataType_t data_type(Matmul::Type type) {
  switch (type) {
    case Matmul::Type::F64: return CUDA_R_64F;
    case Matmul::Type::BF16: return CUDA_R_16BF;
    case Matmul::Type::F16: return CUDA_R_16F;
    default: return CUDA_R_32F;
  }
}

cublasLtEpilogue_t epilogue_of(Matmul::Epilogue epilogue) {
  using E = Matmul::Epilogue;
  switch (epilogue) {
    case E::None: return CUBLASLT_EPILOGUE_DEFAULT;
    case E::Bias: return CUBLASLT_EPILOGUE_BIAS;
    case E::Relu: return CUBLASLT_EPILOGUE_RELU;
    case E::ReluBias: return CUBLASLT_EPILOGUE_RELU_BIAS;
    case E::Gelu: return CUBLASLT_EPILOGUE_GELU;
    case E::GeluBias: return CUBLASLT_EPILOGUE_GELU_BIAS;
    case E::ReluAuxBias: return CUBLASLT_EPILOGUE_RELU_AUX_BIAS;
    case E::GeluAuxBias: return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case E::DReluBgrad: return CUBLASLT_EPILOGUE_DRELU_BGRAD;
    case E::DGeluBgrad: return CUBLASLT_EPILOGUE_DGELU_BGRAD;
    case E::DRelu: return CUBLASLT_EPILOGUE_DRELU;
    case E::DGelu: return CUBLASLT_EPILOGUE_DGELU;
    case E::BgradA: return CUBLASLT_EPILOGUE_BGRADA;
    case E::BgradB: return CUBLASLT_EPILOGUE_BGRADB;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

static_assert(sizeof(cublasLtMatmulAlgo_t) == sizeof(ProductAlgorithm::words));

// What a Product is. Its description takes the addresses of a call, so that a call holds it for itself.
struct Described {
  Matmul what;
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
  std::mutex mutex;

  ~Described() {
    if (desc != nullptr) lt().desc_destroy(desc);
    for (const cublasLtMatrixLayout_t layout : {a, b, d})
      if (layout != nullptr) lt().layout_destroy(layout);
  }
};
Described& described(Product product) { return *reinterpret_cast<Described*>(product); }

// The first failure of several calls.
struct Steps {
  Status status = Status::Ok;
  void operator()(cublasStatus_t result, const char* call) {
    if (status == Status::Ok) status = keep_lt(result, call);
  }
};

Status make_layout(cublasLtMatrixLayout_t* layout, cudaDataType_t type, int64_t rows, int64_t columns,
                   int64_t ld, int64_t batch, int64_t stride) {
  Steps step;
  step(lt().layout_create(layout, type, static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), ld),
       "cublasLtMatrixLayoutCreate");
  if (step.status == Status::Ok && batch > 1) {
    const auto count = static_cast<int32_t>(batch);
    step(lt().layout_set(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof(count)),
         "cublasLtMatrixLayoutSetAttribute");
    step(lt().layout_set(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof(stride)),
         "cublasLtMatrixLayoutSetAttribute");
  }
  return step.status;
}

template <class T>
cublasStatus_t set(const Described& prepared, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  return lt().desc_set(prepared.desc, attribute, &value, sizeof(value));
}

Status describe(Described& prepared) {
  const Matmul& w = prepared.what;
  const cudaDataType_t in = data_type(w.type), out = data_type(w.out_type);
  const cublasComputeType_t compute = w.compute == Matmul::Compute::F64    ? CUBLAS_COMPUTE_64F
                                      : w.compute == Matmul::Compute::TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                                           : CUBLAS_COMPUTE_32F;
  Steps step;
  step(lt().desc_create(&prepared.desc, compute, w.compute == Matmul::Compute::F64 ? CUDA_R_64F : CUDA_R_32F),
       "cublasLtMatmulDescCreate");
  if (step.status != Status::Ok) return step.status;
  constexpr const char* kSet = "cublasLtMatmulDescSetAttribute";
  step(set(prepared, CUBLASLT_MATMUL_DESC_TRANSA, w.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N), kSet);
  step(set(prepared, CUBLASLT_MATMUL_DESC_TRANSB, w.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N), kSet);
  step(set(prepared, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(w.epilogue)), kSet);
  if (w.epilogue != Matmul::Epilogue::None) {
    step(set(prepared, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, in), kSet);
    if (w.ld_aux > 0) step(set(prepared, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, w.ld_aux), kSet);
    // The heuristic asks for addresses; those of each call come later.
    const void* const somewhere = reinterpret_cast<const void*>(uintptr_t{w.alignment} * 16);
    step(set(prepared, CUBLASLT_MATMUL_DESC_BIAS_POINTER, somewhere), kSet);
    if (w.ld_aux > 0) step(set(prepared, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, somewhere), kSet);
  }
  if (step.status != Status::Ok) return step.status;
  const auto layout = [&](cublasLtMatrixLayout_t* to, cudaDataType_t type, int64_t rows, int64_t columns,
                          int64_t ld, int64_t stride) {
    if (step.status == Status::Ok) step.status = make_layout(to, type, rows, columns, ld, w.batch, stride);
  };
  layout(&prepared.a, in, w.transpose_a ? w.k : w.m, w.transpose_a ? w.m : w.k, w.lda, w.stride_a);
  layout(&prepared.b, in, w.transpose_b ? w.n : w.k, w.transpose_b ? w.k : w.n, w.ldb, w.stride_b);
  layout(&prepared.d, out, w.m, w.n, w.ldd, w.stride_d);
  return step.status;
}

// By device; never freed, since the device may be gone at the end of the process.
Status handle_of(int device, cublasLtHandle_t* handle) {
  static std::mutex mutex;
  static std::map<int, cublasLtHandle_t> handles;
  const std::lock_guard lock(mutex);
  cublasLtHandle_t& own = handles[device];
  if (own == nullptr)
    if (const Status status = keep_lt(lt().create(&own), "cublasLtCreate"); status != Status::Ok)
      return status;
  *handle = own;
  return Status::Ok;
}

Status create_product(Product* product, const Matmul* what) {
  if (!lt().is_there) return fail("matmul", "cuBLASLt of the CUDA Toolkit cannot be loaded");
  int device = 0;
  if (const Status status = WEFT_CUDA(cudaGetDevice, &device); status != Status::Ok) return status;
  auto made = std::make_unique<Described>();
  made->what = *what;
  if (const Status status = handle_of(device, &made->handle); status != Status::Ok) return status;
  if (const Status status = describe(*made); status != Status::Ok) return status;
  *product = reinterpret_cast<Product>(made.release());
  return Status::Ok;
}

Status offered_algorithms(Product product, size_t most_workspace_bytes, ProductAlgorithm* algorithms,
                          int most, int* count) {
  Described& p = described(product);
  const std::lock_guard lock(p.mutex);
  *count = 0;
  cublasLtMatmulPreference_t preference = nullptr;
  Steps step;
  step(lt().preference_create(&preference), "cublasLtMatmulPreferenceCreate");
  if (step.status != Status::Ok) return step.status;
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    step(lt().preference_set(preference, attribute, &value, sizeof(value)),
         "cublasLtMatmulPreferenceSetAttribute");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{most_workspace_bytes});
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    prefer(attribute, uint32_t{p.what.alignment});
  std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<size_t>(most));
  int num_found = 0;
  if (step.status == Status::Ok) {
    const cublasStatus_t status =
        lt().heuristic(p.handle, p.desc, p.a, p.b, p.d, p.d, preference, most, found.data(), &num_found);
    // No algorithm is an answer.
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) num_found = 0;
    else step(status, "cublasLtMatmulAlgoGetHeuristic");
  }
  lt().preference_destroy(preference);
  if (step.status != Status::Ok) return step.status;
  for (int i = 0; i < num_found; ++i) {
    if (found[static_cast<size_t>(i)].state != CUBLAS_STATUS_SUCCESS) continue;
    ProductAlgorithm& algorithm = algorithms[(*count)++];
    std::memcpy(algorithm.words, &found[static_cast<size_t>(i)].algo, sizeof(algorithm.words));
    algorithm.workspace_bytes = found[static_cast<size_t>(i)].workspaceSize;
  }
  return Status::Ok;
}

cublasLtMatmulAlgo_t algorithm_of(const ProductAlgorithm& algorithm) {
  cublasLtMatmulAlgo_t own;
  std::memcpy(&own, algorithm.words, sizeof(own));
  return own;
}

Status check_algorithm(Product product, ProductAlgorithm* algorithm, bool* is_usable) {
  Described& p = described(product);
  const std::lock_guard lock(p.mutex);
  const cublasLtMatmulAlgo_t own = algorithm_of(*algorithm);
  cublasLtMatmulHeuristicResult_t found{};
  *is_usable = lt().check(p.handle, p.desc, p.a, p.b, p.d, p.d, &own, &found) == CUBLAS_STATUS_SUCCESS &&
               found.state == CUBLAS_STATUS_SUCCESS;
  if (*is_usable) algorithm->workspace_bytes = found.workspaceSize;
  return Status::Ok;
}

Status multiply(Product product, const ProductAlgorithm* algorithm, const void* a, const void* b,
                const void* c, void* d, const void* bias, void* aux, double alpha, double beta,
                void* workspace, Stream stream) {
  Described& p = described(product);
  const std::lock_guard lock(p.mutex);
  Steps step;
  if (p.what.epilogue != Matmul::Epilogue::None) {
    step(set(p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias), "cublasLtMatmulDescSetAttribute");
    if (p.what.ld_aux > 0)
      step(set(p, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux), "cublasLtMatmulDescSetAttribute");
  }
  if (step.status != Status::Ok) return step.status;
  const auto narrow_alpha = static_cast<float>(alpha), narrow_beta = static_cast<float>(beta);
  const bool is_wide = p.what.compute == Matmul::Compute::F64;
  const void* const alpha_at = is_wide ? static_cast<const void*>(&alpha) : &narrow_alpha;
  const void* const beta_at = is_wide ? static_cast<const void*>(&beta) : &narrow_beta;
  const cublasLtMatmulAlgo_t own = algorithm_of(*algorithm);
  return keep_lt(
      lt().matmul(p.handle, p.desc, alpha_at, a, p.a, b, p.b, beta_at, c != nullptr ? c : d, p.d, d, p.d,
                  &own, workspace, algorithm->workspace_bytes, reinterpret_cast<cudaStream_t>(stream)),
      "cublasLtMatmul");
}

size_t product_version() { return lt().is_there ? lt().version() : 0; }

}  // namespace

void fill_matmul(Driver& driver) {
  driver.create_product = create_product;
  driver.offered_algorithms = offered_algorithms;
  driver.check_algorithm = check_algorithm;
  driver.multiply = multiply;
  driver.product_version = product_version;
}

}  // namespace weft::cuda
