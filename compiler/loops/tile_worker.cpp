// Steps on tiles: kernels, loads, stores and folds.
// Place: the out-of-line half of tile_worker.h.
#include "compiler/loops/tile_worker.h"

#include <algorithm>
#include <cstring>

#include "compiler/loops/interpreter.h"
#include "tensor/base/half.h"
#include "tensor/cpu/convert.h"
#include "tensor/cpu/tile.h"
#include "tensor/random/philox.h"

namespace weft::compiler {
namespace {

constexpr int64_t kLanes = cpu::kVectorLanes;

template <class F>
void visit_bytes(size_t size, const F& f) {
  switch (size) {
    case 1: return f(uint8_t{});
    case 2: return f(uint16_t{});
    case 4: return f(uint32_t{});
    default: return f(uint64_t{});
  }
}

// A vector whose lanes all have the value of the first.
void repeat_lane(char* vector, size_t bytes) {
  visit_bytes(bytes, [&](auto zero) {
    auto* lanes = reinterpret_cast<decltype(zero)*>(vector);
    std::fill(lanes + 1, lanes + kLanes, lanes[0]);
  });
}

template <class T>
T sum_of(T a, T b) {
  if constexpr (std::is_same_v<T, BFloat16>) return to_bfloat16(to_float(a) + to_float(b));
  else if constexpr (std::is_same_v<T, Float16>) return to_float16(to_float(a) + to_float(b));
  else if constexpr (std::is_same_v<T, bool>) return a || b;
  else if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) + static_cast<std::make_unsigned_t<T>>(b));
  else return a + b;
}

}  // namespace

TileWorker::TileWorker(const TileCall& call)
    : call_(call),
      program_(call.program),
      memory_(call.program.bytes),
      data_(call.program.steps.size(), nullptr) {
  tile_.columns = 0;
  run(program_.once, nullptr);
}

// ---- Shapes

int64_t TileWorker::count_of(StepId id) const { return rows_of(id) * columns_of(id); }

TileWorker::View TileWorker::view(StepId id) const {
  const ValueLevel& level = program_.steps[id].level;
  const int64_t column_step = level.uses_column ? 1 : 0;
  return {data_[id], level.uses_row ? columns_of(id) : 0, column_step};
}

TileWorker::Address TileWorker::address(StepId index, StepId stride) const {
  Address result{view(index), {nullptr, 0, 0}, tile_.column};
  if (stride != kNoStep) result.stride = view(stride);
  return result;
}

bool TileWorker::is_dense(const Address& address, int64_t rows, int64_t columns) const {
  if (address.stride.data == nullptr) return false;
  const int64_t first = address(0, 0);
  for (int64_t r = 0; r < rows; ++r)
    if (at(address.stride, r, 0) != 1 || address(r, 0) != first + r * columns) return false;
  return true;
}

// ---- Items

void TileWorker::run(std::span<const TileItem> items, const FoldMemory* memory) {
  for (const TileItem& item : items) {
    switch (item.kind) {
      case TileItem::Kind::Evaluate: evaluate(item.index, memory_.get() + item.place, memory); break;
      case TileItem::Kind::Fold: fold(item, memory); break;
      case TileItem::Kind::Store: store(item.index); break;
    }
  }
}

void TileWorker::evaluate(std::span<const TileItem> items, const FoldMemory* memory) {
  for (const TileItem& item : items)
    if (item.kind == TileItem::Kind::Evaluate) evaluate(item.index, memory_.get() + item.place, memory);
}

