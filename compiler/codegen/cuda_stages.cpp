// Classes of kernels, their stages and launch geometry.
// Place: the out-of-line half of cuda_stages.h.
#include "compiler/codegen/cuda_stages.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "compiler/codegen/cpu_plan.h"
#include "compiler/trace/sym_expr.h"
#include "tensor/base/error.h"

namespace weft::compiler {
namespace {

// Rows that stay in registers: 16 values a thread of each stream, 32 where there are few streams.
constexpr int64_t kPersistentColumns = 8192, kLongPersistentColumns = 16384;
constexpr int kFewStreams = 2, kMostStreams = 6;
// Rows shorter than this gain nothing from packs of eight halves: their loads are few.
constexpr int64_t kLongHalves = 2048;
// Shared memory of an SM that blocks can have, each of them with a kilobyte of the system's, and the most of it for one.
constexpr int64_t kSharedOfSm = 228 * 1024, kSharedOfBlock = 227 * 1024, kSharedOfSystem = 1024;
// What the folds along the columns have in the text at most: 64 values of 8 bytes for each of 8 folds.
constexpr int64_t kSharedOfFolds = 4096;
// Threads of an SM with 64 registers each.
constexpr int64_t kThreadsOfSm = 1024;

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t power_from(int64_t n) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(n, 1))));
}
int64_t power_to(int64_t n) {
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(n, 1))));
}

}  // namespace

int cuda_lanes(int64_t columns) {
  return static_cast<int>(std::min<int64_t>(power_from(divide_up(columns, 16)), kCudaLanes));
}

int64_t cuda_rows_of_block(int64_t rows) {
  return std::max(std::clamp<int64_t>(power_to(rows / 256), 8, 32), power_to(rows / 2048));
}

int64_t cuda_blocks_of_rows(int64_t rows) {
  return std::max<int64_t>(divide_up(rows, cuda_rows_of_block(rows)), 1);
}

CudaBody::CudaBody(const LoopBody& given) : body(is_int(given.rows, 1) ? without_row_folds(given) : given) {
  body.expressions = std::make_shared<Expressions>(*given.expressions);
  levels = levels_of(body);
  for (uint32_t f = 0; f < body.folds.size(); ++f) {
    const bool is_columns = body.folds[f].axis == BodyFold::Axis::Columns;
    has_column_folds_ |= is_columns;
    has_arrays_ |= is_array(f);
    has_row_values_ |= !is_columns && !is_array(f);
  }
  place_stores();
}

// A store happens as soon as its value is there, but not before a later pass has read what it overwrites, nor before an
// earlier store to the same buffer.
void CudaBody::place_stores() {
  const auto has_column = [](const BodyStore& s) {
    return s.each == BodyStore::Each::Element || s.each == BodyStore::Each::Column;
  };
  store_pass_.resize(body.stores.size());
  for (size_t s = 0; s < body.stores.size(); ++s) {
    const BodyStore& store = body.stores[s];
    uint32_t pass = levels.stores[s].pass;
    if (body.buffers[store.param].is_read)
      pass = std::max(pass, num_passes() - (has_column(store) && num_passes() > 0 ? 1 : 0));
    for (size_t t = 0; t < s; ++t)
      if (body.stores[t].param == store.param)
        pass = std::max(pass, store_pass_[t] + (has_column(body.stores[t]) && !has_column(store)));
    store_pass_[s] = pass;
  }
}

bool CudaBody::is_in_place() const {
  return std::any_of(body.buffers.begin(), body.buffers.end(),
                     [](const BufferParam& b) { return b.is_read && b.is_written; });
}

ValueLevel CudaBody::indirect_level(uint32_t k) const {
  ValueLevel level = levels.values[body.indirects[k].value];
  if (const BodyValue mask = body.checks[body.indirects[k].check].mask; mask != kNoBodyValue)
    merge(level, levels.values[mask]);
  return level;
}

std::vector<uint32_t> CudaBody::indirects(Sym index) const {
  std::vector<uint32_t> found;
  const SymTable& table = body.expressions->syms;
  for (uint32_t symbol : table.symbols_of(index))
    for (uint32_t k = 0; k < body.indirects.size(); ++k)
      if (table.as_symbol(body.indirects[k].symbol) == symbol) found.push_back(k);
  return found;
}

