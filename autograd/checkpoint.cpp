// The hook that drops what a checkpointed function saves, and runs it again when it is asked for.
#include "autograd/checkpoint.h"

#include "autograd/grad_mode.h"
#include "autograd/tape.h"
#include "tensor/random/generator.h"

namespace weft::autograd {
namespace {

struct Installed {
  explicit Installed(SaveHook* hook) : before(SaveHook::current()) { SaveHook::current() = hook; }
  ~Installed() { SaveHook::current() = before; }
  SaveHook* before;
};

// Gives the default generator back to the program.
struct Rewound {
  explicit Rewound(GeneratorState state) : before(default_generator().get_state()) {
    default_generator().set_state(state);
  }
  ~Rewound() { default_generator().set_state(before); }
  GeneratorState before;
};

// Collects what the second run saves, in the order of the first.
class Collector final : public SaveHook {
 public:
  size_t save(const Tensor& x, bool is_leaf, bool& keeps) override {
    keeps = is_leaf;
    values.push_back(is_leaf ? Tensor() : share_data(x));
    return values.size() - 1;
  }
  Tensor restore(size_t) override {
    weft::detail::throw_error("checkpoint: the function called backward on its own results");
  }
  void forget(size_t) noexcept override {}
  std::vector<Tensor> values;
};

class Checkpoint final : public SaveHook {
 public:
  Checkpoint(std::function<variable_list(const variable_list&)> function, const variable_list& inputs,
             SourceLocation where)
      : function_(std::move(function)),
        inputs_(inputs),
        random_(default_generator().get_state()),
        where_(where) {
    for (const Tensor& x : inputs) versions_.push_back(x.defined() ? x.version() : 0);
  }

  // A leaf is alive anyway.
  size_t save(const Tensor&, bool is_leaf, bool& keeps) override {
    keeps = is_leaf;
    return count_++;
  }
  Tensor restore(size_t ticket) override {
    if (values_.empty() || !values_[ticket].defined()) run_again();
    return values_[ticket];
  }
  void forget(size_t ticket) noexcept override {
    if (ticket < values_.size()) Tensor().exchange(values_[ticket]);
  }

 private:
  void run_again() {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      WEFT_CHECK(!inputs_[i].defined() || inputs_[i].version() == versions_[i], "checkpoint (",
                 to_string(where_), "): input ", i,
                 " was written in place after the forward, so the forward cannot be run again; write into "
                 "a clone() instead");
    }
    const auto collector = make_intrusive<Collector>();
    {
      const Installed installed(collector.get());
      const Rewound rewound(random_);
      const AutoGradMode on(true);
      static_cast<void>(function_(inputs_));
    }
    WEFT_CHECK(collector->values.size() == count_, "checkpoint (", to_string(where_),
               "): the function saved ", count_, " tensors for backward in its first run, but ",
               collector->values.size(), " in its second; it must do the same computation both times");
    values_ = std::move(collector->values);
  }

  std::function<variable_list(const variable_list&)> function_;
  variable_list inputs_;
  std::vector<uint32_t> versions_;
  GeneratorState random_;
  SourceLocation where_;
  size_t count_ = 0;
  std::vector<Tensor> values_;  // by ticket, after the second run
};

thread_local uint64_t traced_checkpoint = 0, last_checkpoint = 0;

// A compiled program computes again what is recorded meanwhile. What a checkpoint inside saves belongs to the outer one.
struct TracedCheckpoint {
  TracedCheckpoint() : before(traced_checkpoint) {
    if (before == 0) traced_checkpoint = ++last_checkpoint;
  }
  ~TracedCheckpoint() { traced_checkpoint = before; }
  uint64_t before;
};

}  // namespace

uint64_t checkpoint_being_traced() { return traced_checkpoint; }

variable_list checkpoint(std::function<variable_list(const variable_list&)> function,
                         const variable_list& inputs, SourceLocation where) {
  if (!grad_mode_enabled()) return function(inputs);
  if (current_trace() != nullptr) {
    const TracedCheckpoint traced;
    return function(inputs);
  }
  const auto hook = make_intrusive<Checkpoint>(function, inputs, where);
  const Installed installed(hook.get());
  return function(inputs);
}

}  // namespace weft::autograd