void TileWorker::evaluate(StepId id, char* to, const FoldMemory* memory) {
  const TileStep& step = program_.steps[id];
  const int64_t n = count_of(id);
  data_[id] = to;
  const auto fill = [&](int64_t first, int64_t step_of_lane) {
    auto* out = reinterpret_cast<int64_t*>(to);
    for (int64_t i = 0; i < n; ++i) out[i] = first + i * step_of_lane;
  };
  switch (step.kind) {
    case TileStep::Kind::Size: fill(call_.sizes[step.imm], 0); break;
    case TileStep::Kind::Constant: std::memcpy(to, &step.imm, size_of(step.dtype)); break;
    case TileStep::Kind::Number: std::memcpy(to, &call_.numbers[step.imm], size_of(step.dtype)); break;
    case TileStep::Kind::Batch: fill(tile_.batch, 0); break;
    case TileStep::Kind::Row: fill(tile_.row, 1); break;
    case TileStep::Kind::Column: fill(tile_.column, 1); break;
    case TileStep::Kind::Kernel:
    case TileStep::Kind::Lookup: return run_kernel(step, id, to);
    case TileStep::Kind::Convert: {
      const DType from = program_.steps[step.operands[0]].dtype;
      cpu::convert_kernel(from, step.dtype)(data_[step.operands[0]], 1, to, 1, n);
      break;
    }
    case TileStep::Kind::Bits:
      std::memcpy(to, data_[step.operands[0]], static_cast<size_t>(n) * size_of(step.dtype));
      break;
    case TileStep::Kind::Expand: expand(step, id, to); break;
    case TileStep::Kind::Load: load(step, id, to); break;
    case TileStep::Kind::Check: check(step, id, to); break;
    case TileStep::Kind::Fold: read_fold(step, id, to, *memory); break;
    case TileStep::Kind::Random: random(step, id, to); break;
  }
  if (!program_.is_slot(id)) return;
  repeat_lane(to, size_of(step.dtype));
}

void TileWorker::run_kernel(const TileStep& step, StepId id, char* to) {
  const void* in[3] = {};
  int64_t steps[3] = {};
  const int count = step.kind == TileStep::Kind::Lookup ? 1 : arity_of(step.prim);
  for (int i = 0; i < count; ++i) {
    in[i] = data_[step.operands[i]];
    steps[i] = program_.is_slot(step.operands[i]) ? 0 : 1;
  }
  DType operands = program_.steps[step.operands[0]].dtype;
  if (step.prim == Prim::Where) operands = step.dtype;
  if (step.kind == TileStep::Kind::Lookup) {
    operands = step.dtype;
    in[1] = call_.body.values.tables()[step.imm].data;
  }
  cpu::tile_kernel(step.prim, operands)(program_.is_slot(id) ? kLanes : count_of(id), in, steps, to);
}

void TileWorker::expand(const TileStep& step, StepId id, char* to) {
  const View from = view(step.operands[0]);
  const int64_t rows = rows_of(id), columns = columns_of(id);
  visit_bytes(size_of(step.dtype), [&](auto zero) {
    using T = decltype(zero);
    const auto* in = reinterpret_cast<const T*>(from.data);
    auto* out = reinterpret_cast<T*>(to);
    for (int64_t r = 0; r < rows; ++r) {
      const T* row = in + r * from.row_step;
      if (from.column_step == 0) std::fill_n(out + r * columns, columns, *row);
      else std::copy_n(row, columns, out + r * columns);
    }
  });
}

// ---- Memory

void TileWorker::load(const TileStep& step, StepId id, char* to) {
  const auto buffer = static_cast<uint32_t>(step.imm);
  const Address from = address(step.operands[0], step.operands[1]);
  const View mask = step.operands[2] == kNoStep ? View{nullptr, 0, 0} : view(step.operands[2]);
  const int64_t rows = rows_of(id), columns = columns_of(id), n = rows * columns;
  const char* data = static_cast<const char*>(call_.buffers[buffer]);
  const auto bytes = static_cast<int64_t>(size_of(step.from));
  if (call_.touched != nullptr) count(from, mask, rows, columns, buffer, false);
  if (n == 0) return;
  if (mask.data == nullptr && step.operands[1] != kNoStep) {
    const cpu::ConvertKernel convert = cpu::convert_kernel(step.from, step.dtype);
    if (is_dense(from, rows, columns)) {
      const char* first = data + from(0, 0) * bytes;
      if (step.from == step.dtype && n % kLanes == 0 && call_.may_read_in_place[buffer]) data_[id] = first;
      else convert(first, 1, to, 1, n);
      return;
    }
    const auto out_bytes = static_cast<int64_t>(size_of(step.dtype));
    for (int64_t r = 0; r < rows; ++r)
      convert(data + from(r, 0) * bytes, at(from.stride, r, 0), to + r * columns * out_bytes, 1, columns);
    return;
  }
  // What is converted on the way stands where it goes: every element is as wide as any.
  const bool converts = step.from != step.dtype;
  const cpu::Workspace piece(converts ? n * bytes : 1);
  char* out = converts ? piece.get() : to;
  visit_bytes(size_of(step.from), [&](auto zero) {
    using T = decltype(zero);
    const auto* elements = reinterpret_cast<const T*>(data);
    auto* values = reinterpret_cast<T*>(out);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c)
        values[r * columns + c] = is_set(mask, r, c) ? elements[from(r, c)] : T{0};
  });
  if (converts) cpu::convert_kernel(step.from, step.dtype)(out, 1, to, 1, n);
}