std::optional<CudaBody::Access> CudaBody::access(Sym index) const {
  const std::optional<Sym> stride = column_stride(body, levels, index);
  if (!stride) return std::nullopt;
  SymTable& table = body.expressions->syms;
  if (is_int(*stride, 0)) return Access{index, *stride};
  return Access{substitute(table, index, body.column, Sym::from_int(0)), *stride};
}

bool CudaBody::is_packed(const Source& source) const {
  if (source.kind != Source::Kind::Load || source.mask != kNoBodyValue) return false;
  const std::optional<Access> at = access(source.index);
  return at && is_int(at->stride, 1);
}

bool CudaBody::is_packed(const BodyStore& store) const {
  if (store.mode != BodyStore::Mode::Plain || store.mask != kNoBodyValue) return false;
  if (store.each != BodyStore::Each::Element && store.each != BodyStore::Each::Column) return false;
  const std::optional<Access> at = access(store.index);
  return at && is_int(at->stride, 1);
}

bool CudaBody::is_turned(const Source& source) const {
  if (source.kind != Source::Kind::Load || source.mask != kNoBodyValue || !indirects(source.index).empty())
    return false;
  const std::optional<Access> at = access(source.index);
  if (!at || is_int(at->stride, 0) || is_int(at->stride, 1)) return false;
  SymTable& table = body.expressions->syms;
  if (!table.as_symbol(body.row)) return false;  // there is one row
  const Sym next = table.binary(SymOp::Add, body.row, Sym::from_int(1));
  return is_int(table.binary(SymOp::Sub, substitute(table, source.index, body.row, next), source.index), 1);
}

CudaSizes CudaBody::sizes_of(const int64_t* size_values) const {
  const SymTable& table = body.expressions->syms;
  CudaSizes sizes;
  sizes.values.resize(table.symbols().size());
  for (size_t i = 0; i < body.size_symbols.size(); ++i) sizes.values[body.size_symbols[i]] = size_values[i];
  sizes.batches = table.evaluate(body.batches, sizes.values);
  sizes.rows = table.evaluate(body.rows, sizes.values);
  sizes.columns = table.evaluate(body.columns, sizes.values);
  return sizes;
}

CudaSizes CudaBody::traced_sizes() const {
  std::vector<int64_t> values;
  for (uint32_t symbol : body.size_symbols) values.push_back(body.expressions->syms.symbols()[symbol].hint);
  return sizes_of(values.data());
}

// ---- What sizes say of an index

namespace {

// Walks an index with numbers for its symbols.
struct IndexWalk {
  const LoopBody& body;
  const CudaSizes& sizes;
  const SymTable& table = body.expressions->syms;

  bool is_loop(uint32_t symbol) const {
    return table.as_symbol(body.batch) == symbol || table.as_symbol(body.row) == symbol ||
           table.as_symbol(body.column) == symbol;
  }
  // The largest absolute value of a symbol.
  double bound_of_symbol(uint32_t symbol) const {
    const auto last = [](int64_t n) { return static_cast<double>(std::max<int64_t>(n, 1) - 1); };
    if (table.as_symbol(body.batch) == symbol) return last(sizes.batches);
    if (table.as_symbol(body.row) == symbol) return last(sizes.rows);
    if (table.as_symbol(body.column) == symbol) return last(sizes.columns);
    for (const Indirect& indirect : body.indirects)
      if (table.as_symbol(indirect.symbol) == symbol) return bound(indirect.size);
    return std::abs(static_cast<double>(sizes.values[symbol]));
  }
  double bound(Sym index) const {
    index = table.current(index);
    if (!index.is_symbolic()) return std::abs(static_cast<double>(index.concrete()));
    const SymStore& store = table.store();
    double sum = std::abs(static_cast<double>(store.exprs[index.id()].constant));
    for (const Term& term : store.terms_of(index.id())) {
      double product = std::abs(static_cast<double>(term.coefficient));
      for (AtomId id : store.factors_of(term.monomial)) {
        const Atom& atom = store.atoms[id];
        if (atom.symbol != kNone) {
          product *= bound_of_symbol(atom.symbol);
          continue;
        }
        const double a = bound(atom.a), b = bound(atom.b);
        switch (atom.op) {
          case SymOp::Add:
          case SymOp::Sub: product *= a + b; break;
          case SymOp::Mul: product *= a * b; break;
          case SymOp::Min:
          case SymOp::Max:
          case SymOp::Mod: product *= std::max(a, b); break;
          case SymOp::FloorDiv: product *= a + 1; break;
          case SymOp::TruncDiv: product *= a; break;
        }
      }
      sum += product;
    }
    return sum;
  }
  // Whether n divides it, whatever the loops do.
  bool is_multiple(Sym index, int64_t n) const {
    index = table.current(index);
    if (!index.is_symbolic()) return index.concrete() % n == 0;
    const SymStore& store = table.store();
    if (store.exprs[index.id()].constant % n != 0) return false;
    for (const Term& term : store.terms_of(index.id())) {
      int64_t left = n / std::gcd(n, term.coefficient);
      for (AtomId id : store.factors_of(term.monomial)) {
        const Atom& atom = store.atoms[id];
        if (left == 1) break;
        if (atom.symbol == kNone || is_loop(atom.symbol)) continue;
        bool is_size = false;
        for (uint32_t symbol : body.size_symbols) is_size |= symbol == atom.symbol;
        if (is_size) left /= std::gcd(left, sizes.values[atom.symbol]);
      }
      if (left != 1) return false;
    }
    return true;
  }
};

}  // namespace

