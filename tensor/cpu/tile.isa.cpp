// The tile kernels of one instruction set: arithmetic, comparisons and logic.
// Place: compiled once per set; tile.h chooses. The functions are in tile_math.isa.cpp.
#include "tensor/cpu/tile.h"

#include <cstring>

#include "tensor/cpu/vec_math.h"
#include "tensor/cpu/vec_memory.h"

namespace weft::cpu {
inline namespace WEFT_ISA_NAMESPACE {
namespace {

template <class T>
WEFT_INLINE Mask<T> load_mask(const void* p) {
  return convert<T>(load_as<int32_t>(static_cast<const uint8_t*>(p)) != 0);
}

// Body::run(v0, v1, …) on vectors of T; it gives a vector, or a mask that is stored as bytes.
template <class T, int N, class Body>
void run_tile(int64_t n, const void* const* in, const int64_t* step, void* out) {
  const auto operand = [&](int k, int64_t i) {
    return Vec<T>::load(static_cast<const T*>(in[k]) + i * step[k]);
  };
  const auto compute = [&](int64_t i) {
    if constexpr (N == 1) return Body::run(operand(0, i));
    else if constexpr (N == 2) return Body::run(operand(0, i), operand(1, i));
    else return Body::run(operand(0, i), operand(1, i), operand(2, i));
  };
  using Result = decltype(compute(0));
  for (int64_t i = 0; i < n; i += kLanes) {
    const auto result = compute(i);
    if constexpr (std::is_same_v<Result, Mask<T>>) store_mask(static_cast<bool*>(out) + i, result);
    else result.store(static_cast<typename Result::value_type*>(out) + i);
  }
}

template <class T>
void run_where(int64_t n, const void* const* in, const int64_t* step, void* out) {
  const auto* mask = static_cast<const bool*>(in[0]);
  const T *a = static_cast<const T*>(in[1]), *b = static_cast<const T*>(in[2]);
  for (int64_t i = 0; i < n; i += kLanes) {
    const auto chosen =
        where(load_mask<T>(mask + i * step[0]), Vec<T>::load(a + i * step[1]), Vec<T>::load(b + i * step[2]));
    chosen.store(static_cast<T*>(out) + i);
  }
}

// Bytes of truth values.
template <int N, class Body>
void run_bool(int64_t n, const void* const* in, const int64_t* step, void* out) {
  const uint8_t* from[3] = {};
  for (int k = 0; k < N; ++k) from[k] = static_cast<const uint8_t*>(in[k]);
  auto* to = static_cast<uint8_t*>(out);
  for (int64_t i = 0; i < n; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const auto x = [&](int k) { return from[k][i * step[k] + lane]; };
      if constexpr (N == 1) to[i + lane] = Body::run(x(0));
      else if constexpr (N == 2) to[i + lane] = Body::run(x(0), x(1));
      else to[i + lane] = Body::run(x(0), x(1), x(2));
    }
  }
}

// Element by element: lanes beyond n may hold indices that lie nowhere.
template <class T>
void run_lookup(int64_t n, const void* const* in, const int64_t* step, void* out) {
  using Index = IntOf<T>;
  const auto* index = static_cast<const Index*>(in[0]);
  const auto* table = static_cast<const T*>(in[1]);
  if (step[0] == 0) n = kLanes;
  for (int64_t i = 0; i < n; ++i) static_cast<T*>(out)[i] = table[index[i * step[0]]];
}

#define WEFT_TILE_BODY(name, parameters, ...)                      \
  struct name##Body {                                              \
    WEFT_INLINE static auto run parameters { return __VA_ARGS__; } \
  };
WEFT_TILE_BODY(Add, (auto a, auto b), a + b)
WEFT_TILE_BODY(Sub, (auto a, auto b), a - b)
WEFT_TILE_BODY(Mul, (auto a, auto b), a* b)
WEFT_TILE_BODY(Div, (auto a, auto b), a / b)
WEFT_TILE_BODY(Neg, (auto a), -a)
WEFT_TILE_BODY(Abs, (auto a), abs(a))
WEFT_TILE_BODY(Fma, (auto a, auto b, auto c), fma(a, b, c))
WEFT_TILE_BODY(Minimum, (auto a, auto b), minimum(a, b))
WEFT_TILE_BODY(Maximum, (auto a, auto b), maximum(a, b))
WEFT_TILE_BODY(CopySign, (auto a, auto b), copysign(a, b))
WEFT_TILE_BODY(FloorDiv, (auto a, auto b), floor_div(a, b))
WEFT_TILE_BODY(TruncDiv, (auto a, auto b), trunc_div(a, b))
WEFT_TILE_BODY(FloorMod, (auto a, auto b), floor_mod(a, b))
WEFT_TILE_BODY(TruncMod, (auto a, auto b), trunc_mod(a, b))
WEFT_TILE_BODY(Floor, (auto a), floor(a))
WEFT_TILE_BODY(Ceil, (auto a), ceil(a))
WEFT_TILE_BODY(Trunc, (auto a), trunc(a))
WEFT_TILE_BODY(RoundEven, (auto a), round_even(a))
WEFT_TILE_BODY(Sqrt, (auto a), sqrt(a))
WEFT_TILE_BODY(IsNan, (auto a), is_nan(a))
WEFT_TILE_BODY(Eq, (auto a, auto b), a == b)
WEFT_TILE_BODY(Ne, (auto a, auto b), a != b)
WEFT_TILE_BODY(Lt, (auto a, auto b), a < b)
WEFT_TILE_BODY(Le, (auto a, auto b), a <= b)
WEFT_TILE_BODY(Gt, (auto a, auto b), a > b)
WEFT_TILE_BODY(Ge, (auto a, auto b), a >= b)
WEFT_TILE_BODY(And, (auto a, auto b), a& b)
WEFT_TILE_BODY(Or, (auto a, auto b), a | b)
WEFT_TILE_BODY(Xor, (auto a, auto b), a ^ b)
WEFT_TILE_BODY(Not, (auto a), ~a)
WEFT_TILE_BODY(Shl, (auto a, auto b), a << b)
WEFT_TILE_BODY(Shr, (auto a, auto b), a >> b)
WEFT_TILE_BODY(ToInt, (auto a), to_int(a))
WEFT_TILE_BODY(ToFloat, (auto a), to_float(a))
WEFT_TILE_BODY(BoolNot, (uint8_t a), static_cast<uint8_t>(a == 0))
WEFT_TILE_BODY(BoolEq, (uint8_t a, uint8_t b), static_cast<uint8_t>((a != 0) == (b != 0)))
WEFT_TILE_BODY(BoolNe, (uint8_t a, uint8_t b), static_cast<uint8_t>((a != 0) != (b != 0)))
WEFT_TILE_BODY(BoolWhere, (uint8_t m, uint8_t a, uint8_t b), m != 0 ? a : b)
#undef WEFT_TILE_BODY

class Table {
 public:
  explicit Table(TileKernels& kernels) : kernels_(kernels) {}

