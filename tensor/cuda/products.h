// Matrix products by cuBLASLt with the algorithm that is best for them: asked for once, timed where code is compiled, kept.
// Needs context. The ops of products (tensor/ops/matmul_cuda.h) stand on it.
//
// Note [Which algorithm]
// The heuristic of cuBLASLt takes longer than most products, so its answer is kept for all calls of one description.
// Eager code takes what it offers first. In a plan the first call of a description times up to eight offers, in turns, and
// takes the fastest; the answer goes to the disk cache, where the next process finds it. The choice is made before the first
// result and holds for the life of the process, so that equal calls give equal bits. While a stream is being captured
// nothing can be timed: such a call takes what is known, and the timing is left to a later one. What an algorithm works in
// comes from the caching allocator, for the call.
#pragma once

#include <optional>
#include <string>

#include "tensor/cuda/context.h"

namespace weft::cuda {

struct ProductOperands {
  const void *a = nullptr, *b = nullptr;
  const void* c = nullptr;  // null: what is in d, where beta is not 0
  void* d = nullptr;
  void* bias = nullptr;  // read, or written by epilogues that sum
  void* aux = nullptr;
  double alpha = 1, beta = 0;
};

// Computes the product on the current device and its current stream. False if cuBLASLt has no algorithm for it: nothing
// has been done then. Errors: those of CUDA.
bool multiply(const Matmul& what, const ProductOperands& operands);

// Products of this thread take the fastest algorithm, which their first call finds out, until the end of the scope.
class TimedProductsScope {
 public:
  explicit TimedProductsScope(bool is_timed = true) : before_(current()) { current() = is_timed; }
  ~TimedProductsScope() { current() = before_; }
  TimedProductsScope(const TimedProductsScope&) = delete;
  TimedProductsScope& operator=(const TimedProductsScope&) = delete;
  static bool& current();

 private:
  bool before_;
};

// What was done since the process started, or forget_products().
struct ProductStats {
  int64_t calls = 0;
  int64_t heuristics = 0;  // questions to the heuristic
  int64_t timed = 0;       // descriptions whose algorithms were timed
  int64_t loaded = 0;      // descriptions whose algorithm was kept by another process
};
ProductStats product_stats();
// For tests: all descriptions are new again.
void forget_products();

// Where choices are kept between processes: the compiler defines it over its disk cache.
struct ProductStore {
  std::optional<std::string> (*load)(const std::string& key);
  void (*store)(const std::string& key, const std::string& bytes);
};
extern const ProductStore product_store;

}  // namespace weft::cuda