bool CudaBody::is_aligned(Sym base, int64_t multiple, const CudaSizes& sizes) const {
  return IndexWalk{body, sizes}.is_multiple(base, multiple);
}

double CudaBody::bound(Sym index, const CudaSizes& sizes) const {
  return IndexWalk{body, sizes}.bound(index);
}

int CudaBody::count_streams() const {
  int count = 0;
  for (const Source& source : body.sources)
    if (source.kind == Source::Kind::Load && use_of(body, levels, source.index).column) ++count;
  return count;
}

bool CudaBody::reads_rows() const {
  const auto is_of_row = [](bool row, bool batch, bool column) { return (row || batch) && !column; };
  for (const Source& source : body.sources) {
    if (source.kind != Source::Kind::Load) continue;
    const IndexUse use = use_of(body, levels, source.index);
    if (is_of_row(use.row, use.batch, use.column)) return true;
  }
  for (uint32_t k = 0; k < body.indirects.size(); ++k) {
    const ValueLevel level = indirect_level(k);
    if (is_of_row(level.uses_row, level.uses_batch, level.uses_column)) return true;
  }
  return false;
}

CudaVariant CudaBody::variant(const CudaSizes& sizes, void* const* addresses,
                              const CudaTarget& target) const {
  using Class = CudaVariant::Class;
  CudaVariant made;
  const int64_t columns = sizes.columns, lines = sizes.lines();

  // ---- Width of indices
  double largest = static_cast<double>(lines) * static_cast<double>(columns);
  const auto count = [&](Sym index) { largest = std::max(largest, bound(index, sizes)); };
  for (const Source& source : body.sources)
    if (source.kind == Source::Kind::Load || source.kind == Source::Kind::Place ||
        source.kind == Source::Kind::Random)
      count(source.index);
  for (const BodyStore& store : body.stores) count(store.index);
  for (const Indirect& indirect : body.indirects) count(indirect.size);
  // Beyond the end by a pass of one block.
  made.is_wide = largest + 65536 >= 0x1p31;

  // ---- Class
  const int streams = count_streams();
  const bool fits =
      columns <= kPersistentColumns || (columns <= kLongPersistentColumns && streams <= kFewStreams);
  if (has_column_folds_ && has_arrays_) {
    size_t arrays = 0;
    for (uint32_t f = 0; f < body.folds.size(); ++f) arrays += is_array(f);
    made.kind = columns <= kPersistentColumns && streams + static_cast<int>(arrays) <= kMostStreams
                    ? Class::RowsOuter
                    : Class::RowsThenOuter;
  } else if (has_column_folds_) {
    made.kind = columns > kCudaBlockColumns && lines < target.sms ? Class::Split : Class::Rows;
    if (columns > 16 * kCudaBlockColumns) made.kind = Class::Split;
  } else if (has_arrays_) {
    made.kind = Class::Outer;
  } else {
    bool has_lines = has_row_values_;
    for (const BodyStore& store : body.stores) has_lines |= store.each == BodyStore::Each::Row;
    made.kind = !has_lines || num_passes() == 0                     ? Class::Flat
                : columns > kCudaBlockColumns && lines < target.sms ? Class::Split
                                                                    : Class::Rows;
  }
  // Elements come one by one where rows have an odd length: what each of them would ask of its row is asked once for the row, and
  // rows are on their way while others are computed.
  if (made.kind == Class::Flat && num_passes() > 0 && columns % 2 != 0 && !fits && lines >= target.sms &&
      reads_rows())
    made.kind = Class::Rows;
  const bool is_turned_somewhere =
      std::any_of(body.sources.begin(), body.sources.end(), [&](const Source& s) { return is_turned(s); });
  // Smaller ones are in the caches anyway.
  if (made.kind == Class::Flat && is_turned_somewhere && columns >= kCudaTile / 2 &&
      sizes.rows >= kCudaTile / 2)
    made.kind = Class::Tiled;
  made.is_persistent = made.kind == Class::RowsOuter || (made.kind == Class::Rows && fits);

  // ---- Packs
  size_t widest = 1, narrowest = 8;
  bool has_packs = false;
  const auto see = [&](DType dtype) {
    widest = std::max(widest, size_of(dtype));
    narrowest = std::min(narrowest, size_of(dtype));
    has_packs = true;
  };
  for (const Source& source : body.sources)
    if (is_packed(source)) see(body.buffers[source.param].dtype);
  for (const BodyStore& store : body.stores)
    if (is_packed(store)) see(body.buffers[store.param].dtype);
  int vector = 1;
  if (made.kind == Class::Flat) {
    if (num_passes() > 0 && has_packs) {
      vector = static_cast<int>(std::clamp<size_t>(16 / widest, 2, 8));
      if (lines > 1)
        while (columns % vector != 0) vector /= 2;
    }
  } else if (made.kind == Class::Tiled) {
    vector = 1;
  } else if (made.kind == Class::Outer) {
    if (columns % 4 == 0) vector = 4;
  } else if (columns % 4 == 0) {
    const bool is_split = made.kind == Class::Split;  // its last block has a thread for each lane
    vector = widest == 2 && columns % 8 == 0 && columns >= kLongHalves && !is_split ? 8 : 4;
  }
  made.vector = static_cast<uint8_t>(vector);
  made.has_tail = columns % vector != 0;
  const int width = std::max(vector, 4);
  if (made.is_persistent) {
    const int64_t lanes = cuda_lanes(columns) / (vector == 8 ? 2 : 1);
    int64_t packs = divide_up(columns, width * lanes);
    // One text for all sizes of a symbol.
    if (body.columns.is_symbolic()) packs = columns <= kPersistentColumns ? 4 : 8;
    made.packs = static_cast<uint8_t>(std::max<int64_t>(packs, 1) * (vector == 1 ? 4 : 1));
  } else if (made.kind == Class::Flat) {
    made.packs = static_cast<uint8_t>(vector == 1 ? 4 : streams <= 3 ? 2 : 1);
    if (num_passes() == 0) made.packs = 1;
  } else if (made.kind == Class::Tiled) {
    made.packs = kCudaTile * kCudaTile / kCudaThreads;
  } else if (made.kind == Class::Outer) {
    made.packs = static_cast<uint8_t>(streams <= 1 ? 8 : 4);  // rows at once
  } else {
    made.packs = static_cast<uint8_t>((vector == 8 ? 2 : 4) * (vector == 1 ? 2 : 1));
  }

  // ---- Alignment of each access
  const auto aligned = [&](uint32_t param, Sym index, bool is_packed) {
    if (!is_packed || vector == 1) return false;
    const size_t bytes_of_pack =
        std::min<size_t>(16, static_cast<size_t>(vector) * size_of(body.buffers[param].dtype));
    if (addresses != nullptr && reinterpret_cast<uintptr_t>(addresses[param]) % bytes_of_pack != 0)
      return false;
    return is_aligned(access(index)->base,
                      static_cast<int64_t>(bytes_of_pack / size_of(body.buffers[param].dtype)), sizes);
  };
  for (const Source& source : body.sources)
    made.aligned.push_back(source.kind == Source::Kind::Load &&
                           aligned(source.param, source.index, is_packed(source)));
  for (const BodyStore& store : body.stores)
    made.aligned.push_back(aligned(store.param, store.index, is_packed(store)));

  // ---- Rows in shared memory
  const bool is_long = made.kind == Class::Rows && !made.is_persistent && lines >= target.sms;
  // Where a block has one row at a time.
  const bool is_outer =
      made.kind == Class::RowsOuter && cuda_lanes(columns) / lanes_of_thread(made) >= kCudaThreads;
  if ((is_long || is_outer) && body.folds.size() <= 8) {
    made.is_held = true;
    int64_t held = 0;
    for (const uint32_t source : held_sources(made)) held += held_bytes(source, columns);
    made.is_held = held > 0 && held + kSharedOfFolds <= kSharedOfBlock;
  }
  return made;
}

