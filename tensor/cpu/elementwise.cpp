// The loops around elementwise kernels.
#include "tensor/cpu/elementwise.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "tensor/allocator.h"
#include "tensor/cpu/convert.h"
#include "tensor/cpu/parallel.h"
#include "tensor/cpu/transpose.h"

namespace weft::cpu {
namespace {

// Elements of one tile: eight operands of eight bytes take 32 KB, a common L1.
constexpr int64_t kTile = 512;
// Inner runs from this length on are worth a kernel call of their own.
constexpr int64_t kLongRun = 256;
// Elements from which on a transposed input is copied: below, it stays in L2 and tiles do as well.
constexpr int64_t kWorthTransposing = 65536;
// A parallel region costs some microseconds (bench: micro/parallel), so a thread is worth four. An addition streams about 8
// elements a nanosecond out of L1; of longer bodies a core does some 40 primitives in that time.
constexpr double kNanosecondsPerThread = 4000;

int64_t grain_of(double cost) {
  return std::max<int64_t>(1024, static_cast<int64_t>(kNanosecondsPerThread / std::max(cost / 40, 1.0 / 8)));
}

struct Deallocate {
  size_t bytes;
  void operator()(void* memory) const { deallocate(memory, bytes); }
};

struct Axis {
  int64_t size;
  SmallVector<int64_t, kMaxOperands + 1> strides;  // inputs, then the output
};

// The iteration, outermost axis first, with adjacent axes merged where every array allows it.
SmallVector<Axis, 6> make_axes(const ElementwiseCall& call) {
  SmallVector<Axis, 6> axes;
  const size_t operands = call.inputs.size();
  for (size_t d = 0; d < call.sizes.size(); ++d) {
    if (call.sizes[d] == 1) continue;
    Axis axis{call.sizes[d], {}};
    for (size_t k = 0; k < operands; ++k)
      axis.strides.push_back(call.inputs[k].data != nullptr ? call.inputs[k].strides[d] : 0);
    axis.strides.push_back(call.output.strides[d]);
    axes.push_back(std::move(axis));
  }
  std::stable_sort(axes.begin(), axes.end(),
                   [&](const Axis& a, const Axis& b) { return a.strides[operands] > b.strides[operands]; });
  SmallVector<Axis, 6> merged;
  for (Axis& axis : axes) {
    if (!merged.empty()) {
      Axis& outer = merged.back();
      bool fits = true;
      for (size_t k = 0; k <= operands; ++k) fits = fits && outer.strides[k] == axis.strides[k] * axis.size;
      if (fits) {
        outer.size *= axis.size;
        outer.strides = axis.strides;
        continue;
      }
    }
    merged.push_back(std::move(axis));
  }
  if (merged.empty()) merged.push_back({1, SmallVector<int64_t, kMaxOperands + 1>(operands + 1, 1)});
  return merged;
}

// Moves `count` elements from iteration index `start` on between a strided array and a dense tile.
template <bool kGather>
void transfer(const SmallVector<Axis, 6>& axes, size_t k, char* array, size_t array_bytes, char* tile,
              size_t tile_bytes, ConvertKernel convert, int64_t start, int64_t count) {
  SmallVector<int64_t, 6> at(axes.size());
  int64_t rest = start, offset = 0;
  for (size_t d = axes.size(); d-- > 0;) {
    at[d] = rest % axes[d].size;
    rest /= axes[d].size;
    offset += at[d] * axes[d].strides[k];
  }
  const size_t inner = axes.size() - 1;
  for (int64_t done = 0; done < count;) {
    const int64_t run = std::min(count - done, axes[inner].size - at[inner]);
    char* place = array + offset * static_cast<int64_t>(array_bytes);
    if constexpr (kGather)
      convert(place, axes[inner].strides[k], tile + done * static_cast<int64_t>(tile_bytes), 1, run);
    else convert(tile + done * static_cast<int64_t>(tile_bytes), 1, place, axes[inner].strides[k], run);
    done += run;
    at[inner] += run;
    offset += run * axes[inner].strides[k];
    for (size_t d = inner; d > 0 && at[d] == axes[d].size; --d) {
      offset += axes[d - 1].strides[k] - axes[d].size * axes[d].strides[k];
      at[d] = 0;
      ++at[d - 1];
    }
  }
}

bool is_dense(const SmallVector<Axis, 6>& axes, size_t k) {
  int64_t expected = 1;
  for (size_t d = axes.size(); d-- > 0;) {
    if (axes[d].strides[k] != expected) return false;
    expected *= axes[d].size;
  }
  return true;
}

bool is_constant(const SmallVector<Axis, 6>& axes, size_t k) {
  for (const Axis& axis : axes)
    if (axis.strides[k] != 0) return false;
  return true;
}

// The axis along which array k is contiguous where that is not the inner one: the array is transposed against the
// iteration. The inner axis if it is not, or if one side is too short for blocks to pay.
size_t crossing_axis(const SmallVector<Axis, 6>& axes, size_t k) {
  const size_t inner = axes.size() - 1;
  if (axes[inner].strides[k] == 1 || axes[inner].strides[k] == 0 || axes[inner].size < 8) return inner;
  for (size_t d = 0; d < inner; ++d)
    if (axes[d].strides[k] == 1 && axes[d].size >= 8) return d;
  return inner;
}

void splat_element(Splat& splat, const StridedArray& array, DType compute) {
  convert_kernel(array.dtype, compute)(array.data, 0, splat.bytes, 1, kVectorLanes);
}

}  // namespace

void Splat::set(DType compute, double floating, int64_t integer) {
  for (int lane = 0; lane < kVectorLanes; ++lane) {
    switch (compute) {
      case DType::Float32: reinterpret_cast<float*>(bytes)[lane] = static_cast<float>(floating); break;
      case DType::Float64: reinterpret_cast<double*>(bytes)[lane] = floating; break;
      case DType::Int64: reinterpret_cast<int64_t*>(bytes)[lane] = integer; break;
      default: reinterpret_cast<int32_t*>(bytes)[lane] = static_cast<int32_t>(integer); break;
    }
  }
}

void run_contiguous(ElementwiseKernel kernel, int64_t n, int num_inputs, const void* const* in,
                    const int64_t* step, void* out, DType compute, DType output, double cost) {
  const int64_t grain = grain_of(cost);
  if (n <= grain) {
    kernel(n, in, step, out);
    return;
  }
  const int64_t in_bytes = static_cast<int64_t>(size_of(compute)),
                out_bytes = static_cast<int64_t>(size_of(output));
  parallel_for(n, grain, [&](int64_t begin, int64_t end) {
    const void* from[kMaxOperands];
    for (int k = 0; k < num_inputs; ++k)
      from[k] = static_cast<const char*>(in[k]) + begin * step[k] * in_bytes;
    kernel(end - begin, from, step, static_cast<char*>(out) + begin * out_bytes);
  });
}

void run_elementwise(const ElementwiseCall& call) {
  int64_t n = 1;
  for (int64_t size : call.sizes) n *= size;
  if (n == 0) return;
  const size_t operands = call.inputs.size();
  const SmallVector<Axis, 6> axes = make_axes(call);
  const size_t inner = axes.size() - 1;
  const DType written = call.is_predicate ? DType::Bool : call.compute;
  const int64_t compute_bytes = static_cast<int64_t>(size_of(call.compute)),
                written_bytes = static_cast<int64_t>(size_of(written));

  // A large transposed input is laid out like the output first: whole lines are read and written, where tiles would touch
  // a line for every element.
  if (n >= kWorthTransposing && is_dense(axes, operands)) {
    for (size_t k = 0; k < operands; ++k) {
      if (call.inputs[k].data == nullptr || crossing_axis(axes, k) == inner) continue;
      const size_t bytes = static_cast<size_t>(n) * size_of(call.inputs[k].dtype);
      const std::unique_ptr<void, Deallocate> copy(allocate(bytes), Deallocate{bytes});
      SmallVector<StridedArray, 4> inputs(call.inputs.begin(), call.inputs.end());
      inputs[k] = {copy.get(), call.inputs[k].dtype, call.output.strides};
      copy_strided({call.sizes.data(), call.sizes.size()}, call.inputs[k], inputs[k]);
      ElementwiseCall rest = call;
      rest.inputs = {inputs.data(), inputs.size()};
      run_elementwise(rest);
      return;
    }
  }

  // How each array is reached: Direct through its own memory, Constant through a splat, Run along the inner axis, Tile by copying.
  enum class Access : uint8_t { Direct, Constant, Run, Tile };
  const bool long_runs = axes[inner].size >= kLongRun;
  Access access[kMaxOperands + 1];
  Splat constants[kMaxOperands];
  bool runs = false, tiles = false;
  for (size_t k = 0; k <= operands; ++k) {
    const bool is_output = k == operands;
    if (!is_output && call.inputs[k].data == nullptr) {
      constants[k] = call.splats[k];
      access[k] = Access::Constant;
      continue;
    }
    const StridedArray& array = is_output ? call.output : call.inputs[k];
    const bool same_type = array.dtype == (is_output ? written : call.compute);
    if (!is_output && is_constant(axes, k)) {
      splat_element(constants[k], array, call.compute);
      access[k] = Access::Constant;
    } else if (same_type && is_dense(axes, k)) {
      access[k] = Access::Direct;
    } else if (long_runs && (!is_output && axes[inner].strides[k] == 0)) {
      access[k] = Access::Run;
      runs = true;
    } else if (long_runs && same_type && axes[inner].strides[k] == 1) {
      access[k] = Access::Run;
      runs = true;
    } else {
      access[k] = Access::Tile;
      tiles = true;
    }
  }

  parallel_for(n, grain_of(call.cost + (tiles ? 4 : 0)), [&](int64_t begin, int64_t end) {
    alignas(64) char buffers[kMaxOperands][kTile * 8];
    alignas(64) char out_buffer[kTile * 8];
    Splat run_constants[kMaxOperands];
    const void* in[kMaxOperands];
    int64_t step[kMaxOperands];
    for (int64_t i = begin; i < end;) {
      int64_t count = end - i;
      int64_t inner_at = 0;
      if (runs) {
        inner_at = i % axes[inner].size;
        count = std::min(count, axes[inner].size - inner_at);
      }
      if (tiles) count = std::min(count, kTile);
      const auto place = [&](size_t k, const StridedArray& array) {
        int64_t rest = i, offset = 0;
        for (size_t d = axes.size(); d-- > 0;) {
          offset += rest % axes[d].size * axes[d].strides[k];
          rest /= axes[d].size;
        }
        return static_cast<char*>(array.data) + offset * static_cast<int64_t>(size_of(array.dtype));
      };
      for (size_t k = 0; k < operands; ++k) {
        const StridedArray& array = call.inputs[k];
        step[k] = 1;
        switch (access[k]) {
          case Access::Direct: in[k] = static_cast<char*>(array.data) + i * compute_bytes; break;
          case Access::Constant:
            in[k] = constants[k].bytes;
            step[k] = 0;
            break;
          case Access::Run:
            in[k] = place(k, array);
            if (axes[inner].strides[k] == 0) {
              convert_kernel(array.dtype, call.compute)(in[k], 0, run_constants[k].bytes, 1, kVectorLanes);
              in[k] = run_constants[k].bytes;
              step[k] = 0;
            }
            break;
          case Access::Tile:
            transfer<true>(axes, k, static_cast<char*>(array.data), size_of(array.dtype), buffers[k],
                           size_of(call.compute), convert_kernel(array.dtype, call.compute), i, count);
            in[k] = buffers[k];
            break;
        }
      }
      switch (access[operands]) {
        case Access::Direct:
          call.kernel(count, in, step, static_cast<char*>(call.output.data) + i * written_bytes);
          break;
        case Access::Run: call.kernel(count, in, step, place(operands, call.output)); break;
        default:
          call.kernel(count, in, step, out_buffer);
          transfer<false>(axes, operands, static_cast<char*>(call.output.data), size_of(call.output.dtype),
                          out_buffer, size_of(written), convert_kernel(written, call.output.dtype), i, count);
          break;
      }
      i += count;
    }
  });
}

namespace {

// A piece of a transpose for one thread: with 256 rows the pages of both sides stay in the second-level TLB.
constexpr int64_t kPiece = 256;
// Results of this size leave no room in the caches for anything else.
constexpr int64_t kStreamBytes = 16 << 20;

}  // namespace

void copy_strided(std::span<const int64_t> sizes, const StridedArray& from, const StridedArray& to) {
  // The identity as an elementwise call: the loops above find the axes; conversion does all the work.
  ElementwiseCall call{nullptr, to.dtype, false, 1, {sizes.begin(), sizes.end()}, {&from, 1}, {}, to};
  int64_t n = 1;
  for (int64_t size : sizes) n *= size;
  if (n == 0) return;
  const SmallVector<Axis, 6> axes = make_axes(call);
  const size_t inner = axes.size() - 1;
  const ConvertKernel convert = convert_kernel(from.dtype, to.dtype);
  const int64_t from_bytes = static_cast<int64_t>(size_of(from.dtype)),
                to_bytes = static_cast<int64_t>(size_of(to.dtype));
  char* const source = static_cast<char*>(from.data);
  char* const target = static_cast<char*>(to.data);

  // A transpose: the source runs along another axis than the target. Note [Transposing by lines]
  const size_t other = from.dtype == to.dtype && axes[inner].strides[1] == 1 ? crossing_axis(axes, 0) : inner;
  if (other != inner) {
    const int64_t rows = axes[other].size, columns = axes[inner].size;
    const int64_t down = (rows + kPiece - 1) / kPiece, across = (columns + kPiece - 1) / kPiece;
    const int64_t batches = n / (rows * columns);
    const int64_t in_step = axes[inner].strides[0], out_step = axes[other].strides[1];
    const int64_t piece_elements = std::min(rows, kPiece) * std::min(columns, kPiece);
    const bool streams = n * to_bytes >= kStreamBytes;
    parallel_for(
        batches * down * across, std::max<int64_t>(1, 32768 / piece_elements),
        [&](int64_t begin, int64_t end) {
          for (int64_t piece = begin; piece < end; ++piece) {
            const int64_t r = piece / across % down * kPiece, c = piece % across * kPiece;
            int64_t rest = piece / (down * across), in_offset = r + c * in_step,
                    out_offset = r * out_step + c;
            for (size_t d = inner; d-- > 0;) {
              if (d == other) continue;
              const int64_t at = rest % axes[d].size;
              rest /= axes[d].size;
              in_offset += at * axes[d].strides[0];
              out_offset += at * axes[d].strides[1];
            }
            transpose(size_of(to.dtype), source + in_offset * from_bytes, in_step,
                      target + out_offset * to_bytes, out_step, std::min(kPiece, rows - r),
                      std::min(kPiece, columns - c), streams);
          }
        },
        1);
    return;
  }

  parallel_for(n, grain_of(2), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end;) {
      int64_t rest = i, in_offset = 0, out_offset = 0, at_inner = 0;
      for (size_t d = axes.size(); d-- > 0;) {
        const int64_t at = rest % axes[d].size;
        rest /= axes[d].size;
        in_offset += at * axes[d].strides[0];
        out_offset += at * axes[d].strides[1];
        if (d == inner) at_inner = at;
      }
      const int64_t run = std::min(end - i, axes[inner].size - at_inner);
      convert(source + in_offset * from_bytes, axes[inner].strides[0], target + out_offset * to_bytes,
              axes[inner].strides[1], run);
      i += run;
    }
  });
}

}  // namespace weft::cpu
