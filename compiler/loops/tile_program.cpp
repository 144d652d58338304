// Making a tile program: steps for what the stores need, and places for their results.
// Place: the out-of-line half of tile_program.h.
#include "compiler/loops/tile_program.h"

#include <algorithm>
#include <unordered_map>

#include "compiler/loops/index_expr.h"
#include "compiler/trace/sym_expr.h"
#include "tensor/base/error.h"
#include "tensor/cpu/elementwise.h"

namespace weft::compiler {
namespace {

constexpr int64_t kLargestElement = 8;
constexpr int64_t kSlotBytes = cpu::kVectorLanes * kLargestElement;
// Elements of a tile where no fold along the columns asks for blocks: four live values of 8 bytes stay in a common L1.
constexpr int64_t kSmallTile = 1024;
// One vector more than a tile has: tiles at multiples of 4 KB would share their sets of the cache.
constexpr int64_t kTilePadding = cpu::kVectorLanes;

class ProgramBuilder {
 public:
  ProgramBuilder(TileProgram& program, const LoopBody& body, const LoopLevels& levels)
      : program_(program), body_(body), levels_(levels), table_(body.expressions->syms) {}

  void build() {
    of_value_.assign(body_.values.nodes().size(), kNoStep);
    of_indirect_.assign(body_.indirects.size(), kNoStep);
    uses_.assign(body_.values.nodes().size(), 0);
    program_.folds.resize(body_.folds.size());
    const bool has_blocks = std::any_of(body_.folds.begin(), body_.folds.end(), [](const BodyFold& fold) {
      return fold.axis == BodyFold::Axis::Columns;
    });
    program_.tile = has_blocks ? cpu::kInnerBlock : kSmallTile;
    count_uses();
    program_.batches = of_index(body_.batches);
    program_.rows = of_index(body_.rows);
    program_.columns = of_index(body_.columns);
    for (const BodyStore& store : body_.stores) add_store(store);
    for (uint32_t i = 0; i < body_.indirects.size(); ++i) of_indirect(i);
    make_lists();
    place_results();
  }

 private:
  // ---- Steps

  StepId add(TileStep step) {
    for (StepId operand : step.operands)
      if (operand != kNoStep) merge(step.level, at(operand).level);
    const uint64_t hash = hash_of(step);
    const auto [first, last] = ids_.equal_range(hash);
    for (auto known = first; known != last; ++known)
      if (is_same(program_.steps[known->second], step)) return known->second;
    program_.steps.push_back(step);
    const auto id = static_cast<StepId>(program_.steps.size() - 1);
    ids_.emplace(hash, id);
    return id;
  }
  const TileStep& at(StepId id) const { return program_.steps[id]; }

  static uint64_t hash_of(const TileStep& step) {
    uint64_t hash = static_cast<uint64_t>(step.kind) + 64 * static_cast<uint64_t>(step.prim) +
                    16384 * static_cast<uint64_t>(step.dtype);
    for (uint64_t part :
         {uint64_t{step.operands[0]}, uint64_t{step.operands[1]}, uint64_t{step.operands[2]}, step.imm})
      hash = mix_bits(hash ^ part);
    return hash;
  }
  static bool is_same(const TileStep& a, const TileStep& b) {
    return a.kind == b.kind && a.prim == b.prim && a.dtype == b.dtype && a.from == b.from && a.imm == b.imm &&
           std::equal(a.operands, a.operands + 3, b.operands) && a.level.uses_row == b.level.uses_row &&
           a.level.uses_column == b.level.uses_column;
  }

  StepId leaf(TileStep::Kind kind, DType dtype, uint64_t imm) {
    TileStep step;
    step.kind = kind;
    step.dtype = dtype;
    step.imm = imm;
    step.level.uses_batch = kind == TileStep::Kind::Batch;
    step.level.uses_row = kind == TileStep::Kind::Row;
    step.level.uses_column = kind == TileStep::Kind::Column;
    return add(step);
  }
  StepId integer(int64_t value) {
    return leaf(TileStep::Kind::Constant, DType::Int64, static_cast<uint64_t>(value));
  }