// What differs from row to row and comes in whole words; nobody writes it.
std::vector<uint32_t> CudaBody::held_sources(const CudaVariant& variant) const {
  std::vector<uint32_t> held;
  if (!variant.is_held) return held;
  for (uint32_t s = 0; s < body.sources.size(); ++s) {
    const Source& source = body.sources[s];
    if (!is_packed(source) || body.buffers[source.param].is_written) continue;
    const size_t bytes = size_of(body.buffers[source.param].dtype) * variant.vector;
    const IndexUse use = use_of(body, levels, source.index);
    if (use.column && (use.row || use.batch) && bytes % 4 == 0 &&
        (variant.aligned[s] || (variant.vector == 1 && bytes <= 8)))
      held.push_back(s);
  }
  return held;
}

int64_t CudaBody::held_bytes(uint32_t source, int64_t columns) const {
  return divide_up(columns * static_cast<int64_t>(size_of(body.buffers[body.sources[source].param].dtype)),
                   16) *
         16;
}

// ---- Stages

std::vector<CudaStage> CudaBody::stages(const CudaVariant& variant) const {
  using Kind = CudaStage::Kind;
  std::vector<CudaStage> stages;
  bool has_after_columns = has_arrays_;
  for (const BodyStore& store : body.stores)
    has_after_columns |=
        store.each == BodyStore::Each::Column || (store.each == BodyStore::Each::Batch && !has_row_values_);
  switch (variant.kind) {
    case CudaVariant::Class::Flat: stages.push_back({Kind::Flat}); break;
    case CudaVariant::Class::Tiled: stages.push_back({Kind::Tiled}); break;
    case CudaVariant::Class::Rows: stages.push_back({Kind::Rows}); break;
    case CudaVariant::Class::RowsOuter: stages.push_back({Kind::RowsOuter}); break;
    case CudaVariant::Class::RowsThenOuter:
      stages.push_back({Kind::Rows});
      stages.push_back({Kind::Outer, 0, true});
      break;
    case CudaVariant::Class::Outer: stages.push_back({Kind::Outer}); break;
    case CudaVariant::Class::Split: {
      for (uint32_t pass = 0; pass < num_passes(); ++pass) stages.push_back({Kind::Split, pass});
      bool is_folding = false;  // the last pass: its last block goes on
      for (const ValueLevel& level : levels.folds)
        is_folding |= level.uses_column && level.pass + 1 == num_passes();
      if (!is_folding) stages.push_back({Kind::Finish, num_passes()});
      break;
    }
  }
  if (has_row_values_) stages.push_back({Kind::Values});
  const bool is_finished = variant.kind == CudaVariant::Class::Outer && !has_row_values_;
  if (has_after_columns && !is_finished) stages.push_back({Kind::After});
  return stages;
}