void TileWorker::check(const TileStep& step, StepId id, char* to) {
  const View value = view(step.operands[0]), size = view(step.operands[1]);
  const View mask = step.operands[2] == kNoStep ? View{nullptr, 0, 0} : view(step.operands[2]);
  const uint32_t which = call_.body.indirects[step.imm].check;
  const int64_t rows = rows_of(id), columns = columns_of(id);
  auto* out = reinterpret_cast<int64_t*>(to);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      const int64_t index = at(value, r, c), bound = at(size, r, c);
      int64_t& result = out[r * columns + c];
      result = index < 0 ? index + bound : index;
      if (static_cast<uint64_t>(result) < static_cast<uint64_t>(bound)) continue;
      result = 0;
      if (!is_set(mask, r, c)) continue;
      const int64_t row = program_.steps[id].level.uses_row ? tile_.row + r : 0;
      const int64_t column = program_.steps[id].level.uses_column ? tile_.column + c : 0;
      const int64_t element = (tile_.batch * call_.rows + row) * call_.columns + column;
      set_error(*call_.error, which, index, bound, element);
    }
  }
}

void TileWorker::random(const TileStep& step, StepId id, char* to) {
  const auto seed = static_cast<uint64_t>(integer(step.operands[0])),
             counter = static_cast<uint64_t>(integer(step.operands[1]));
  const View place = view(step.operands[2]);
  const int64_t rows = rows_of(id), columns = columns_of(id);
  // Neighbours share a block of words.
  const bool is_wide = step.dtype == DType::Int64;
  const uint64_t words = is_wide ? 2 : 4;
  uint64_t known = ~uint64_t{0};
  Philox4 block{};
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      const auto element = static_cast<uint64_t>(at(place, r, c));
      if (element / words != known) {
        known = element / words;
        block = philox4(seed, counter + known);
      }
      const uint64_t lane = element % words;
      if (is_wide)
        reinterpret_cast<uint64_t*>(to)[r * columns + c] =
            uint64_t{block.v[2 * lane + 1]} << 32 | block.v[2 * lane];
      else reinterpret_cast<uint32_t*>(to)[r * columns + c] = block.v[lane];
    }
  }
}

void TileWorker::store(uint32_t index) {
  const TileProgram::Store& store = program_.stores[index];
  const BodyStore& body = call_.body.stores[index];
  const bool has_rows = body.each == BodyStore::Each::Element || body.each == BodyStore::Each::Row;
  const bool has_columns = body.each == BodyStore::Each::Element || body.each == BodyStore::Each::Column;
  const int64_t rows = has_rows ? tile_.rows : 1, columns = has_columns ? tile_.columns : 1;
  const Address to = address(store.index, store.stride);
  if (call_.touched != nullptr)
    count(to, store.mask == kNoStep ? View{nullptr, 0, 0} : view(store.mask), rows, columns, body.param,
          true);
  if (rows * columns == 0) return;
  if (store.mask != kNoStep || store.stride == kNoStep || body.mode == BodyStore::Mode::Add)
    return store_where(store, body, to, rows, columns);

  const DType dtype = call_.body.buffers[body.param].dtype;
  const auto bytes = static_cast<int64_t>(size_of(dtype)),
             from_bytes = static_cast<int64_t>(size_of(store.from));
  char* data = static_cast<char*>(call_.buffers[body.param]);
  const View value = view(store.value);
  const cpu::ConvertKernel convert = cpu::convert_kernel(store.from, dtype);
  const bool is_whole = value.column_step == 1 && (rows == 1 || value.row_step == columns);
  if (is_whole && is_dense(to, rows, columns))
    return convert(value.data, 1, data + to(0, 0) * bytes, 1, rows * columns);
  for (int64_t r = 0; r < rows; ++r)
    convert(value.data + r * value.row_step * from_bytes, value.column_step, data + to(r, 0) * bytes,
            at(to.stride, r, 0), columns);
}