  // The operand as a step of this shape can read it.
  StepId expanded(StepId operand, const ValueLevel& shape) {
    const ValueLevel& own = at(operand).level;
    const bool is_scalar = !own.uses_row && !own.uses_column;
    const bool fits = own.uses_row == shape.uses_row && own.uses_column == shape.uses_column;
    if (program_.kind != TileKind::Rows || is_scalar || fits) return operand;
    return repeated(operand, shape);
  }
  StepId repeated(StepId operand, const ValueLevel& shape) {
    TileStep step;
    step.kind = TileStep::Kind::Expand;
    step.dtype = at(operand).dtype;
    step.operands[0] = operand;
    step.level.uses_row = shape.uses_row;
    step.level.uses_column = shape.uses_column;
    return add(step);
  }

  StepId kernel(Prim prim, DType dtype, std::span<const StepId> operands) {
    TileStep step;
    step.kind = TileStep::Kind::Kernel;
    step.prim = prim;
    step.dtype = dtype;
    ValueLevel shape;
    for (StepId operand : operands) merge(shape, at(operand).level);
    for (size_t i = 0; i < operands.size(); ++i) step.operands[i] = expanded(operands[i], shape);
    return add(step);
  }
  StepId integers(Prim prim, StepId a, StepId b) {
    const StepId operands[] = {a, b};
    return kernel(prim, DType::Int64, operands);
  }
  StepId converted(StepId operand, DType dtype) {
    if (at(operand).dtype == dtype) return operand;
    TileStep step;
    step.kind = TileStep::Kind::Convert;
    step.dtype = dtype;
    step.operands[0] = operand;
    return add(step);
  }

  // ---- Index expressions

  StepId of_index(Sym index) {
    index = table_.current(index);
    if (!index.is_symbolic()) return integer(index.concrete());
    const auto found = of_sym_.find(index.id());
    if (found != of_sym_.end()) return found->second;
    const StepId id = sum(index.id());
    of_sym_.emplace(index.id(), id);
    return id;
  }

  // The arenas of the table grow while indirect symbols bring in the indices of what they were loaded from.
  StepId sum(ExprId expr) {
    const SymStore& store = table_.store();
    const int64_t constant = store.exprs[expr].constant;
    const auto known = store.terms_of(expr);
    const SmallVector<Term, 8> terms(known.begin(), known.end());
    StepId total = kNoStep;
    for (const Term& term : terms) {
      const auto of_term = store.factors_of(term.monomial);
      const SmallVector<AtomId, 8> atoms(of_term.begin(), of_term.end());
      SmallVector<StepId, 8> factors;
      for (AtomId atom : atoms) factors.push_back(of_atom(atom));
      // Factors of smaller shapes first, so that most products are made once.
      if (term.coefficient != 1) factors.push_back(integer(term.coefficient));
      const auto size = [&](StepId id) { return at(id).level.uses_row + 2 * at(id).level.uses_column; };
      std::stable_sort(factors.begin(), factors.end(), [&](StepId a, StepId b) { return size(a) < size(b); });
      StepId product = factors[0];
      for (size_t f = 1; f < factors.size(); ++f) product = integers(Prim::Mul, product, factors[f]);
      total = total == kNoStep ? product : integers(Prim::Add, total, product);
    }
    if (total == kNoStep) return integer(constant);
    return constant == 0 ? total : integers(Prim::Add, total, integer(constant));
  }

  StepId of_atom(AtomId id) {
    const Atom atom = table_.store().atoms[id];
    if (atom.symbol != kNone) return of_symbol(atom.symbol);
    const StepId a = of_index(atom.a), b = of_index(atom.b);
    switch (atom.op) {
      case SymOp::Add: return integers(Prim::Add, a, b);
      case SymOp::Sub: return integers(Prim::Sub, a, b);
      case SymOp::Mul: return integers(Prim::Mul, a, b);
      case SymOp::FloorDiv: return integers(Prim::FloorDiv, a, b);
      case SymOp::TruncDiv: return integers(Prim::TruncDiv, a, b);
      case SymOp::Mod: return integers(Prim::TruncMod, a, b);
      case SymOp::Min: return integers(Prim::Minimum, a, b);
      case SymOp::Max: return integers(Prim::Maximum, a, b);
    }
    return kNoStep;
  }

