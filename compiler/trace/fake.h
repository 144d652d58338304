// Fake tensors: what a trace knows of a tensor without data: the storage it shares, the views that lead to it, its value.
// Needs graph. The tracer makes them; functionalize.h reads and writes them.
#pragma once

#include "compiler/trace/graph.h"

namespace weft::compiler {

class FakeSlot;

// The fake tensors of one trace, which may be held by the user's code and outlive it.
struct TraceLife : RefCounted<TraceLife> {
  const void* trace = nullptr;  // the tracer; null once it has ended
  FakeSlot* first = nullptr;    // all living fakes, in no order
};

// Which tensor of the caller a storage is.
inline constexpr uint32_t kNoInput = ~uint32_t{0};

// The memory that some fakes share. Its value is the base; an in-place op gives it a new one. Note [Functional values]
struct FakeStorage : RefCounted<FakeStorage> {
  ValueId base = kNoValue;    // the value now
  OutputSpec spec;            // the layout of the base in its memory, as eager has it
  uint32_t version = 0;       // how often the base was replaced
  uint32_t input = kNoInput;  // the path input whose memory it is
  bool is_written = false;
  SourceLocation written_at;
};

// One view op of the chain from the base to a tensor.
struct FakeView : RefCounted<FakeView> {
  const Op* op = nullptr;
  Attrs attrs;
  OutputSpec from;  // what it is applied to, as eager has it
  Intrusive<FakeView> before;
};

class FakeSlot final : public TraceSlot {
 public:
  FakeSlot(Intrusive<TraceLife> life, TensorImpl& owner, Intrusive<FakeStorage> storage,
           Intrusive<FakeView> chain, ValueId value);
  ~FakeSlot() override;
  std::unique_ptr<TraceSlot> share(TensorImpl& owner) const override;

  static FakeSlot& of(const Tensor& x) { return static_cast<FakeSlot&>(*x->trace); }

  Intrusive<FakeStorage> storage;
  Intrusive<FakeView> chain;  // the last view; null: the base itself
  ValueId value;              // of this tensor at `version` of the storage
  uint32_t version;
  uint32_t input = kNoInput;  // the path input that this very tensor stands for

  const Intrusive<TraceLife>& life() const { return life_; }
  TensorImpl& owner() const { return owner_; }
  FakeSlot* next() const { return next_; }

 private:
  Intrusive<TraceLife> life_;
  TensorImpl& owner_;
  FakeSlot *previous_ = nullptr, *next_ = nullptr;
};

// A tensor without data. `memory` carries the versions of the storage that it shares.
Tensor make_fake(const Intrusive<TraceLife>& life, const OutputSpec& spec, Sym numel,
                 Intrusive<Storage> memory, Intrusive<FakeStorage> storage, Intrusive<FakeView> chain,
                 ValueId value);

}  // namespace weft::compiler
