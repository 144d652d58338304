// The pointwise kernels of one instruction set: every body of the table over vectors.
// Place: compiled once per set; pointwise.cpp takes the kernels in the order in which the table declares them.
#include <algorithm>
#include <cstring>
#include <vector>

#include "tensor/cpu/vec_math.h"
#include "tensor/cpu/vec_memory.h"
#include "tensor/ops/pointwise_kernels.h"

namespace weft::cpu {
inline namespace WEFT_ISA_NAMESPACE {

template <class T, int L>
Vec<T, L> constant_like(Vec<T, L>, double value) {
  return Vec<T, L>(static_cast<T>(value));
}

namespace {

// The last elements, from `done` on, as a whole vector: its unused lanes repeat the last element.
[[gnu::noinline]] void run_tail(ElementwiseKernel kernel, int operands, size_t element, size_t result,
                                int64_t done, int64_t n, const void* const* in, const int64_t* step,
                                void* out) {
  alignas(64) char tail[kMaxOperands][kLanes * sizeof(int64_t)];
  const void* from[kMaxOperands];
  for (int k = 0; k < operands; ++k) {
    from[k] = tail[k];
    for (int64_t lane = 0; lane < kLanes; ++lane)
      std::memcpy(tail[k] + static_cast<size_t>(lane) * element,
                  static_cast<const char*>(in[k]) +
                      static_cast<size_t>(std::min(done + lane, n - 1) * step[k]) * element,
                  element);
  }
  alignas(64) char to[kLanes * sizeof(int64_t)];
  kernel(kLanes, from, step, to);
  std::memcpy(static_cast<char*>(out) + static_cast<size_t>(done) * result, to,
              static_cast<size_t>(n - done) * result);
}

// The body stands in the code once: it is what compiling this file takes its time for.
template <class C, int N, class Body>
void run_body(int64_t n, const void* const* in, const int64_t* step, void* out) {
  using V = Vec<C>;
  const C* from[N];
  for (int k = 0; k < N; ++k) from[k] = static_cast<const C*>(in[k]);
  const auto compute = [&](int64_t i) {
    return weft::detail::call_body<N>(Body{}, [&](int k) { return V::load(from[k] + i * step[k]); });
  };
  constexpr bool is_predicate = !std::is_same_v<decltype(compute(0)), V>;
  using Result = std::conditional_t<is_predicate, bool, C>;
  Result* const to = static_cast<Result*>(out);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    if constexpr (is_predicate) store_mask(to + i, compute(i));
    else compute(i).store(to + i);
  }
  if (i < n) run_tail(run_body<C, N, Body>, N, sizeof(C), sizeof(Result), i, n, in, step, out);
}

// Collects kernels in the order of the declarations.
class KernelTable {
 public:
  struct Entry {
    Entry& divisor(int) { return *this; }
    Entry& nonzero() { return *this; }
    Entry& exponent(int) { return *this; }
    Entry& no_bool() { return *this; }
  };
  struct Facts {
    Facts& identity(int, double, int) { return *this; }
    Facts& commutative() { return *this; }
    Facts& involution() { return *this; }
    Facts& idempotent() { return *this; }
    Facts& choice() { return *this; }
  };
  Facts facts(const char*) { return {}; }

  template <Promote P, class Body, class... GradBodies>
  Entry pointwise(const char*, PromoteTag<P>, Body, Grads<GradBodies...> = Grads<>{}, Samples = {}) {
    constexpr bool for_floats = P != Promote::Integer;
    constexpr bool for_integers = P == Promote::Common || P == Promote::Integer || P == Promote::Predicate;
    add<Body, for_floats, for_integers>();
    (add_gradient<GradBodies>(), ...);
    return {};
  }

  std::vector<ElementwiseKernels> kernels;

 private:
  template <class Body, bool kFloats, bool kIntegers>
  void add() {
    constexpr int arity =
        weft::detail::arity_of_body<std::conditional_t<kFloats, Vec<float>, Vec<int32_t>>, Body>();
    ElementwiseKernels entry;
    if constexpr (kFloats) {
      entry.f32 = run_body<float, arity, Body>;
      entry.f64 = run_body<double, arity, Body>;
    }
    if constexpr (kIntegers) {
      entry.i64 = run_body<int64_t, arity, Body>;
      entry.i32 = run_body<int32_t, arity, Body>;
    }
    kernels.push_back(entry);
  }
  template <class Body>
  void add_gradient() {
    if constexpr (!std::is_same_v<Body, NoGrad> && !std::is_same_v<Body, ZeroGrad>) add<Body, true, false>();
  }
};

}  // namespace

std::span<const ElementwiseKernels> pointwise_kernels() {
  static const std::vector<ElementwiseKernels>* kernels = [] {
    auto* table = new KernelTable;
    declare_pointwise_ops(*table);
    return &table->kernels;
  }();
  return *kernels;
}

}  // namespace WEFT_ISA_NAMESPACE
}  // namespace weft::cpu
