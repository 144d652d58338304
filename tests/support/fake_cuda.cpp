// libweft_fake_cuda.so: a GPU that is host memory, for running whole programs on "cuda" where there is none.
#include "tests/support/fake_driver.h"

extern "C" const weft::cuda::Driver* weft_cuda_driver() { return &weft::tests::fake_driver(); }