  StepId of_symbol(uint32_t symbol) {
    const auto is = [&](Sym other) { return table_.as_symbol(other) == symbol; };
    if (is(body_.batch)) return leaf(TileStep::Kind::Batch, DType::Int64, 0);
    if (is(body_.row)) return leaf(TileStep::Kind::Row, DType::Int64, 0);
    if (is(body_.column)) return leaf(TileStep::Kind::Column, DType::Int64, 0);
    for (uint32_t i = 0; i < body_.indirects.size(); ++i)
      if (is(body_.indirects[i].symbol)) return of_indirect(i);
    const auto size = std::find(body_.size_symbols.begin(), body_.size_symbols.end(), symbol);
    WEFT_ASSERT(size != body_.size_symbols.end(), table_.symbols()[symbol].name, " has no value in '",
                body_.name, "'");
    return leaf(TileStep::Kind::Size, DType::Int64, static_cast<uint64_t>(size - body_.size_symbols.begin()));
  }

  StepId of_indirect(uint32_t i) {
    if (of_indirect_[i] != kNoStep) return of_indirect_[i];
    const Indirect& indirect = body_.indirects[i];
    const BodyValue mask = body_.checks[indirect.check].mask;
    TileStep step;
    step.kind = TileStep::Kind::Check;
    step.imm = i;
    step.operands[0] = converted(of_value(indirect.value), DType::Int64);
    step.operands[1] = of_index(indirect.size);
    if (mask != kNoBodyValue) step.operands[2] = of_value(mask);
    return of_indirect_[i] = add(step);
  }

  // The index at column 0 and its stride, if it has one that is not 0; else the index and kNoStep.
  std::pair<StepId, StepId> address(Sym index) {
    const std::optional<Sym> stride = column_stride(body_, levels_, index);
    if (!stride || (!stride->is_symbolic() && stride->concrete() == 0)) return {of_index(index), kNoStep};
    const Sym first = substitute(table_, index, body_.column, Sym::from_int(0));
    return {of_index(first), of_index(*stride)};
  }

  // ---- Values

  void count_uses() {
    const auto use = [&](BodyValue value) {
      if (value != kNoBodyValue) ++uses_[value];
    };
    for (const ExprGraph::Node& node : body_.values.nodes())
      for (int i = 0; i < arity_of(node.prim); ++i) use(node.args[i]);
    for (const Source& source : body_.sources) use(source.mask);
    for (const Indirect& indirect : body_.indirects) use(indirect.value);
    for (const Check& check : body_.checks) use(check.mask);
    for (const BodyFold& fold : body_.folds) use(fold.value);
    for (const BodyStore& store : body_.stores) {
      use(store.value);
      use(store.mask);
    }
  }

  StepId of_value(BodyValue value) {
    if (of_value_[value] == kNoStep) of_value_[value] = make(value);
    return of_value_[value];
  }

  StepId make(BodyValue value) {
    const ExprGraph::Node& node = body_.values.nodes()[value];
    switch (node.prim) {
      case Prim::Input: return of_source(body_.sources[node.imm], node.dtype);
      case Prim::Constant: return leaf(TileStep::Kind::Constant, node.dtype, node.imm);
      case Prim::Cast:
        if (const StepId load = converting_load(node); load != kNoStep) return load;
        return converted(of_value(node.args[0]), node.dtype);
      case Prim::Bitcast: {
        TileStep step;
        step.kind = TileStep::Kind::Bits;
        step.dtype = node.dtype;
        step.operands[0] = of_value(node.args[0]);
        return add(step);
      }
      case Prim::Lookup: {
        TileStep step;
        step.kind = TileStep::Kind::Lookup;
        step.prim = node.prim;
        step.dtype = node.dtype;
        step.imm = node.imm;
        const DType index = size_of(node.dtype) == 8 ? DType::Int64 : DType::Int32;
        step.operands[0] = converted(of_value(node.args[0]), index);
        return add(step);
      }
      default: break;
    }
    SmallVector<StepId, 3> operands;
    for (int i = 0; i < arity_of(node.prim); ++i) operands.push_back(of_value(node.args[i]));
    return kernel(node.prim, node.dtype, {operands.data(), operands.size()});
  }