std::vector<CudaScratch> CudaBody::scratch(const CudaVariant& variant) const {
  using What = CudaScratch::What;
  std::vector<CudaScratch> made;
  const bool is_split = variant.kind == CudaVariant::Class::Split;
  if (is_split || variant.kind == CudaVariant::Class::Outer) made.push_back({What::Counter, 0});
  for (uint32_t f = 0; f < body.folds.size(); ++f) {
    if (is_array(f)) {
      made.push_back({What::Part, f});
    } else if (body.folds[f].axis != BodyFold::Axis::Columns) {
      made.push_back({What::Row, f});
      if (body.folds[f].axis == BodyFold::Axis::Rows) made.push_back({What::Eights, f});
      made.push_back({What::Result, f});
    } else {
      if (is_split) made.push_back({What::Block, f});
      if (is_split || variant.kind == CudaVariant::Class::RowsThenOuter) made.push_back({What::Fold, f});
    }
  }
  return made;
}

int CudaBody::tile_threads(const CudaVariant& variant, int64_t columns) {
  return static_cast<int>(
      std::min<int64_t>(power_from(divide_up(columns, variant.vector)), kCudaTileThreads));
}

int64_t CudaBody::scratch_bytes(const CudaScratch& scratch, const CudaVariant& variant,
                                const CudaSizes& sizes) const {
  using What = CudaScratch::What;
  const auto width =
      static_cast<int64_t>(scratch.what == What::Counter ? 4 : size_of(dtype_of(scratch.fold)));
  const int64_t blocks = cuda_blocks_of_rows(sizes.rows);
  int64_t n = 0;
  switch (scratch.what) {
    case What::Counter:
      n = variant.kind == CudaVariant::Class::Split
              ? sizes.lines()
              : sizes.batches *
                    divide_up(sizes.columns, variant.vector * tile_threads(variant, sizes.columns));
      break;
    case What::Part:
      n = sizes.batches * sizes.columns *
          (variant.kind == CudaVariant::Class::RowsOuter ? blocks : divide_up(blocks, 8));
      break;
    case What::Row:
    case What::Fold: n = sizes.lines(); break;
    case What::Eights: n = sizes.batches * divide_up(blocks, 8); break;
    case What::Result: n = sizes.batches; break;
    case What::Block: n = sizes.lines() * divide_up(sizes.columns, kCudaBlockColumns); break;
  }
  return divide_up(n * width, 256) * 256;
}