  template <Prim P, int N, class Body, class... T>
  void add() {
    ((at(P, dtype_of<T>) = run_tile<T, N, Body>), ...);
  }
  template <Prim P, int N, class Body>
  void add_all() {
    add<P, N, Body, float, double, int64_t, int32_t>();
  }
  ElementwiseKernel& at(Prim prim, DType dtype) {
    return kernels_.kernels[static_cast<int>(prim)][tile_dtype_index(dtype)];
  }

 private:
  TileKernels& kernels_;
};

TileKernels make_kernels() {
  TileKernels kernels;
  Table table(kernels);
#define WEFT_TILE_ALL(name, arity) table.add_all<Prim::name, arity, name##Body>();
  WEFT_TILE_ALL(Add, 2)
  WEFT_TILE_ALL(Sub, 2)
  WEFT_TILE_ALL(Mul, 2)
  WEFT_TILE_ALL(Neg, 1)
  WEFT_TILE_ALL(Abs, 1)
  WEFT_TILE_ALL(Fma, 3)
  WEFT_TILE_ALL(Minimum, 2)
  WEFT_TILE_ALL(Maximum, 2)
  WEFT_TILE_ALL(FloorDiv, 2)
  WEFT_TILE_ALL(TruncDiv, 2)
  WEFT_TILE_ALL(FloorMod, 2)
  WEFT_TILE_ALL(TruncMod, 2)
  WEFT_TILE_ALL(Floor, 1)
  WEFT_TILE_ALL(Ceil, 1)
  WEFT_TILE_ALL(Trunc, 1)
  WEFT_TILE_ALL(RoundEven, 1)
  WEFT_TILE_ALL(IsNan, 1)
  WEFT_TILE_ALL(Eq, 2)
  WEFT_TILE_ALL(Ne, 2)
  WEFT_TILE_ALL(Lt, 2)
  WEFT_TILE_ALL(Le, 2)
  WEFT_TILE_ALL(Gt, 2)
  WEFT_TILE_ALL(Ge, 2)
#undef WEFT_TILE_ALL
  table.add<Prim::Div, 2, DivBody, float, double>();
  table.add<Prim::CopySign, 2, CopySignBody, float, double>();
  table.add<Prim::Sqrt, 1, SqrtBody, float, double>();
  table.add<Prim::ToInt, 1, ToIntBody, float, double>();
  table.add<Prim::ToFloat, 1, ToFloatBody, int64_t, int32_t>();
  table.add<Prim::And, 2, AndBody, int64_t, int32_t>();
  table.add<Prim::Or, 2, OrBody, int64_t, int32_t>();
  table.add<Prim::Xor, 2, XorBody, int64_t, int32_t>();
  table.add<Prim::Not, 1, NotBody, int64_t, int32_t>();
  table.add<Prim::Shl, 2, ShlBody, int64_t, int32_t>();
  table.add<Prim::Shr, 2, ShrBody, int64_t, int32_t>();
  table.at(Prim::Where, DType::Float32) = run_where<float>;
  table.at(Prim::Where, DType::Float64) = run_where<double>;
  table.at(Prim::Where, DType::Int64) = run_where<int64_t>;
  table.at(Prim::Where, DType::Int32) = run_where<int32_t>;
  table.at(Prim::Lookup, DType::Float32) = run_lookup<float>;
  table.at(Prim::Lookup, DType::Float64) = run_lookup<double>;
  table.at(Prim::Lookup, DType::Int64) = run_lookup<int64_t>;
  table.at(Prim::Lookup, DType::Int32) = run_lookup<int32_t>;
  table.at(Prim::And, DType::Bool) = run_bool<2, AndBody>;
  table.at(Prim::Or, DType::Bool) = run_bool<2, OrBody>;
  table.at(Prim::Xor, DType::Bool) = run_bool<2, XorBody>;
  table.at(Prim::Not, DType::Bool) = run_bool<1, BoolNotBody>;
  table.at(Prim::Eq, DType::Bool) = run_bool<2, BoolEqBody>;
  table.at(Prim::Ne, DType::Bool) = run_bool<2, BoolNeBody>;
  table.at(Prim::Where, DType::Bool) = run_bool<3, BoolWhereBody>;
  detail::add_math_tile_kernels(kernels);
  return kernels;
}

}  // namespace

const TileKernels& tile_kernels() {
  static const TileKernels kernels = make_kernels();
  return kernels;
}

}  // namespace WEFT_ISA_NAMESPACE
}  // namespace weft::cpu
