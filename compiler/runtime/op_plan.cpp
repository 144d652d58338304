// Making plans of single ops and finding them again.
// Place: the out-of-line half of compiler/runtime/op_plan.h.
#include "compiler/runtime/op_plan.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <shared_mutex>

#include "compiler/passes/pipeline.h"
#include "compiler/runtime/launch_plan.h"
#include "compiler/trace/guards.h"
#include "compiler/trace/infer.h"
#include "compiler/trace/shape_env.h"
#include "compiler/trace/table_environment.h"
#include "tensor/ops/pointwise_rule.h"
#include "tensor/quiet_handles.h"

namespace weft::compiler {
namespace {

// ---- Kinds of calls -----------------------------------------------------------------------------------------------------

using Key = SmallVector<uint64_t, 24>;

uint64_t hash_of(const Key& key) {
  uint64_t hash = 0x9E3779B97F4A7C15u;
  for (const uint64_t word : key) hash = (hash ^ word) * 0xD6E8FEB86659FD93u, hash ^= hash >> 32;
  return hash;
}

void add_text(Key& key, std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3u;
  key.push_back(hash);
  key.push_back(text.size());
}

// Everything that tells kinds apart but the layouts, which guards check. Numbers and lists of sizes are leaves of the call.
// False for a call that no plan can be made of.
bool add_attr(Key& key, const Attr& attr, ArgumentLeaves& leaves) {
  key.push_back(attr.value().index());
  return std::visit(
      [&](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::monostate>) return true;
        else if constexpr (std::is_same_v<T, bool>) key.push_back(value);
        else if constexpr (std::is_same_v<T, Sym>) key.push_back(static_cast<uint64_t>(value.concrete()));
        else if constexpr (std::is_same_v<T, double>) key.push_back(std::bit_cast<uint64_t>(value));
        else if constexpr (std::is_same_v<T, DType>) key.push_back(static_cast<uint64_t>(value));
        else if constexpr (std::is_same_v<T, std::string>) add_text(key, value);
        else if constexpr (std::is_same_v<T, Device>)
          key.push_back(static_cast<uint64_t>(value.type) << 8 | static_cast<uint8_t>(value.index));
        else if constexpr (std::is_same_v<T, Scalar>) {
          key.push_back(static_cast<uint64_t>(value.category()));
          leaves.numbers.push_back({NumberLeaf::Kind::Scalar, value});
        } else if constexpr (std::is_same_v<T, SymList>) {
          key.push_back(value.size());
          for (const Sym size : value)
            leaves.numbers.push_back({NumberLeaf::Kind::Size, Scalar(size.concrete())});
        } else if constexpr (std::is_same_v<T, DimList>) {
          key.push_back(value.size());
          for (const int64_t dim : value) key.push_back(static_cast<uint64_t>(dim));
        } else {
          return false;  // a routine
        }
        return true;
      },
      attr.value());
}

bool read_call(const Call& call, PlanTarget target, Key& key, ArgumentLeaves& leaves) {
  key.push_back(reinterpret_cast<uintptr_t>(&call.op));
  key.push_back(static_cast<uint64_t>(target));
  for (const Operand& operand : call.operands) {
    if (operand.tensor != nullptr) {
      const TensorImpl& x = *operand.tensor->impl();
      key.push_back(1 | static_cast<uint64_t>(x.dtype) << 8 |
                    static_cast<uint64_t>(x.layout.sizes.size()) << 16 |
                    static_cast<uint64_t>(static_cast<uint8_t>(x.device.index)) << 32);
      leaves.tensors.push_back(operand.tensor);
    } else if (operand.is_scalar) {
      key.push_back(2 | static_cast<uint64_t>(operand.scalar.category()) << 8);
      leaves.numbers.push_back({NumberLeaf::Kind::Scalar, operand.scalar});
    } else {
      key.push_back(0);
    }
  }
  for (const Attr& attr : call.attrs)
    if (!add_attr(key, attr, leaves)) return false;
  key.push_back(static_cast<uint64_t>(default_dtype()));
  return true;
}

// ---- Plans --------------------------------------------------------------------------------------------------------------

// What of a call is written into the plan.
enum class Fixed : uint8_t { Nothing, Numbers, All };

struct Entry {
  Entry(GuardFacts facts, Schedule schedule) : guards(std::move(facts)), plan(std::move(schedule)) {}

