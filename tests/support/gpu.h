// A GPU for tests: the machine's, or one that is host memory where there is none.
// Needs fake_driver.h and tensor/cuda. What the stand-in cannot do is launch kernels: ops go by way of the host there.
#pragma once

#include <memory>

#include "tensor/cuda/cuda.h"
#include "tests/support/fake_driver.h"

namespace weft::tests {

class Gpu {
 public:
  Gpu() {
    if (!cuda::is_available()) fake_ = std::make_unique<FakeDriverScope>();
  }
  bool is_fake() const { return fake_ != nullptr; }

 private:
  std::unique_ptr<FakeDriverScope> fake_;
};

}  // namespace weft::tests
