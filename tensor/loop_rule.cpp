// Asking an element rule whether it covers a call, and what it indexes.
// Place: the out-of-line half of tensor/loop_rule.h.
#include "tensor/loop_rule.h"

namespace weft {
namespace {

// Answers everything with a value that is not known.
class DryReader final : public LoopReader {
 public:
  explicit DryReader(const Call& call) : call_(call) {}

  ExprGraph& graph() override { return graph_; }
  Expr load(size_t operand, std::span<const Sym>) override { return unknown(call_.tensor(operand)->dtype); }
  Expr load_where(const Expr&, size_t operand, std::span<const Sym> place) override {
    return load(operand, place);
  }
  Expr place(Sym) override { return unknown(DType::Int64); }
  Sym index(const Expr&, Sym size) override {
    indexes_nothing_ = indexes_nothing_ || !statically_known(SymCompare::Gt, size, Sym::from_int(0));
    return Sym::from_int(0);
  }
  Expr number(const Scalar&, DType dtype) override { return unknown(dtype); }
  Expr random(const Scalar&, const Scalar&, Sym, bool wide) override {
    return unknown(wide ? DType::Int64 : DType::Int32);
  }

  // An index of a dimension that may have no elements: a wrong one has no element to stand for it.
  bool indexes_nothing() const { return indexes_nothing_; }

 private:
  Expr unknown(DType dtype) { return graph_.input(0, dtype); }

  const Call& call_;
  ExprGraph graph_;
  bool indexes_nothing_ = false;
};

// Whether the rule covers the call; the reader has seen what it asks for.
bool run_dry(DryReader& reader, const Call& call, const OutputSpec& result) {
  const Sizes place(result.sizes.size(), Sym::from_int(0));
  return !call.op.element(reader, call, result, {place.data(), place.size()}).is_number();
}

}  // namespace

bool has_element_rule(const Call& call, const OutputSpec& result) {
  if (call.op.element == nullptr) return false;
  DryReader reader(call);
  return run_dry(reader, call, result);
}

bool may_index_nothing(const Call& call, const OutputSpec& result) {
  DryReader reader(call);
  return run_dry(reader, call, result) && reader.indexes_nothing();
}

}  // namespace weft
