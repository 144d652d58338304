// Fake tensors and the list of those that live.
#include "compiler/trace/fake.h"

namespace weft::compiler {

FakeSlot::FakeSlot(Intrusive<TraceLife> life, TensorImpl& owner, Intrusive<FakeStorage> s,
                   Intrusive<FakeView> c, ValueId v)
    : storage(std::move(s)),
      chain(std::move(c)),
      value(v),
      version(storage->version),
      life_(std::move(life)),
      owner_(owner),
      next_(life_->first) {
  if (next_ != nullptr) next_->previous_ = this;
  life_->first = this;
}

FakeSlot::~FakeSlot() {
  if (next_ != nullptr) next_->previous_ = previous_;
  if (previous_ != nullptr) previous_->next_ = next_;
  else life_->first = next_;
}

std::unique_ptr<TraceSlot> FakeSlot::share(TensorImpl& owner) const {
  auto slot = std::make_unique<FakeSlot>(life_, owner, storage, chain, value);
  slot->version = version;
  return slot;
}

Tensor make_fake(const Intrusive<TraceLife>& life, const OutputSpec& spec, Sym numel,
                 Intrusive<Storage> memory, Intrusive<FakeStorage> storage, Intrusive<FakeView> chain,
                 ValueId value) {
  // The layout comes after: a constructor would ask for the number of elements, which settles sizes.
  Tensor fake(make_intrusive<TensorImpl>(Intrusive<Storage>(), Layout<Sym>(), spec.dtype, spec.device));
  fake->layout = {spec.sizes, spec.strides ? *spec.strides : contiguous_strides<Sym>(spec.sizes),
                  spec.offset};
  fake->numel = numel;
  fake->is_fake = true;
  fake->storage = std::move(memory);
  fake->trace = std::make_unique<FakeSlot>(life, *fake.impl(), std::move(storage), std::move(chain), value);
  return fake;
}

}  // namespace weft::compiler