CudaGeometry CudaBody::geometry(const CudaStage& stage, const CudaVariant& variant, const CudaSizes& sizes,
                                const CudaTarget& target) const {
  const int64_t blocks_of_rows = cuda_blocks_of_rows(sizes.rows);
  // The tree's lanes over the columns of a thread's packs; a looped row takes all.
  const int row_threads = std::max(1, cuda_lanes(sizes.columns) / lanes_of_thread(variant));
  const auto in_groups = [&](int64_t units) {
    int threads = row_threads >= kCudaRowThreads ? row_threads : kCudaThreads;
    // Few rows are spread over more blocks.
    while (threads > std::max(row_threads, 64) && divide_up(units * row_threads, threads) < target.sms)
      threads /= 2;
    return CudaGeometry{divide_up(units, threads / row_threads), threads};
  };
  const int64_t tiles =
      divide_up(sizes.columns, static_cast<int64_t>(variant.vector) * tile_threads(variant, sizes.columns));
  switch (stage.kind) {
    case CudaStage::Kind::Flat: {
      const int64_t packs =
          sizes.lines() * (num_passes() == 0 ? 1 : divide_up(sizes.columns, variant.vector));
      return {divide_up(packs, int64_t{kCudaThreads} * variant.packs), kCudaThreads};
    }
    case CudaStage::Kind::Tiled:
      return {sizes.batches * divide_up(sizes.rows, kCudaTile) * divide_up(sizes.columns, kCudaTile),
              kCudaThreads};
    case CudaStage::Kind::Rows: {
      if (!variant.is_held) return in_groups(sizes.lines());
      int64_t shared = 0;
      for (const uint32_t source : held_sources(variant)) shared += held_bytes(source, sizes.columns);
      const int64_t of_sm = std::clamp<int64_t>(kSharedOfSm / (shared + kSharedOfFolds + kSharedOfSystem), 1,
                                                kThreadsOfSm / row_threads);
      return {std::min(sizes.lines(), target.sms * of_sm), row_threads, shared};
    }
    case CudaStage::Kind::RowsOuter: {
      CudaGeometry geometry = in_groups(sizes.batches * blocks_of_rows);
      for (const uint32_t source : held_sources(variant))
        geometry.shared_bytes += held_bytes(source, sizes.columns);
      return geometry;
    }
    case CudaStage::Kind::Outer: {
      const int64_t at_once = kCudaThreads / tile_threads(variant, sizes.columns);
      return {sizes.batches * tiles * divide_up(blocks_of_rows, at_once), kCudaThreads};
    }
    case CudaStage::Kind::Split:
      return {sizes.lines() * divide_up(sizes.columns, kCudaBlockColumns), row_threads};
    case CudaStage::Kind::Finish: return {sizes.lines(), 32};
    case CudaStage::Kind::Values: return {sizes.batches, kCudaLanes};
    case CudaStage::Kind::After: return {sizes.batches * tiles, kCudaThreads};
  }
  WEFT_ASSERT(false, "unknown stage");
}

}  // namespace weft::compiler