  StepId of_source(const Source& source, DType dtype) {
    switch (source.kind) {
      case Source::Kind::Load: return load(source, dtype);
      case Source::Kind::Place: return converted(of_index(source.index), dtype);
      case Source::Kind::Number: return leaf(TileStep::Kind::Number, dtype, source.param);
      case Source::Kind::Fold: return fold_result(source.param);
      case Source::Kind::Random: {
        TileStep step;
        step.kind = TileStep::Kind::Random;
        step.dtype = dtype;
        step.operands[0] = leaf(TileStep::Kind::Number, DType::Int64, source.param);
        step.operands[1] = leaf(TileStep::Kind::Number, DType::Int64, source.param + 1);
        step.operands[2] = of_index(source.index);
        return add(step);
      }
    }
    return kNoStep;
  }

  StepId load(const Source& source, DType dtype) {
    TileStep step;
    step.kind = TileStep::Kind::Load;
    step.dtype = dtype;
    step.from = body_.buffers[source.param].dtype;
    step.imm = source.param;
    std::tie(step.operands[0], step.operands[1]) = address(source.index);
    if (source.mask != kNoBodyValue) step.operands[2] = of_value(source.mask);
    step.level.uses_column = step.operands[1] != kNoStep;
    return add(step);
  }
  // What is loaded to be converted and for nothing else is converted on the way.
  StepId converting_load(const ExprGraph::Node& cast) {
    const ExprGraph::Node& operand = body_.values.nodes()[cast.args[0]];
    if (operand.prim != Prim::Input || uses_[cast.args[0]] != 1) return kNoStep;
    const Source& source = body_.sources[operand.imm];
    if (source.kind != Source::Kind::Load || source.mask != kNoBodyValue) return kNoStep;
    return load(source, cast.dtype);
  }

  StepId fold_result(uint32_t f) {
    TileProgram::Fold& made = program_.folds[f];
    if (made.result != kNoStep) return made.result;
    const BodyFold& fold = body_.folds[f];
    StepId value = of_value(fold.value);
    TileStep step;
    step.kind = TileStep::Kind::Fold;
    step.dtype = at(value).dtype;
    step.imm = f;
    step.level = at(value).level;
    if (fold.axis == BodyFold::Axis::Columns) {
      ValueLevel shape = step.level;
      shape.uses_column = true;
      if (!step.level.uses_column) value = repeated(value, shape);
      step.level.uses_column = false;
      ++step.level.pass;
    } else {
      step.level.uses_row = false;
      step.level.after_rows = true;
      step.level.pass = 0;
    }
    program_.folds[f].value = value;
    return program_.folds[f].result = add(step);
  }

  void add_store(const BodyStore& store) {
    TileProgram::Store made{};
    const ExprGraph::Node& node = body_.values.nodes()[store.value];
    const bool converts = node.prim == Prim::Cast && uses_[store.value] == 1 && store.mask == kNoBodyValue &&
                          store.mode == BodyStore::Mode::Plain;
    made.value = of_value(converts ? node.args[0] : store.value);
    made.from = at(made.value).dtype;
    std::tie(made.index, made.stride) = address(store.index);
    made.mask = store.mask == kNoBodyValue ? kNoStep : of_value(store.mask);
    program_.stores.push_back(made);
  }

  // ---- Lists

  ValueLevel level_of_store(uint32_t s) const {
    const TileProgram::Store& store = program_.stores[s];
    ValueLevel level;
    for (StepId id : {store.value, store.index, store.stride, store.mask})
      if (id != kNoStep) merge(level, at(id).level);
    return level;
  }
  bool is_once(StepId id) const {
    const TileStep& step = at(id);
    const ValueLevel& level = step.level;
    return step.kind != TileStep::Kind::Fold && !level.uses_batch && !level.uses_row && !level.uses_column &&
           level.pass == 0 && !level.after_rows;
  }

