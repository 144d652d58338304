// Marks lie in the trace slot of the tensor, which real tensors have no other use for, and so end with it.
#include "compiler/trace/marks.h"

namespace weft {
namespace {

class MarkSlot final : public TraceSlot {
 public:
  // Another handle to the same tensor, such as the one that the tape keeps.
  std::unique_ptr<TraceSlot> share(TensorImpl&) const override {
    auto copy = std::make_unique<MarkSlot>();
    copy->marks = marks;
    return copy;
  }
  SmallVector<compiler::DimMark, 2> marks;
};

void set_mark(const Tensor& x, const compiler::DimMark& mark) {
  if (x->trace == nullptr) x->trace = std::make_unique<MarkSlot>();
  auto& marks = static_cast<MarkSlot&>(*x->trace).marks;
  for (compiler::DimMark& each : marks) {
    if (each.dim != mark.dim) continue;
    each = mark;
    return;
  }
  marks.push_back(mark);
}

}  // namespace

void mark_dynamic(const Tensor& x, int64_t dim, DimRange range) {
  const auto d = static_cast<uint32_t>(normalize_dim(dim, x.dim(), "mark_dynamic"));
  if (x.is_fake()) return;  // inside a compiled function its sizes are decided already
  const int64_t size = x.size(dim);
  WEFT_CHECK(range.min >= 0 && range.min <= range.max, "mark_dynamic: the range [", range.min, ", ",
             range.max, "] is empty or below 0; min and max are sizes, both included");
  WEFT_CHECK(range.min <= size && size <= range.max, "mark_dynamic: size(", dim, ") is ", size,
             ", outside the range [", range.min, ", ", range.max, "] that is declared for it");
  set_mark(x, {d, false, range});
}

void mark_static(const Tensor& x, int64_t dim) {
  const auto d = static_cast<uint32_t>(normalize_dim(dim, x.dim(), "mark_static"));
  if (!x.is_fake()) set_mark(x, {d, true, {}});
}

std::span<const compiler::DimMark> compiler::marks_of(const Tensor& x) {
  if (!x.defined() || x->is_fake || x->trace == nullptr) return {};
  const auto& marks = static_cast<const MarkSlot&>(*x->trace).marks;
  return {marks.data(), marks.size()};
}

}  // namespace weft
