// ShapeTrace: runs functions on tensors without data, whose sizes may be symbols, to see what they ask of sizes.
// Needs compiler/trace/shape_env. A trace that records nothing: shapes alone.
#pragma once

#include <deque>

#include "compiler/trace/sym_guards.h"
#include "tensor/dispatch.h"

namespace weft::tests {

class ShapeTrace final : public TraceHook, public ScalarEnvironment {
 public:
  ShapeTrace()
      : outer_(current_trace()),
        outer_syms_(current_sym_environment()),
        outer_scalars_(current_scalar_environment()) {
    resume();
  }
  ~ShapeTrace() override { pause(); }
  ShapeTrace(const ShapeTrace&) = delete;
  ShapeTrace& operator=(const ShapeTrace&) = delete;

  void resume() {
    current_trace() = this;
    current_sym_environment() = &env;
    current_scalar_environment() = this;
  }
  void pause() {
    current_trace() = outer_;
    current_sym_environment() = outer_syms_;
    current_scalar_environment() = outer_scalars_;
  }

  // Stands for tensor leaf `leaf` of a call; sizes of 2 and more become symbols, unless `is_static` has their bit.
  Tensor argument(const Tensor& real, uint64_t is_static = 0) {
    std::vector<int64_t> sizes(int_sizes(real), int_sizes(real) + real.dim());
    std::vector<int64_t> strides(int_strides(real), int_strides(real) + real.dim());
    std::vector<compiler::DimPolicy> policies(sizes.size());
    for (size_t d = 0; d < sizes.size(); ++d)
      if ((is_static >> d & 1) == 0) policies[d].kind = compiler::DimPolicy::Kind::Dynamic;
    Layout<Sym> layout = env.add_layout(num_leaves_++, sizes, strides, policies);
    // What an op looks at is settled before it looks: nothing is gained by keeping the strides from it.
    env.settle(layout);
    layout.offset = Sym::from_int(real->layout.offset.concrete());
    return fake(std::move(layout), real.dtype(), Storage::wrap(nullptr, 0, kCPU, {}));
  }
  Tensor argument(std::vector<int64_t> sizes, DType dtype = DType::Float32, uint64_t is_static = 0) {
    const SymList list(sizes);
    Layout<Sym> layout = contiguous_layout<Sym>(list);
    pause();
    const Tensor real(make_intrusive<TensorImpl>(Storage::wrap(nullptr, 0, kCPU, {}), layout, dtype, kCPU));
    resume();
    return argument(real, is_static);
  }

  // "s0 == s1; s2 % 8 == 0", and what was fixed: "0.0 = 4" for dimension 0 of argument 0. Strides are left out.
  std::string guards() const {
    std::string text;
    for (const compiler::SymGuard& guard : env.guards()) {
      if (is_stride(guard)) continue;
      text += (text.empty() ? "" : "; ") + tables->syms.to_string(guard.a) + " " +
              compiler::name_of(guard.op) + " " + tables->syms.to_string(guard.b);
    }
    return text;
  }
  std::string fixed() const {
    std::string text;
    for (const compiler::FixedValue& value : env.fixed()) {
      if (value.source.kind != compiler::SymbolSource::Kind::Size || value.value < 2) continue;
      text += (text.empty() ? "" : "; ") + std::to_string(value.source.leaf) + "." +
              std::to_string(value.source.dim) + " = " + std::to_string(value.value);
    }
    return text;
  }

  std::shared_ptr<compiler::Expressions> tables = std::make_shared<compiler::Expressions>();
  compiler::ShapeEnv env{tables->syms};