  // The steps that these need and that are not there yet, by whether they depend on the column; marks them as there.
  void need(std::span<const StepId> roots, std::vector<uint8_t>& there, std::vector<TileItem>& rows,
            std::vector<TileItem>& columns) const {
    std::vector<uint8_t> is_needed(program_.steps.size());
    for (StepId root : roots)
      if (root != kNoStep) is_needed[root] = 1;
    for (StepId id = static_cast<StepId>(program_.steps.size()); id-- > 0;) {
      if (!is_needed[id] || there[id] || is_once(id)) continue;
      for (StepId operand : at(id).operands)
        if (operand != kNoStep) is_needed[operand] = 1;
    }
    for (StepId id = 0; id < program_.steps.size(); ++id) {
      if (!is_needed[id] || there[id] || is_once(id)) continue;
      there[id] = 1;
      // A fold along the columns was written when it was done.
      const bool is_written = at(id).kind == TileStep::Kind::Fold && !at(id).level.after_rows;
      if (is_written && !is_after_) continue;
      (at(id).level.uses_column ? columns : rows).push_back({TileItem::Kind::Evaluate, id});
    }
  }

  void make_lists() {
    for (StepId id = 0; id < program_.steps.size(); ++id)
      if (is_once(id)) program_.once.push_back({TileItem::Kind::Evaluate, id});
    uint32_t num_passes = levels_.num_passes;
    program_.passes.resize(num_passes + 1);
    std::vector<uint8_t> there(program_.steps.size());
    for (uint32_t p = 0; p <= num_passes; ++p) {
      TileProgram::Pass& pass = program_.passes[p];
      if (!program_.has_whole_rows())  // another tile has other elements
        for (StepId id = 0; id < program_.steps.size(); ++id) there[id] &= !at(id).level.uses_column;
      std::vector<TileItem> row_sinks, column_sinks;
      std::vector<StepId> row_roots, column_roots;
      for (uint32_t f = 0; f < body_.folds.size(); ++f) {
        const TileProgram::Fold& fold = program_.folds[f];
        if (fold.result == kNoStep || at(fold.value).level.pass != p) continue;
        const bool is_column = at(fold.value).level.uses_column;
        (is_column ? column_sinks : row_sinks).push_back({TileItem::Kind::Fold, f});
        (is_column ? column_roots : row_roots).push_back(fold.value);
      }
      for (uint32_t s = 0; s < body_.stores.size(); ++s) {
        const BodyStore::Each each = body_.stores[s].each;
        if (each == BodyStore::Each::Column || each == BodyStore::Each::Batch || level_of_store(s).pass != p)
          continue;
        const bool is_column = each == BodyStore::Each::Element;
        (is_column ? column_sinks : row_sinks).push_back({TileItem::Kind::Store, s});
        std::vector<StepId>& roots = is_column ? column_roots : row_roots;
        const TileProgram::Store& store = program_.stores[s];
        roots.insert(roots.end(), {store.value, store.index, store.stride, store.mask});
      }
      // What is out of range is an error even where no place depends on it.
      for (const StepId check : of_indirect_)
        if (!at(check).level.after_rows && at(check).level.pass == p)
          (at(check).level.uses_column ? column_roots : row_roots).push_back(check);
      need(row_roots, there, pass.rows, pass.columns);
      WEFT_ASSERT(pass.columns.empty(), "a row of '", body_.name, "' needs a column");
      need(column_roots, there, pass.rows, pass.columns);
      pass.rows.insert(pass.rows.end(), row_sinks.begin(), row_sinks.end());
      pass.columns.insert(pass.columns.end(), column_sinks.begin(), column_sinks.end());
    }

    is_after_ = true;
    std::fill(there.begin(), there.end(), uint8_t{0});
    for (const BodyStore::Each each : {BodyStore::Each::Batch, BodyStore::Each::Column}) {
      std::vector<StepId> roots;
      std::vector<TileItem> sinks;
      for (uint32_t s = 0; s < body_.stores.size(); ++s) {
        if (body_.stores[s].each != each) continue;
        const TileProgram::Store& store = program_.stores[s];
        roots.insert(roots.end(), {store.value, store.index, store.stride, store.mask});
        sinks.push_back({TileItem::Kind::Store, s});
      }
      for (const StepId check : of_indirect_)
        if (at(check).level.after_rows && at(check).level.uses_column == (each == BodyStore::Each::Column))
          roots.push_back(check);
      need(roots, there, program_.after_scalars, program_.after_columns);
      std::vector<TileItem>& list =
          each == BodyStore::Each::Batch ? program_.after_scalars : program_.after_columns;
      list.insert(list.end(), sinks.begin(), sinks.end());
    }
  }

