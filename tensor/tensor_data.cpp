// Tensors of numbers written in the program.
// Place: the out-of-line half of tensor/tensor_data.h.
#include "tensor/tensor_data.h"

#include <algorithm>
#include <cstring>

#include "tensor/dispatch.h"
#include "tensor/ops/check.h"
#include "tensor/ops/factory.h"
#include "tensor/ops/fill.h"

namespace weft {
namespace {

DType dtype_of_category(Scalar::Category category) {
  return category == Scalar::Category::Bool      ? DType::Bool
         : category == Scalar::Category::Integer ? DType::Int64
                                                 : default_dtype();
}

struct Walk {
  SourceLocation where;
  Sizes sizes;
  std::vector<Scalar> numbers;
  Scalar::Category category = Scalar::Category::Bool;

  void visit(const TensorData& data, size_t depth) {
    if (!data.is_list()) {
      WEFT_CHECK_AT(where, depth == sizes.size(),
                    "tensor: a number stands among lists; all rows need the same depth");
      numbers.push_back(data.number());
      if (data.number().category() > category) category = data.number().category();
      return;
    }
    WEFT_CHECK_AT(where, depth < sizes.size(),
                  "tensor: a list stands among numbers; all rows need the same depth");
    WEFT_CHECK_AT(where, sizes[depth] == static_cast<int64_t>(data.size()), "tensor: rows of ", sizes[depth],
                  " and of ", data.size(), " elements stand side by side at depth ", depth,
                  "; they must have the same length");
    for (const TensorData& item : data) visit(item, depth + 1);
  }
};

// The numbers were written on the host.
Tensor finished(Tensor result, const TensorOptions& options, SourceLocation where) {
  if (options.device().is_cuda()) result = result.to(options.device(), false, false, where);
  return with_options(std::move(result), options);
}

}  // namespace

Tensor tensor(const TensorData& data, const TensorOptions& options, SourceLocation where) {
  if (!data.is_list()) {
    // Through an op, so that a number that is known only at run time stays one.
    const DType dtype = options.has_dtype() ? options.dtype() : dtype_of_category(data.number().category());
    return full({}, data.number(), options.dtype(dtype), where);
  }
  Walk walk{where, {}, {}};
  // The first element of each level says how long its rows are.
  for (const TensorData* at = &data; at->is_list(); at = at->begin()) {
    walk.sizes.push_back(Sym::from_int(static_cast<int64_t>(at->size())));
    if (at->size() == 0) break;
  }
  walk.visit(data, 0);
  const DType dtype = options.has_dtype()    ? options.dtype()
                      : walk.numbers.empty() ? default_dtype()
                                             : dtype_of_category(walk.category);
  TraceHook* const trace = current_trace();
  if (trace != nullptr && std::any_of(walk.numbers.begin(), walk.numbers.end(), [](const Scalar& number) {
        return number.is_traced() || number.is_symbolic();
      })) {
    // Numbers that are known only at run time are put together by ops.
    std::vector<Tensor> elements;
    for (const Scalar& number : walk.numbers)
      elements.push_back(full({}, number, TensorOptions(dtype), where));
    return finished(reshape(stack(elements, 0, where), SymList(walk.sizes), where), options, where);
  }
  Tensor result = make_tensor(walk.sizes, dtype);
  const size_t size = size_of(dtype);
  char* out = bytes_of(result);
  for (const Scalar& number : walk.numbers) {
    std::memcpy(out, Element(number, dtype, "tensor").bytes, size);
    out += size;
  }
  if (trace != nullptr) result = trace->constant(result, where);
  return finished(std::move(result), options, where);
}

Tensor detail::tensor_of_array(const void* data, DType dtype, size_t count, const TensorOptions& options,
                               SourceLocation where) {
  const DType wanted = options.has_dtype()    ? options.dtype()
                       : is_floating(dtype)   ? default_dtype()
                       : dtype == DType::Bool ? DType::Bool
                                              : DType::Int64;
  const Sizes sizes = {Sym::from_int(static_cast<int64_t>(count))};
  Tensor result = make_tensor(sizes, wanted);
  if (count > 0) {
    Intrusive<Storage> memory = Storage::wrap(const_cast<void*>(data), count * size_of(dtype), kCPU, {});
    copy_data(
        Tensor(make_intrusive<TensorImpl>(std::move(memory), contiguous_layout<Sym>(sizes), dtype, kCPU)),
        result);
  }
  if (TraceHook* trace = current_trace()) result = trace->constant(result, where);
  return finished(std::move(result), options, where);
}

}  // namespace weft