void TileWorker::store_where(const TileProgram::Store& store, const BodyStore& body, const Address& to,
                             int64_t rows, int64_t columns) {
  const DType dtype = call_.body.buffers[body.param].dtype;
  const View mask = store.mask == kNoStep ? View{nullptr, 0, 0} : view(store.mask);
  const View value = view(store.value);
  // Converted on the way: element by element has the same bits.
  const cpu::ConvertKernel convert = store.from == dtype ? nullptr : cpu::convert_kernel(store.from, dtype);
  const size_t from_bytes = size_of(store.from);
  visit(dtype, [&](auto zero) {
    using T = decltype(zero);
    auto* data = static_cast<T*>(call_.buffers[body.param]);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        if (!is_set(mask, r, c)) continue;
        const char* from =
            value.data + static_cast<size_t>(r * value.row_step + c * value.column_step) * from_bytes;
        T element;
        if (convert != nullptr) convert(from, 1, &element, 1, 1);
        else std::memcpy(&element, from, sizeof element);
        T& target = data[to(r, c)];
        target = body.mode == BodyStore::Mode::Add ? sum_of(target, element) : element;
      }
    }
  });
}

void TileWorker::count(const Address& address, const View& mask, int64_t rows, int64_t columns,
                       uint32_t buffer, bool is_store) const {
  std::vector<int64_t> places;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      if (is_set(mask, r, c)) places.push_back(address(r, c));
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  const auto bytes =
      static_cast<int64_t>(places.size()) * static_cast<int64_t>(size_of(call_.body.buffers[buffer].dtype));
  TouchedElements& touched = call_.touched[buffer];
  (is_store ? touched.stored : touched.loaded) += bytes;
  (is_store ? touched.stores : touched.loads).insert(places.begin(), places.end());
}

// ---- Folds

void TileWorker::fold(const TileItem& item, const FoldMemory* memory) {
  const TileProgram::Fold& made = program_.folds[item.index];
  const BodyFold& body = call_.body.folds[item.index];
  const DType dtype = program_.steps[made.value].dtype;
  const auto bytes = static_cast<int64_t>(size_of(dtype));
  const cpu::FoldKernels& kernels = cpu::fold_kernels(body.fold, dtype);
  const View value = view(made.value);
  switch (body.axis) {
    case BodyFold::Axis::Columns: {
      if (!program_.has_whole_rows()) {
        char* block = memory->of[item.index] + tile_.column / cpu::kInnerBlock * bytes;
        return kernels.run(value.data, tile_.columns, block);
      }
      char* to = memory_.get() + item.place;
      data_[made.result] = to;
      const int64_t rows = rows_of(made.result);
      kernels.fill_identity(to, rows);
      alignas(16) char total[16];
      for (int64_t r = 0; r < rows && tile_.columns > 0; ++r) {
        kernels.run(value.data + r * value.row_step * bytes, tile_.columns, total);
        kernels.serial(to + r * bytes, total, 1);
      }
      if (!program_.is_slot(made.result)) break;
      repeat_lane(to, static_cast<size_t>(bytes));
      if (memory != nullptr && memory->of[item.index] != nullptr)
        std::memcpy(memory->of[item.index], to, static_cast<size_t>(bytes));
      break;
    }
    case BodyFold::Axis::Rows: {
      const bool has_columns = value.column_step == 1;
      char* totals = memory->of[item.index] + (has_columns ? tile_.column * bytes : 0);
      kernels.rows(totals, value.data, value.row_step, tile_.rows, has_columns ? tile_.columns : 1);
      break;
    }
    case BodyFold::Axis::RowValues: {
      char* values = memory->of[item.index] + tile_.row * bytes;
      for (int64_t r = 0; r < tile_.rows; ++r)
        std::memcpy(values + r * bytes, value.data + r * value.row_step * bytes, static_cast<size_t>(bytes));
      break;
    }
  }
}

void TileWorker::set_fold(const TileItem& item, const char* blocks, int64_t num_blocks) {
  const TileProgram::Fold& made = program_.folds[item.index];
  const DType dtype = program_.steps[made.value].dtype;
  const cpu::FoldKernels& kernels = cpu::fold_kernels(call_.body.folds[item.index].fold, dtype);
  char* to = memory_.get() + item.place;
  data_[made.result] = to;
  kernels.fill_identity(to, 1);
  kernels.serial(to, blocks, num_blocks);
  repeat_lane(to, size_of(dtype));
}

void TileWorker::read_fold(const TileStep& step, StepId id, char* to, const FoldMemory& memory) {
  const size_t bytes = size_of(step.dtype);
  const char* results = memory.of[step.imm];
  if (step.level.uses_column) results += static_cast<size_t>(tile_.column) * bytes;
  std::memcpy(to, results, static_cast<size_t>(count_of(id)) * bytes);
}

}  // namespace weft::compiler