  GuardBlock guards;
  LaunchPlan plan;
  std::vector<std::pair<uint32_t, Scalar>> numbers;  // leaves that must have these values
};

bool is_same_number(const Scalar& a, const Scalar& b) {
  if (a.category() != b.category()) return false;
  return a.is_floating() ? std::bit_cast<uint64_t>(a.to_double()) == std::bit_cast<uint64_t>(b.to_double())
                         : a.to_int() == b.to_int();
}

class Builder {
 public:
  Builder(const Call& call, PlanTarget target, const Key& key, const ArgumentLeaves& leaves, Fixed fixed)
      : call_(call),
        target_(target),
        leaves_(leaves),
        fixed_(fixed),
        expressions_(std::make_shared<Expressions>()),
        shapes_(expressions_->syms),
        graph_(expressions_) {
    facts_.structure = hash_of(key);
    facts_.global_word = current_global_word();
  }

  // Null if loops do not compute the call, as far as these things are fixed.
  std::shared_ptr<Entry> build() {
    try {
      record();
      if (graph_.outputs.empty()) return nullptr;
      // A move is a loop as it is, of a number that comes at the call too; the passes would make it a tensor of its own.
      const Op& op = *graph_.nodes[0].op;
      const bool is_move = op.pointwise != nullptr && op.pointwise->promote == Promote::Move;
      Graph prepared = target_ != PlanTarget::Outputs && is_move ? graph_ : prepare(graph_, Stage::Lowered);
      if (target_ == PlanTarget::InPlace) add_write(prepared);
      prepared.name = call_.name();
      Schedule made = schedule(prepared);
      if (!is_good(made)) return nullptr;
      facts_.add_shapes(shapes_, expressions_);
      auto entry = std::make_shared<Entry>(std::move(facts_), std::move(made));
      entry->numbers = std::move(numbers_);
      return entry;
    } catch (const TableEnvironment::UnknownNumber&) {
      return nullptr;  // a rule looks at a number
    }
  }

 private:
  // Questions about sizes become guards, as in a trace; those about numbers cannot be answered.
  class Scope {
   public:
    explicit Scope(Builder& builder)
        : table_(*builder.expressions_),
          before_(std::exchange(current_sym_environment(), &builder.shapes_)) {}
    ~Scope() { current_sym_environment() = before_; }

   private:
    TableEnvironment table_;
    SymEnvironment* before_;
  };

  Layout<Sym> layout_of(uint32_t leaf, const Tensor& x) {
    const size_t rank = x->layout.sizes.size();
    TensorFacts facts("x" + std::to_string(leaf), x);
    facts.is_used = true;
    Layout<Sym> layout;
    if (fixed_ == Fixed::All) {
      layout = x->layout;
      for (size_t d = 0; d < rank; ++d) {
        facts.sizes.push_back({true, int_sizes(x)[d], {}});
        facts.strides.push_back({true, int_strides(x)[d], {}});
      }
    } else {
      uint64_t dynamic_strides = 0;
      for (size_t d = 0; d < rank && d < 64; ++d)
        if (int_strides(x)[d] > 1) dynamic_strides |= uint64_t{1} << d;
      const std::vector<DimPolicy> policies(rank, DimPolicy{DimPolicy::Kind::Dynamic, {}});
      layout =
          shapes_.add_layout(leaf, {int_sizes(x), rank}, {int_strides(x), rank}, policies, dynamic_strides);
      shapes_.settle(layout);
    }
    layout.offset = Sym::from_int(0);
    facts_.tensors.push_back(std::move(facts));
    return layout;
  }

  // Number leaf `leaf`, as the plan has it.
  Scalar number(uint32_t leaf) {
    const NumberLeaf& given = leaves_.numbers[leaf];
    facts_.numbers.push_back({"n" + std::to_string(leaf), given.kind});
    if (given.kind == NumberLeaf::Kind::Size) {
      if (fixed_ == Fixed::All) {
        facts_.numbers.back().fixed = {true, given.value.to_int(), {}};
        return given.value;
      }
      return Scalar(shapes_.settle(shapes_.add({SymbolSource::Kind::Number, leaf, 0}, given.value.to_int(),
                                               DimPolicy{DimPolicy::Kind::Dynamic, {}})));
    }
    if (fixed_ != Fixed::Nothing) {
      numbers_.emplace_back(leaf, given.value);
      return given.value;
    }
    ScalarExpr expr;
    expr.kind = ScalarExpr::Kind::Input;
    expr.category = given.value.category();
    expr.index = leaf;
    return Scalar::from_trace(expr.category, expressions_->scalars.add(expr));
  }