  // ---- TraceHook
  void record(const Call& call, std::span<Tensor> outputs) override {
    env.set_place({call.where, &call.op});
    if (call.op.kind == Kind::View) {
      const Tensor& base = call.tensor(0);
      outputs[0] =
          fake(call.op.view(base->layout, call.attrs, base->dtype),
               call.op.view_dtype != nullptr ? call.op.view_dtype(call.attrs, base->dtype) : base->dtype,
               base->storage);
    } else {
      WEFT_CHECK(call.op.infer != nullptr && !call.op.data_dependent, call.name(),
                 ": its sizes depend on data");
      const OutputSpecs specs = call.op.infer(call);
      for (size_t i = 0; i < specs.size(); ++i) {
        Layout<Sym> layout = contiguous_layout<Sym>(specs[i].sizes);
        if (specs[i].strides) layout.strides = *specs[i].strides;
        outputs[i] = fake(std::move(layout), specs[i].dtype, Storage::wrap(nullptr, 0, kCPU, {}));
      }
    }
    for (Tensor& output : outputs) {
      output->made_by = &call.op;
      output->made_at = call.where;
    }
  }
  void mutate(const Call& call, const Tensor& self) override {
    const Tensor value = weft::call(*call.op.base, call.operands, call.attrs, call.where);
    WEFT_CHECK(value.sizes() == self.sizes(), call.name(), ": the result of sizes ", value.sizes(),
               " does not fit into ", self.sizes());
    self->storage->bump_version(call.op, call.where);
  }
  Scalar read(const Tensor&, SourceLocation) override { throw Error("shape trace: a value is read"); }
  const Tensor& stand_in(const Tensor& x) override {
    if (x->is_fake) return x;
    for (const auto& [real, made] : lifted_)
      if (real.is_same(x)) return made;
    lifted_.emplace_back(x, fake(x->layout, x->dtype, Storage::wrap(nullptr, 0, kCPU, {})));
    return lifted_.back().second;
  }
  Tensor constant(const Tensor& data, SourceLocation) override {
    return fake(data->layout, data->dtype, Storage::wrap(nullptr, 0, kCPU, {}));
  }
  RandomStream draw(Sym) override { return {Scalar(int64_t{1}), Scalar(int64_t{0})}; }

  // ---- ScalarEnvironment: sizes stay sizes, and what else is made of them is some number.
  Scalar binary(ScalarOp op, const Scalar& a, const Scalar& b) override {
    const auto sym = [](const Scalar& s) { return s.is_symbolic() ? s.sym() : Sym::from_int(s.to_int()); };
    if (a.is_integer() && b.is_integer() && !a.is_traced() && !b.is_traced()) {
      if (op == ScalarOp::Add) return sym(a) + sym(b);
      if (op == ScalarOp::Sub) return sym(a) - sym(b);
      if (op == ScalarOp::Mul) return sym(a) * sym(b);
    }
    return Scalar::from_trace(Scalar::Category::Floating, 0);
  }
  bool compare(SymCompare op, const Scalar& a, const Scalar& b) override {
    const auto sym = [](const Scalar& s) { return s.is_symbolic() ? s.sym() : Sym::from_int(s.to_int()); };
    WEFT_CHECK(!a.is_traced() && !b.is_traced(), "shape trace: a number is compared");
    return env.compare(op, sym(a), sym(b));
  }
  double read_double(const Scalar& a) override { return static_cast<double>(read_int(a)); }
  int64_t read_int(const Scalar& a) override {
    WEFT_CHECK(!a.is_traced(), "shape trace: a number is read");
    return static_cast<int64_t>(a.sym());
  }

 private:
  Tensor fake(Layout<Sym> layout, DType dtype, Intrusive<Storage> storage) {
    Tensor made(make_intrusive<TensorImpl>(Intrusive<Storage>(), std::move(layout), dtype, kCPU));
    made->is_fake = true;
    made->storage = std::move(storage);
    return made;
  }
  bool is_stride(const compiler::SymGuard& guard) const {
    for (uint32_t symbol : tables->syms.symbols_of(guard.a))
      if (env.sources()[symbol].kind == compiler::SymbolSource::Kind::Stride) return true;
    return false;
  }

  TraceHook* outer_;
  SymEnvironment* outer_syms_;
  ScalarEnvironment* outer_scalars_;
  std::deque<std::pair<Tensor, Tensor>> lifted_;
  uint32_t num_leaves_ = 0;
};

}  // namespace weft::tests
