// The tile kernels of one instruction set: mathematical functions, and their bodies for all other files.
// Place: compiled once per set; tile.isa.cpp puts them into its table.
#define WEFT_VEC_MATH_BODIES
#include "tensor/cpu/tile.h"
#include "tensor/cpu/vec_math.h"

namespace weft::cpu {
inline namespace WEFT_ISA_NAMESPACE {
namespace {

template <class T, class Body>
void run_unary(int64_t n, const void* const* in, const int64_t* step, void* out) {
  const T* x = static_cast<const T*>(in[0]);
  for (int64_t i = 0; i < n; i += kLanes)
    Body::run(Vec<T>::load(x + i * step[0])).store(static_cast<T*>(out) + i);
}

template <class T, class Body>
void run_binary(int64_t n, const void* const* in, const int64_t* step, void* out) {
  const T *x = static_cast<const T*>(in[0]), *y = static_cast<const T*>(in[1]);
  for (int64_t i = 0; i < n; i += kLanes)
    Body::run(Vec<T>::load(x + i * step[0]), Vec<T>::load(y + i * step[1])).store(static_cast<T*>(out) + i);
}

#define WEFT_PRIM(name, function, arity) WEFT_TILE_BODY_##arity(name, function)
#define WEFT_TILE_BODY_1(name, function)                        \
  struct name##Body {                                           \
    WEFT_INLINE static auto run(auto x) { return function(x); } \
  };
#define WEFT_TILE_BODY_2(name, function)                                   \
  struct name##Body {                                                      \
    WEFT_INLINE static auto run(auto x, auto y) { return function(x, y); } \
  };
WEFT_FOR_EACH_MATH_PRIM(WEFT_PRIM)
#undef WEFT_TILE_BODY_1
#undef WEFT_TILE_BODY_2
#undef WEFT_PRIM

}  // namespace

namespace detail {

void add_math_tile_kernels(TileKernels& table) {
  const auto row = [&](Prim prim) { return table.kernels[static_cast<int>(prim)]; };
  constexpr int f32 = tile_dtype_index(DType::Float32), f64 = tile_dtype_index(DType::Float64);
#define WEFT_PRIM(name, function, arity) WEFT_TILE_KERNELS_##arity(name)
#define WEFT_TILE_KERNELS_1(name)                      \
  row(Prim::name)[f32] = run_unary<float, name##Body>; \
  row(Prim::name)[f64] = run_unary<double, name##Body>;
#define WEFT_TILE_KERNELS_2(name)                       \
  row(Prim::name)[f32] = run_binary<float, name##Body>; \
  row(Prim::name)[f64] = run_binary<double, name##Body>;
  WEFT_FOR_EACH_MATH_PRIM(WEFT_PRIM)
#undef WEFT_TILE_KERNELS_1
#undef WEFT_TILE_KERNELS_2
#undef WEFT_PRIM
  row(Prim::Pow)[tile_dtype_index(DType::Int64)] = run_binary<int64_t, PowBody>;
  row(Prim::Pow)[tile_dtype_index(DType::Int32)] = run_binary<int32_t, PowBody>;
}

}  // namespace detail

}  // namespace WEFT_ISA_NAMESPACE
}  // namespace weft::cpu