  // ---- Places

  template <class F>
  void for_each_operand(const TileItem& item, const F& f) const {
    switch (item.kind) {
      case TileItem::Kind::Evaluate:
        for (StepId operand : at(item.index).operands)
          if (operand != kNoStep) f(operand);
        break;
      case TileItem::Kind::Fold: f(program_.folds[item.index].value); break;
      case TileItem::Kind::Store: {
        const TileProgram::Store& store = program_.stores[item.index];
        for (StepId id : {store.value, store.index, store.stride, store.mask})
          if (id != kNoStep) f(id);
        break;
      }
    }
  }

  // What the item writes, if it is kept in a worker's memory.
  StepId result_of(const TileItem& item) const {
    if (item.kind == TileItem::Kind::Evaluate) return item.index;
    const bool is_along_columns =
        item.kind == TileItem::Kind::Fold && body_.folds[item.index].axis == BodyFold::Axis::Columns;
    return is_along_columns ? program_.folds[item.index].result : kNoStep;
  }

  // Tiles take the places of those that no later item of the sequence reads.
  void place_sequence(std::span<std::vector<TileItem>* const> lists) {
    std::vector<TileItem*> sequence;
    for (std::vector<TileItem>* list : lists)
      for (TileItem& item : *list) sequence.push_back(&item);
    std::unordered_map<StepId, size_t> last_use;
    for (size_t i = 0; i < sequence.size(); ++i)
      for_each_operand(*sequence[i], [&](StepId operand) { last_use[operand] = i; });
    std::vector<uint32_t> free;
    std::unordered_map<StepId, uint32_t> places;
    uint32_t used = 0;
    for (size_t i = 0; i < sequence.size(); ++i) {
      const StepId result = result_of(*sequence[i]);
      if (result != kNoStep && program_.is_slot(result)) {
        sequence[i]->place = static_cast<uint32_t>(result * kSlotBytes);
      } else if (result != kNoStep) {
        uint32_t place = used;
        if (free.empty()) ++used;
        else {
          place = free.back();
          free.pop_back();
        }
        places[result] = place;
        sequence[i]->place =
            static_cast<uint32_t>(slots_bytes_ + place * (program_.tile + kTilePadding) * kLargestElement);
        if (!last_use.contains(result)) free.push_back(place);
      }
      // Freed after the result has its place: a kernel of two widths must not write what it reads.
      for_each_operand(*sequence[i], [&](StepId operand) {
        const auto place = places.find(operand);
        if (place == places.end() || last_use[operand] != i) return;
        free.push_back(place->second);
        places.erase(place);
      });
    }
    num_tiles_ = std::max(num_tiles_, used);
  }

  void place_results() {
    slots_bytes_ = static_cast<int64_t>(program_.steps.size()) * kSlotBytes;
    std::vector<std::vector<TileItem>*> lists;
    for (TileProgram::Pass& pass : program_.passes) {
      lists.push_back(&pass.rows);
      lists.push_back(&pass.columns);
    }
    if (program_.has_whole_rows()) {
      place_sequence(lists);
    } else {
      for (std::vector<TileItem>* list : lists) place_sequence({&list, 1});
    }
    for (std::vector<TileItem>* list : {&program_.once, &program_.after_scalars, &program_.after_columns})
      place_sequence({&list, 1});
    program_.bytes = slots_bytes_ + num_tiles_ * (program_.tile + kTilePadding) * kLargestElement;
  }

  TileProgram& program_;
  const LoopBody& body_;
  const LoopLevels& levels_;
  SymTable& table_;
  std::unordered_multimap<uint64_t, StepId> ids_;
  std::vector<StepId> of_value_, of_indirect_;
  std::unordered_map<uint32_t, StepId> of_sym_;
  std::vector<uint32_t> uses_;
  bool is_after_ = false;
  int64_t slots_bytes_ = 0;
  uint32_t num_tiles_ = 0;
};

}  // namespace

TileProgram::TileProgram(const LoopBody& body, const LoopLevels& levels, TileKind tiles) : kind(tiles) {
  ProgramBuilder(*this, body, levels).build();
}

}  // namespace weft::compiler
