// Whether results may be stored into inputs, judged on finished kernels.
// Place: the out-of-line half of compiler/loops/overwrite.h.
#include "compiler/loops/overwrite.h"

#include <algorithm>
#include <limits>

#include "compiler/loops/loop_levels.h"

namespace weft::compiler {
namespace {

bool is_identical_list(const Sizes& a, const Sizes& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](Sym x, Sym y) { return is_identical(x, y); });
}

// Whether a body that reads buffer `from` and stores `to` may have them in one memory.
class InPlace {
 public:
  InPlace(const LoopBody& body, uint32_t to, uint32_t from)
      : body_(body), levels_(levels_of(body)), to_(to), from_(from) {}

  bool is_safe() {
    const std::optional<size_t> found = only_store();
    if (!found) return false;
    const BodyStore& store = body_.stores[*found];
    if (store.mode != BodyStore::Mode::Plain || store.mask != kNoBodyValue || is_computed(store.index))
      return false;
    for (BodyValue v = 0; v < body_.values.nodes().size(); ++v)
      if (const Source* load = load_of(v); load != nullptr && !is_identical(load->index, store.index))
        return false;
    // The loads that have been made when the store is carried out. Within a pass folds come first, then stores in order, each
    // with what it needs and nobody had needed before.
    const uint32_t stage = stage_of(levels_.stores[*found]);
    std::vector<bool> made = reads_of({store.value});
    for (size_t f = 0; f < body_.folds.size(); ++f) {
      const uint32_t at = stage_of(levels_.folds[f]);
      const std::vector<bool> read = reads_of({body_.folds[f].value});
      if (at > stage && any(read)) return false;
      if (at == stage) add(made, read);
    }
    for (size_t s = 0; s < body_.stores.size(); ++s) {
      if (s == *found) continue;
      const uint32_t at = stage_of(levels_.stores[s]);
      if (at < stage) continue;
      const std::vector<bool> read = reads_of({body_.stores[s].value, body_.stores[s].mask});
      if (at > stage) {
        if (any(read)) return false;
      } else if (s < *found) {
        add(made, read);
      } else {
        for (size_t v = 0; v < read.size(); ++v)
          if (read[v] && !made[v]) return false;
      }
    }
    return true;
  }

 private:
  // After the rows comes after every pass.
  static uint32_t stage_of(const ValueLevel& level) {
    return level.after_rows ? std::numeric_limits<uint32_t>::max() : level.pass;
  }
  static bool any(const std::vector<bool>& set) {
    return std::find(set.begin(), set.end(), true) != set.end();
  }
  static void add(std::vector<bool>& to, const std::vector<bool>& from) {
    for (size_t i = 0; i < to.size(); ++i) to[i] = to[i] || from[i];
  }

  std::optional<size_t> only_store() const {
    std::optional<size_t> found;
    for (size_t s = 0; s < body_.stores.size(); ++s) {
      if (body_.stores[s].param != to_) continue;
      if (found) return std::nullopt;
      found = s;
    }
    return found;
  }
  const Source* load_of(BodyValue v) const {
    const ExprGraph::Node& node = body_.values.nodes()[v];
    if (node.prim != Prim::Input) return nullptr;
    const Source& source = body_.sources.at(node.imm);
    return source.kind == Source::Kind::Load && source.param == from_ ? &source : nullptr;
  }
  // Two turns of the loops may compute one index.
  bool is_computed(Sym index) const {
    const std::vector<uint32_t> symbols = body_.expressions->syms.symbols_of(index);
    return std::any_of(body_.indirects.begin(), body_.indirects.end(), [&](const Indirect& indirect) {
      return std::binary_search(symbols.begin(), symbols.end(),
                                *body_.expressions->syms.as_symbol(indirect.symbol));
    });
  }
  // By node: the loads of the input that computing the values asks for, not counting what went into folds before.
  std::vector<bool> reads_of(std::initializer_list<BodyValue> values) const {
    std::vector<bool> seen(body_.values.nodes().size()), loads(seen.size());
    std::vector<BodyValue> open;
    const auto visit = [&](BodyValue v) {
      if (v == kNoBodyValue || seen[v]) return;
      seen[v] = true;
      open.push_back(v);
    };
    for (const BodyValue v : values) visit(v);
    while (!open.empty()) {
      const BodyValue v = open.back();
      open.pop_back();
      const ExprGraph::Node& node = body_.values.nodes()[v];
      if (load_of(v) != nullptr) loads[v] = true;
      for (int i = 0; i < arity_of(node.prim); ++i) visit(node.args[i]);
      if (node.prim != Prim::Input) continue;
      const Source& source = body_.sources.at(node.imm);
      visit(source.mask);
      if (source.kind == Source::Kind::Number || source.kind == Source::Kind::Fold) continue;
      const std::vector<uint32_t> symbols = body_.expressions->syms.symbols_of(source.index);
      for (const Indirect& indirect : body_.indirects)
        if (std::binary_search(symbols.begin(), symbols.end(),
                               *body_.expressions->syms.as_symbol(indirect.symbol)))
          visit(indirect.value);
    }
    return loads;
  }