  void record() {
    const Scope scope(*this);
    uint32_t tensor = 0, number_leaf = 0;
    Node node;
    node.op = target_ == PlanTarget::InPlace ? call_.op.base : &call_.op;
    node.where = call_.where;
    node.grad_mode = false;
    for (const Operand& operand : call_.operands) {
      if (operand.tensor != nullptr) {
        const Tensor& x = *operand.tensor;
        const Layout<Sym> layout = layout_of(tensor++, x);
        inputs_.push_back({layout.sizes, x->dtype, x->device, layout.strides});
        node.operands.push_back(Argument::of(graph_.add_input(inputs_.back())));
      } else if (operand.is_scalar) {
        node.operands.push_back(Argument::of(number(number_leaf++)));
      } else {
        node.operands.emplace_back();
      }
    }
    for (const Attr& attr : call_.attrs) {
      if (attr.is<Scalar>()) {
        node.attrs.push_back(Attr(number(number_leaf++)));
      } else if (attr.is<SymList>()) {
        SymList sizes = attr.as_sizes();
        for (Sym& size : sizes) {
          const Scalar value = number(number_leaf++);
          size = value.is_symbolic() ? value.sym() : Sym::from_int(value.to_int());
        }
        node.attrs.push_back(Attr(std::move(sizes)));
      } else {
        node.attrs.push_back(attr);
      }
    }
    HollowValues hollow(graph_);
    std::optional<OutputSpecs> specs =
        infer_results(Call{*node.op, hollow.operands(node), node.attrs, node.where});
    if (!specs) return;
    if (target_ == PlanTarget::Copy) (*specs)[0].strides = inputs_[0].strides;
    node.num_outputs = static_cast<uint32_t>(specs->size());
    const ValueId first = graph_.add_node(std::move(node), {specs->data(), specs->size()});
    for (uint32_t k = 0; k < specs->size(); ++k) graph_.outputs.push_back(first + k);
  }

  // The result goes to where self lies.
  void add_write(Graph& graph) {
    const Scope scope(*this);
    Node node;
    node.op = &WEFT_OP("copy");
    node.operands = {Argument::of(graph.inputs[0]), Argument::of(graph.outputs[0])};
    node.attrs = {false};
    node.where = call_.where;
    const OutputSpec spec = inputs_[0];
    graph.outputs = {graph.add_node(std::move(node), std::span(&spec, 1))};
  }

  bool is_good(const Schedule& made) const {
    for (const ExternStep& step : made.externs) {
      const Op& op = *made.graph.nodes[step.node].op;
      if (op.kind != Kind::View && (&op == &call_.op || target_ != PlanTarget::Outputs)) return false;
    }
    if (target_ == PlanTarget::Outputs) return true;
    if (made.kernels.size() != 1 || !made.externs.empty()) return false;
    const std::optional<MemoryPlace>& place = made.places[made.graph.outputs[0]];
    return place && place->is_whole && made.buffers[place->buffer].origin == Buffer::Origin::Kernel;
  }

  const Call& call_;
  PlanTarget target_;
  const ArgumentLeaves& leaves_;
  Fixed fixed_;
  std::shared_ptr<Expressions> expressions_;
  ShapeEnv shapes_;
  Graph graph_;
  GuardFacts facts_;
  std::vector<OutputSpec> inputs_;
  std::vector<std::pair<uint32_t, Scalar>> numbers_;
};

// ---- Finding them -------------------------------------------------------------------------------------------------------

struct CallKind {
  Key key;
  std::vector<std::shared_ptr<Entry>> entries;  // the newest first
  std::array<uint32_t, 3> made{};               // by Fixed: how many there were
  Fixed from = Fixed::Nothing;                  // where making one begins: earlier tries failed
  bool is_refused = false;                      // nothing helps
};

struct Cache {
  std::shared_mutex mutex;
  std::unordered_multimap<uint64_t, std::unique_ptr<CallKind>> kinds;
  std::atomic<size_t> num_plans{0};

