// x.index({Slice(0, 3), None, Ellipsis, 2, mask}): slices, numbers and None become views, tensors the index op.
// Place: defines the indexing methods of tensor/tensor.h.
#include "tensor/ops/check.h"
#include "tensor/tensor_data.h"

namespace weft {

using indexing::TensorIndex;

TensorIndex::TensorIndex(const char* dots) : kind(Kind::Ellipsis) {
  WEFT_CHECK(dots != nullptr && std::string_view(dots) == "...", "index: \"", dots == nullptr ? "" : dots,
             "\" is no index; the only text is \"...\"");
}

namespace {

bool is_mask(const Tensor& index) { return index.dtype() == DType::Bool || index.dtype() == DType::UInt8; }

// How many dimensions of x an entry takes.
int64_t dims_taken(const TensorIndex& index) {
  switch (index.kind) {
    case TensorIndex::Kind::Integer:
    case TensorIndex::Kind::Slice: return 1;
    case TensorIndex::Kind::Tensor: return is_mask(index.tensor) ? index.tensor.dim() : 1;
    default: return 0;
  }
}

struct Indexed {
  Tensor view;                  // what slices, numbers and None leave of x
  std::vector<Tensor> tensors;  // for weft::index; empty where no tensor indexes
};

Indexed apply(const Tensor& x, const std::vector<TensorIndex>& indices, const char* op,
              SourceLocation where) {
  WEFT_CHECK_AT(where, x.defined(), op, ": the tensor is undefined");
  int64_t taken = 0, dots = 0;
  for (const TensorIndex& index : indices) {
    WEFT_CHECK_AT(where, index.kind != TensorIndex::Kind::Tensor || index.tensor.defined(), op,
                  ": an index is an undefined tensor");
    taken += dims_taken(index);
    dots += index.kind == TensorIndex::Kind::Ellipsis;
  }
  WEFT_CHECK_AT(where, dots <= 1, op, ": ", dots,
                " Ellipsis are given; which dimensions each stands for would be open");
  if (taken > x.dim()) {
    const PlaceScope place(where);
    throw IndexError(detail::concat(op, ": the indices take ", taken, " dimensions, but the tensor ",
                                    x.sizes(), " has ", x.dim()));
  }

  Indexed result{x, {}};
  int64_t dim = 0;  // of result.view
  std::vector<std::pair<int64_t, Tensor>> found;
  for (const TensorIndex& index : indices) {
    Tensor& view = result.view;
    switch (index.kind) {
      case TensorIndex::Kind::Ellipsis: dim += x.dim() - taken; break;
      case TensorIndex::Kind::None: view = unsqueeze(view, dim++, where); break;
      case TensorIndex::Kind::Integer: view = select(view, dim, index.integer, where); break;
      case TensorIndex::Kind::Slice: {
        const indexing::Slice& slice = index.slice;
        const bool is_whole = !slice.start && !slice.stop && !slice.step.is_symbolic() && slice.step == 1;
        if (!is_whole) view = weft::slice(view, dim, slice.start, slice.stop, slice.step, where);
        ++dim;
        break;
      }
      case TensorIndex::Kind::Bool:
        view = unsqueeze(view, dim, where);
        found.emplace_back(dim++, tensor({index.integer == 1}, {}, where));
        break;
      case TensorIndex::Kind::Tensor: {
        const Tensor& tensor = index.tensor;
        WEFT_CHECK_AT(where, !tensor.is_floating_point(), op, ": an index tensor is ", tensor.dtype(),
                      "; it must hold integers or bools");
        if (tensor.dim() > 0 || (!is_mask(tensor) && tensor->is_fake)) {
          found.emplace_back(dim, tensor);
          dim += dims_taken(index);
        } else if (is_mask(tensor)) {
          view = unsqueeze(view, dim, where);
          found.emplace_back(dim++, reshape(tensor.to(DType::Bool), {1}, where));
        } else {
          // A single number: the result is a view, as for a plain one.
          view = select(view, dim, tensor.item<int64_t>(where), where);
        }
        break;
      }
    }
  }
  // weft::index counts its list in dimensions, where a mask stands for as many as it has.
  int64_t at = 0;
  for (auto& [where_found, tensor] : found) {
    for (; at < where_found; ++at) result.tensors.emplace_back();
    at += is_mask(tensor) ? tensor.dim() : 1;
    result.tensors.push_back(std::move(tensor));
  }
  return result;
}

}  // namespace

Tensor Tensor::index(const std::vector<TensorIndex>& indices, SourceLocation where) const {
  Indexed found = apply(*this, indices, "index", where);
  if (!found.tensors.empty()) return weft::index(found.view, found.tensors, where);
  return found.view.is_same(*this) ? weft::alias(*this, where) : found.view;
}

Tensor& Tensor::index_put_(const std::vector<TensorIndex>& indices, const Operand& value,
                           SourceLocation where) {
  Indexed found = apply(*this, indices, "index_put_", where);
  if (!found.tensors.empty()) {
    found.view.index_put_(found.tensors, value, false, where);
    return *this;
  }
  if (!value.is_tensor()) {
    found.view.fill_(value, where);
    return *this;
  }
  // Leading dimensions of size 1 beyond those written to fall away, as in PyTorch.
  Tensor source = *value.tensor;
  while (source.dim() > found.view.dim() && source.size(0) == 1) source = weft::select(source, 0, 0, where);
  found.view.copy_(source, false, where);
  return *this;
}

}  // namespace weft