  const LoopBody& body_;
  LoopLevels levels_;
  uint32_t to_, from_;
};

// An op that may find fault with the values it is given, or does more than compute.
bool may_raise(const Node& node) {
  const bool has_routine = std::any_of(node.attrs.begin(), node.attrs.end(),
                                       [](const Attr& attr) { return attr.is<RoutinePtr>(); });
  switch (node.op->kind) {
    case Kind::View:
    case Kind::Reduction:
    case Kind::Create:
    case Kind::Extern: return has_routine || node.op->has_effect || node.op->data_dependent;
    default: return true;
  }
}

class Judge {
 public:
  explicit Judge(const Schedule& schedule) : schedule_(schedule) {
    for (uint32_t s = 0; s < schedule.steps.size(); ++s) {
      const Step& step = schedule.steps[s];
      bool raises;
      if (step.kind == Step::Kind::Extern) {
        raises = may_raise(schedule.graph.nodes[schedule.externs[step.index].node]);
      } else {
        const std::vector<LoopBody>& bodies = schedule.kernels[step.index].bodies;
        raises =
            std::any_of(bodies.begin(), bodies.end(), [](const LoopBody& b) { return !b.checks.empty(); });
      }
      if (raises) last_raising_ = s;
    }
  }

  std::optional<StoredOver> judge(const Overwrite& overwrite) const {
    const ValueId made = schedule_.graph.outputs[overwrite.output];
    const MemoryPlace& place = *schedule_.places[made];
    const StoredOver result{place.buffer, overwrite.input};
    const Buffer &to = schedule_.buffers[result.buffer], &from = schedule_.buffers[result.input];
    if (!place.is_whole || to.origin != Buffer::Origin::Kernel || to.dtype != from.dtype ||
        to.device != from.device)
      return std::nullopt;
    if (!is_identical_list(to.sizes, from.sizes) || !is_identical_list(to.strides, from.strides))
      return std::nullopt;
    size_t leaving = 0;
    for (const ValueId output : schedule_.graph.outputs) {
      const BufferId buffer = schedule_.places[output]->buffer;
      if (buffer == result.input) return std::nullopt;
      leaving += buffer == result.buffer;
    }
    if (leaving != 1) return std::nullopt;
    for (const ValueId item : schedule_.graph.items)
      if (item != kNoValue && schedule_.places[item] && schedule_.places[item]->buffer == result.input)
        return std::nullopt;
    return fits_steps(result) ? std::optional(result) : std::nullopt;
  }

 private:
  bool fits_steps(const StoredOver& pair) const {
    bool is_made = false;
    for (uint32_t s = 0; s < schedule_.steps.size(); ++s) {
      const Step& step = schedule_.steps[s];
      if (step.kind == Step::Kind::Extern) {
        const Node& node = schedule_.graph.nodes[schedule_.externs[step.index].node];
        for (const ValueId value : values_read_by(schedule_.graph, node)) {
          const BufferId read = schedule_.places[value]->buffer;
          if (node.op->kind == Kind::View && (read == pair.input || read == pair.buffer)) return false;
          if (read == pair.input && is_made) return false;
        }
        continue;
      }
      const KernelStep& kernel = schedule_.kernels[step.index];
      const std::optional<size_t> maker = maker_in(kernel, pair.buffer);
      for (size_t b = 0; b < kernel.bodies.size(); ++b) {
        const std::optional<uint32_t> from = param_of(kernel, b, pair.input);
        if (!from) continue;
        if (is_made || (maker && *maker != b)) return false;
        // A GPU's kernel makes one pass of what the order above counts as several.
        if (maker && kernel.device.is_cuda() && !kernel.bodies[b].folds.empty()) return false;
        if (maker && !InPlace(kernel.bodies[b], *param_of(kernel, b, pair.buffer), *from).is_safe())
          return false;
      }
      if (!maker) continue;
      if (last_raising_ && *last_raising_ >= s) return false;
      is_made = true;
    }
    return is_made;
  }
  static std::optional<uint32_t> param_of(const KernelStep& kernel, size_t body, BufferId buffer) {
    const std::vector<BufferId>& buffers = kernel.buffers[body];
    const auto found = std::find(buffers.begin(), buffers.end(), buffer);
    if (found == buffers.end()) return std::nullopt;
    return static_cast<uint32_t>(found - buffers.begin());
  }
  static std::optional<size_t> maker_in(const KernelStep& kernel, BufferId buffer) {
    for (size_t b = 0; b < kernel.bodies.size(); ++b) {
      const std::optional<uint32_t> param = param_of(kernel, b, buffer);
      if (param && kernel.bodies[b].buffers[*param].is_written) return b;
    }
    return std::nullopt;
  }

  const Schedule& schedule_;
  std::optional<uint32_t> last_raising_;  // step
};

}  // namespace

std::vector<StoredOver> find_stores_over_inputs(const Schedule& schedule) {
  const Judge judge(schedule);
  std::vector<StoredOver> found;
  for (const Overwrite& overwrite : schedule.graph.overwrites)
    if (const std::optional<StoredOver> pair = judge.judge(overwrite)) found.push_back(*pair);
  return found;
}

}  // namespace weft::compiler
