// Calls of the driver's kernels for rows, with what they work in.
// Place: the out-of-line half of tensor/cuda/rows.h.
#include "tensor/cuda/rows.h"

#include "tensor/cuda/workspace.h"

namespace weft::cuda {

Element element_of(DType dtype) {
  switch (dtype) {
    case DType::Bool:
    case DType::UInt8: return Element::UInt8;
    case DType::Int8: return Element::Int8;
    case DType::Int16: return Element::Int16;
    case DType::Int32: return Element::Int32;
    case DType::Int64: return Element::Int64;
    case DType::Float16: return Element::Float16;
    case DType::BFloat16: return Element::BFloat16;
    case DType::Float32: return Element::Float32;
    default: return Element::Float64;
  }
}

void sort_rows(const RowSort& what, const void* x, void* values, int64_t* indices) {
  const Driver& d = driver();
  size_t bytes = 0;
  check(d, d.sort_workspace(&what, &bytes), "sort");
  const Stream stream = current_stream();
  const Workspace workspace(current_device(), bytes, stream, "workspace of a sort");
  check(d, d.sort(&what, x, values, indices, workspace.get(), bytes, stream), "sort");
}

void scan_rows(const RowScan& what, const void* x, void* out) {
  const Driver& d = driver();
  size_t bytes = 0;
  check(d, d.scan_workspace(&what, &bytes), "scan");
  const Stream stream = current_stream();
  const Workspace workspace(current_device(), bytes, stream, "workspace of a scan");
  check(d, d.scan(&what, x, out, workspace.get(), stream), "scan");
}

void find_extremes(const RowExtreme& what, const void* x, void* values, int64_t* places) {
  const Driver& d = driver();
  size_t bytes = 0;
  check(d, d.extreme_workspace(&what, &bytes), "search for extremes");
  const Stream stream = current_stream();
  const Workspace workspace(current_device(), bytes, stream, "workspace of a search");
  check(d, d.extreme(&what, x, values, places, workspace.get(), stream), "search for extremes");
}

}  // namespace weft::cuda
