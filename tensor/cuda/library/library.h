// What the sources of libweft_cuda.so share: how a failed call is kept, and the functions that fill the driver.
// Needs the CUDA Toolkit. Nothing else of Weft includes this.
#pragma once

#include <cuda_runtime_api.h>

#include "tensor/cuda/driver.h"

namespace weft::cuda {

// Keeps the text for Driver::last_error() and says how it counts.
Status fail(const char* call, const char* reason, Status status = Status::Failed);
// Of the runtime. Clears the error there, as far as that can be.
Status keep(cudaError_t error, const char* call);

// cudaMalloc(…) as a Status, under its own name.
#define WEFT_CUDA(call, ...) ::weft::cuda::keep(call(__VA_ARGS__), #call)

// A function of a library that is loaded on first use, since its start takes a while and few programs need all; null with a
// kept failure where it is not there. `library` is "nvrtc" or "cublasLt".
void* find_in(const char* library, int version, const char* symbol);

cudaKernel_t kernel_of(Function function);

void fill_device(Driver& driver);
void fill_code(Driver& driver);
void fill_matmul(Driver& driver);
void fill_graph(Driver& driver);
void fill_sort(Driver& driver);
void fill_scan(Driver& driver);
void fill_extreme(Driver& driver);

}  // namespace weft::cuda