  CallKind* find(uint64_t hash, const Key& key) {
    for (auto [at, last] = kinds.equal_range(hash); at != last; ++at)
      if (at->second->key.size() == key.size() && std::equal(key.begin(), key.end(), at->second->key.begin()))
        return at->second.get();
    return nullptr;
  }
};

Cache& cache() {
  static auto& all = *new Cache;  // never destroyed: plans hold memory of GPUs
  return all;
}

// Plans that hold for one size only are not made without end.
constexpr uint32_t kMostFixed = 64;

bool holds(const Entry& entry, const ArgumentLeaves& leaves, std::span<int64_t> symbols) {
  for (const auto& [leaf, value] : entry.numbers)
    if (!is_same_number(leaves.numbers[leaf].value, value)) return false;
  return entry.guards.check(leaves, current_global_word(), symbols);
}

std::shared_ptr<Entry> make(const Call& call, PlanTarget target, const Key& key, const ArgumentLeaves& leaves,
                            CallKind& kind) {
  // What is wrong with the operands is said of the real ones.
  if (target == PlanTarget::Outputs && call.op.infer != nullptr) static_cast<void>(call.op.infer(call));
  for (auto fixed = static_cast<uint8_t>(kind.from); fixed <= static_cast<uint8_t>(Fixed::All); ++fixed) {
    if (fixed > 0 && kind.made[fixed] >= kMostFixed) continue;
    if (auto entry = Builder(call, target, key, leaves, static_cast<Fixed>(fixed)).build()) {
      kind.from = static_cast<Fixed>(fixed);
      ++kind.made[fixed];
      return entry;
    }
  }
  return nullptr;
}

constexpr size_t kMostSymbols = 64;

}  // namespace

bool run_by_plan(const Call& call, PlanTarget target, std::span<Tensor> outputs) {
  Key key;
  ArgumentLeaves leaves;
  const Op& base = target == PlanTarget::InPlace ? *call.op.base : call.op;
  if (base.infer == nullptr || base.data_dependent || base.has_effect ||
      !read_call(call, target, key, leaves))
    return false;
  leaves.structure = hash_of(key);
  int64_t symbols[kMostSymbols];
  std::shared_ptr<Entry> entry;
  const auto look = [&](const CallKind& kind) {
    for (const std::shared_ptr<Entry>& each : kind.entries) {
      if (!holds(*each, leaves, symbols)) continue;
      entry = each;
      return;
    }
  };
  Cache& all = cache();
  {
    const std::shared_lock lock(all.mutex);
    if (const CallKind* const kind = all.find(leaves.structure, key)) {
      if (kind->is_refused) return false;
      look(*kind);
    }
  }
  if (entry == nullptr) {
    const std::unique_lock lock(all.mutex);
    CallKind* kind = all.find(leaves.structure, key);
    if (kind == nullptr) {
      auto added = std::make_unique<CallKind>();
      added->key = key;
      kind = all.kinds.emplace(leaves.structure, std::move(added))->second.get();
    }
    look(*kind);
    if (entry == nullptr) {
      entry = make(call, target, key, leaves, *kind);
      if (entry == nullptr || entry->guards.num_symbols() > kMostSymbols || !holds(*entry, leaves, symbols)) {
        kind->is_refused = kind->entries.empty();
        return false;
      }
      kind->entries.insert(kind->entries.begin(), entry);
      ++all.num_plans;
    }
  }
  SmallVector<Scalar, 8> numbers;
  for (const NumberLeaf& leaf : leaves.numbers) numbers.push_back(leaf.value);
  const size_t num_symbols = entry->guards.num_symbols();
  const QuietHandles quiet;
  entry->plan.run({leaves.tensors.data(), leaves.tensors.size()},
                  RunValues{{symbols, num_symbols}, {numbers.data(), numbers.size()}}, outputs,
                  target != PlanTarget::Outputs);
  return true;
}

size_t num_op_plans() { return cache().num_plans; }

}  // namespace weft::compiler
