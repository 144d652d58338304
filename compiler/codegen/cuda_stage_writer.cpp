// Each kind of stage: its loops, what it keeps in shared and scratch memory, and what it leaves to later ones.
// Place: the out-of-line half of compiler/codegen/cuda_stage_writer.h.
#include "compiler/codegen/cuda_stage_writer.h"

namespace weft::compiler {

std::string CudaStageWriter::flat_stage(const std::string& name) {
  CudaSection section(code_, variant_, params_, printer_, Part::Rows);
  bounds(section);
  section.packs = number(variant_.packs);
  const bool has_columns = code_.num_passes() > 0;
  collect_line(section, 0, true, "true", "line");
  if (has_columns) collect(section, 0, true, true, "");
  const bool one_line = is_int(body_.batches, 1) && is_int(body_.rows, 1);
  std::string open =
      "      const w_int q = first + k * " + number(kCudaThreads) + ";\n      if (q < total) {\n";
  if (!has_columns) open += "    const w_int line = q, c0 = 0;\n";
  else if (one_line) open += "    const w_int line = 0, c0 = q * " + number(vector()) + ";\n";
  else
    open += "    const w_int line = w_over(q, packs), c0 = (q - line * packs) * " + number(vector()) + ";\n";
  open += line_text("line");
  std::string lines, actions;
  for (size_t pass = 0; pass < section.line.size(); ++pass)
    lines += section.line[pass], actions += section.actions[pass];
  const std::string loops = pack_loops(section, open, lines, actions);
  const std::string v = number(vector());
  return begin(name) + section.head + "  const w_int packs = " +
         (has_columns ? vector() == 1 ? "columns" : "(columns + " + v + " - 1) / " + v : "1") +
         ", total = batches * rows * packs;\n  const w_int first = (w_int)block * " +
         number(int64_t{kCudaThreads} * variant_.packs) + " + (w_int)threadIdx.x;\n" + loops + "}\n";
}

// A warp reads 32 neighbours along the rows, and finds those along the columns in shared memory. Rows of 33 words keep both ways
// clear of bank conflicts.
std::string CudaStageWriter::tiled_stage(const std::string& name) {
  CudaSection section(code_, variant_, params_, printer_, Part::Rows);
  bounds(section);
  section.packs = number(variant_.packs);
  const std::string size = number(kCudaTile), step = number(kCudaThreads / kCudaTile);
  std::string tiles, copies;
  for (uint32_t s = 0; s < body_.sources.size(); ++s) {
    const Source& source = body_.sources[s];
    if (!code_.is_turned(source)) continue;
    section.turned.push_back(s);
    tiles += "  __shared__ w_pack<" + std::string(cuda_element(body_.buffers[source.param].dtype)) +
             ", 1> tile" + number(s) + "[" + size + "][" + size + " + 1];\n";
    copies += "      w_load<w_cached, true>(tile" + number(s) + "[y + " + step + " * k][x], " +
              section.buffer(source.param) + " + (" + section.index_text(source.index) + "));\n";
  }
  collect_line(section, 0, true, "true", "line");
  collect(section, 0, true, true, "");
  std::string lines, actions;
  for (size_t pass = 0; pass < section.line.size(); ++pass)
    lines += section.line[pass], actions += section.actions[pass];
  const std::string loops =
      pack_loops(section,
                 "      const w_int row = row0 + y + " + step +
                     " * k, c0 = column0 + x;\n      if (row < rows && c0 < columns) {\n",
                 lines, actions);
  std::string text = begin(name) + section.head + tiles + "  const int x = threadIdx.x % " + size +
                     ", y = threadIdx.x / " + size + ";\n  const w_int across = (columns + " + size +
                     " - 1) / " + size + ", down = (rows + " + size + " - 1) / " + size +
                     ", strip = w_over((w_int)block, across), column0 = ((w_int)block - strip * across) * " +
                     size + ", batch_of = w_over(strip, down), row0 = (strip - batch_of * down) * " + size +
                     ";\n";
  if (body_.batch.is_symbolic()) text += "  const w_int batch = batch_of;\n";
  return text + "#pragma unroll\n  for (int k = 0; k < " + section.packs +
         "; ++k) {\n    const w_int row = row0 + x, c = column0 + y + " + step +
         " * k;\n    if (row < rows && c < columns) {\n" + copies + "    }\n  }\n  __syncthreads();\n" +
         loops + "}\n";
}

// Rows, or blocks of rows with the sums of their columns.
std::string CudaStageWriter::rows_stage(const std::string& name, bool has_blocks) {
  const bool folds_only = variant_.kind == CudaVariant::Class::RowsThenOuter;
  CudaSection section(code_, variant_, params_, printer_, Part::Rows);
  section.keeps_loads = variant_.is_persistent;
  section.packs = number(variant_.packs);
  section.held = code_.held_sources(variant_);
  bounds(section);
  const std::string condition = "is_there && t == 0";
  uint32_t passes = code_.num_passes();
  if (folds_only)
    for (passes = 0; uint32_t f : all_column_folds())
      passes = std::max(passes, code_.levels.folds[f].pass + 1);
  std::vector<std::string> texts;
  for (uint32_t pass = 0; pass <= passes; ++pass) {
    if (pass > 0)
      for (uint32_t f : column_folds(pass - 1)) section.use_fold(f, {"f" + number(f), type_of(f)});
    if (!folds_only) collect_line(section, pass, false, condition, "line");
    if (pass == passes) break;
    collect(section, pass, false, !folds_only, "[k][e]");
    if (has_blocks && pass == 0)
      for (const uint32_t source : section.held) section.preload(source);
    texts.push_back(row_pass(section, pass, has_blocks ? "i & 1" : "0"));
  }
  std::string row = has_blocks ? "" : line_text("line");
  for (uint32_t pass = 0; pass < passes; ++pass)
    row += section.line[pass] + section.actions[pass] + texts[pass];
  row += section.line[passes] + section.actions[passes];
  if (folds_only)
    for (uint32_t f : all_column_folds())
      row += "    if (" + condition + ") " + scratch(What::Fold, f) + "[line] = f" + number(f) + ";\n";
  std::string held;
  if (variant_.is_held) held = has_blocks ? held_places(section, "") : held_rows(section, row);
  if (variant_.is_held && !has_blocks)
    return begin(name) + shared_text() + section.head + lanes_text() + held;
  std::string text = begin(name) + shared_text() + section.head + lanes_text() +
                     "  const w_int unit = (w_int)block * ((int)" + word(kWordThreads) +
                     " / threads) + (int)threadIdx.x / threads;\n";
  if (!has_blocks)
    return text + "  const bool is_there = threads >= " + number(kCudaRowThreads) +
           " || unit < batches * rows;\n  const w_int line = is_there ? unit : 0, "
           "limit = "
           "is_there ? columns : 0;\n" +
           row + "}\n";
  text += block_text() + "  const bool has_block = threads >= " + number(kCudaRowThreads) +
          " || unit < batches * blocks_of_rows;\n  const w_int batch = has_block ? "
          "w_over(unit, "
          "blocks_of_rows) : 0, of_batch = unit - batch * blocks_of_rows;\n" +
          held;
  if (variant_.is_held)
    text +=
        "  const auto ask = [&](const int i) {\n    const w_int at = of_batch * rows_of_block + i;\n    if "
        "(has_block && i < rows_of_block && at < rows) ask_row(batch * rows + at, 0);\n    w_commit();\n  "
        "};\n  ask(0);\n";
  std::string end;
  for (uint32_t f : arrays()) {
    const std::string n = number(f), v = number(vector());
    text += "  " + type_of(f) + " r" + n + "[" + section.packs + "][" + v + "];\n" +
            "#pragma unroll\n  for (int k = 0; k < " + section.packs +
            "; ++k)\n#pragma unroll\n    for (int e = 0; e < " + v + "; ++e) r" + n + "[k][e] = " + none(f) +
            ";\n";
    end += "#pragma unroll\n  for (int k = 0; k < " + section.packs + "; ++k) {\n" + row_open("", "columns") +
           "#pragma unroll\n      for (int e = 0; e < " + v + "; ++e)\n        if (has_block) " +
           scratch(What::Part, f) + "[(long)unit * columns + c0 + e] = r" + n + "[k][e];\n    }}\n";
  }
  return text +
         "  for (int i = 0; i < rows_of_block; ++i) {\n    const w_int at = of_batch * rows_of_block + "
         "i;\n    if (threads >= " +
         number(kCudaRowThreads) + " && at >= rows) break;\n" +
         "    const bool is_there = threads >= " + number(kCudaRowThreads) +
         " || (has_block && at < rows);\n    const w_int row = is_there ? at : 0, line "
         "= batch * "
         "rows + row, limit = is_there ? columns : 0;\n" +
         row + "  }\n" + end + "}\n";
}

// Where rows are in shared memory, and how a thread asks for packs of the row `line`: those that it will read itself.
std::string CudaStageWriter::held_places(CudaSection& section, const std::string& first) {
  std::string places = "  extern __shared__ uint4 w_held[];\n", copies, bases, used, begins, steps;
  const bool is_known = !body_.columns.is_symbolic();
  const int64_t threads =
      is_known ? cuda_lanes(body_.columns.concrete()) / CudaBody::lanes_of_thread(variant_) : 0;
  for (const uint32_t s : section.held) {
    const Source& source = body_.sources[s];
    const DType dtype = body_.buffers[source.param].dtype;
    const std::string type = cuda_element(dtype), n = number(s), from = section.buffer(source.param);
    places += "  " + type + "* const held" + n + " = (" + type + "*)((char*)w_held" + used + ");\n";
    used += " + (columns * (int)sizeof(" + type + ") + 15) / 16 * 16";
    bases += "    const w_int base" + n + " = " + section.base_text(source.index) + ";\n";
    copies += "        w_ask<" + type + ", " + number(vector()) + ">(held" + n + " + c0, " + from +
              " + (base" + n + " + c0));\n";
    begins += "      const unsigned to" + n + " = w_place(held" + n + " + at);\n      const " + type +
              "* const from" + n + " = " + from + " + (base" + n + " + at);\n";
    for (int64_t k = 0; k < variant_.packs; ++k)
      steps += "      w_ask_at<" + number(vector()) + ", " +
               number(k * vector() * threads * static_cast<int64_t>(size_of(dtype))) + ">(to" + n + ", from" +
               n + ");\n";
  }
  std::string packs = "#pragma unroll\n    for (int k = 0; k < " + section.packs + "; ++k) {\n" +
                      row_open(first, "columns") + copies + "    }}\n";
  // Where all packs of a part are there, each costs an instruction.
  if (!first.empty() && is_known)
    packs = "    if (first + " + step() + " <= columns) {\n      const w_int at = first + " +
            (vector() == 1 ? "t" : number(vector()) + " * t") + ";\n" + begins + steps + "    } else {\n" +
            packs + "    }\n";
  return places + "  const auto ask_row = [&](const w_int line, const w_int first) {\n" + line_text("line") +
         bases + packs + "  };\n";
}

// A block takes one row after another, and asks for the next one where it reads this one for the last time, so that memory is
// never idle.
std::string CudaStageWriter::held_rows(CudaSection& section, const std::string& row) {
  std::string text = held_places(section, "first + ");
  for (const uint32_t f : all_column_folds()) text += "  int turn" + number(f) + " = 0;\n";
  return text + "  const w_int lines = batches * rows, stride = (w_int)" + word(kWordBlocks) +
         ", limit = columns;\n  const int step = " + step() +
         ", parts = (int)((columns + step - 1) / step);\n  const auto ask = [&](const w_int line, const "
         "w_int first) {\n    if (line < lines) ask_row(line, first);\n    w_commit();\n  };\n  for (w_int "
         "first = 0; first < columns; first += step) ask((w_int)block, first);\n  for (w_int line = "
         "(w_int)block; line < lines; line += stride) {\n    const bool is_there = true;\n" +
         row + "  }\n}\n";
}

std::vector<uint32_t> CudaStageWriter::all_column_folds() const {
  std::vector<uint32_t> found;
  for (uint32_t f = 0; f < body_.folds.size(); ++f)
    if (body_.folds[f].axis == Axis::Columns) found.push_back(f);
  return found;
}

std::string CudaStageWriter::outer_stage(const std::string& name, bool reads_folds) {
  CudaSection section(code_, variant_, params_, printer_, Part::Rows, true);
  section.packs = number(variant_.packs);
  section.reads_once = !reads_folds;
  bounds(section);
  if (reads_folds)
    for (uint32_t f : all_column_folds())
      section.use_fold(f, {scratch(What::Fold, f) + "[batch_of * rows + row]", type_of(f)});
  collect_line(section, 0, true, "tile == 0 && x == 0", "batch_of * rows + row");
  collect(section, 0, true, true, "[e]");
  const std::string v = number(vector());
  std::string text =
      begin(name) + section.head + tile_text() + block_text() +
      "  const w_int groups = (blocks_of_rows + height - 1) / height, rest = w_over((w_int)block, "
      "tiles);\n  const w_int tile = (w_int)block - rest * tiles, batch_of = w_over(rest, groups), "
      "group = rest - batch_of * groups;\n";
  if (body_.batch.is_symbolic()) text += "  const w_int batch = batch_of;\n";
  text += "  const w_int c0 = (tile * tile_threads + x) * " + v + ", of_batch = group * height + y;\n" +
          "  const w_int first = of_batch * rows_of_block, end = c0 < columns ? w_least(rows, first + "
          "rows_of_block) "
          ": 0;\n";
  std::string fold;
  for (uint32_t f : arrays()) {
    const std::string n = number(f);
    text += "  " + type_of(f) + " r" + n + "[" + v + "];\n#pragma unroll\n  for (int e = 0; e < " + v +
            "; ++e) r" + n + "[e] = " + none(f) + ";\n  __shared__ " + type_of(f) + " shared" + n + "[" + v +
            "][" + number(kCudaThreads) + "];\n";
    fold += "#pragma unroll\n  for (int e = 0; e < " + v + "; ++e) shared" + n + "[e][threadIdx.x] = r" + n +
            "[e];\n";
  }
  text += "  for (w_int r = first; r < end; r += " + section.packs + ") {\n" +
          pack_loops(section,
                     std::string("      const w_int ") + (body_.row.is_symbolic() ? "row" : "at") +
                         " = r + k;\n      if (" + (body_.row.is_symbolic() ? "row" : "at") + " < end) {\n",
                     section.line[0], section.actions[0]) +
          "  }\n" + fold + "  __syncthreads();\n";
  text +=
      "  const w_int eights = (blocks_of_rows + 7) / 8, eight = of_batch / 8;\n  if (y % 8 == 0 && eight < "
      "eights "
      "&& c0 < columns) {\n";
  for (uint32_t f : arrays()) {
    const std::string s = "shared" + number(f) + "[e][threadIdx.x + ";
    const auto four = [&](int i) {
      std::string made = "w_fold4<" + op(f) + ">(";
      for (int j = i; j < i + 4; ++j) made += (j == i ? "" : ", ") + s + number(j) + " * tile_threads]";
      return made + ")";
    };
    text += "#pragma unroll\n    for (int e = 0; e < " + v + "; ++e)\n      " + scratch(What::Part, f) +
            "[((long)batch_of * eights + eight) * columns + c0 + e] = " + op(f) + "::of(" + four(0) + ", " +
            four(4) + ");\n";
  }
  text += "  }\n";
  if (is_finished_in_place())
    text += last_block("batch_of * tiles + tile", "groups") + "  " + name_ +
            "_after(p, (unsigned)(batch_of * tiles + tile));\n";
  return text + "}\n";
}

// The last block to come here goes on; the others are done. `count` come, for each counter.
std::string CudaStageWriter::last_block(const std::string& counter, const std::string& count) const {
  return "  __shared__ bool is_last;\n  __threadfence();\n  __syncthreads();\n  if (threadIdx.x == 0) {\n  "
         "  unsigned* const "
         "counter = " +
         scratch(What::Counter) + " + (" + counter +
         ");\n    is_last = atomicAdd(counter, 1u) == (unsigned)(" + count +
         ") - 1;\n    if (is_last) *counter = 0;\n  }\n  __syncthreads();\n  if (!is_last) return;\n  "
         "__threadfence();\n";
}

std::string CudaStageWriter::split_stage(const std::string& name, uint32_t pass) {
  CudaSection section(code_, variant_, params_, printer_, Part::Rows);
  section.packs = number(variant_.packs);
  section.reads_once = code_.num_passes() == 1;
  bounds(section);
  for (uint32_t f : all_column_folds())
    if (code_.levels.folds[f].pass < pass)
      section.use_fold(f, {scratch(What::Fold, f) + "[line]", type_of(f)});
  collect_line(section, pass, false, "b == 0 && threadIdx.x == 0", "line");
  collect(section, pass, false, true, "");
  const std::string loops = part_loops(section);
  const std::vector<uint32_t> folds = column_folds(pass);
  const std::string size = number(kCudaBlockColumns);
  std::string rest;
  for (uint32_t f : folds)
    rest += "    const " + type_of(f) + " v" + number(f) + " = " + folded(f, "0") +
            ";\n    if (threadIdx.x == 0) " + scratch(What::Block, f) + "[line * blocks + b] = v" +
            number(f) + ";\n";
  // What follows the last pass is done by the block that ends it.
  std::string last;
  const bool ends = pass + 1 == code_.num_passes() && !folds.empty();
  if (!folds.empty()) {
    needs_.arrays = true;
    last = last_block("line", "blocks");
    for (uint32_t f : folds)
      last += "  const " + type_of(f) + " f" + number(f) + " = w_fold_array<" + op(f) + ">(" +
              scratch(What::Block, f) + " + line * blocks, blocks, shared" + number(f) +
              ");\n  if (threadIdx.x == 0) " + scratch(What::Fold, f) + "[line] = f" + number(f) + ";\n";
  }
  std::string lines;
  for (uint32_t q = 0; q <= pass; ++q) lines += section.line[q];
  lines += section.actions[pass];
  std::string finish;
  if (ends) {
    for (uint32_t f : folds) section.use_fold(f, {"f" + number(f), type_of(f)});
    collect_line(section, pass + 1, false, "threadIdx.x == 0", "line");
    finish = section.line[pass + 1] + section.actions[pass + 1];
    // Values of earlier passes that only the end asks for.
    lines.clear();
    for (uint32_t q = 0; q <= pass; ++q) lines += section.line[q];
    lines += section.actions[pass];
  }
  return begin(name) + shared_text() + section.head + lanes_text() + "  const w_int blocks = (columns + " +
         size + " - 1) / " + size +
         ", line = w_over((w_int)block, blocks), b = (w_int)block - line * blocks;\n" + line_text("line") +
         lines + accumulators(pass) + "    const w_int begin = b * " + size +
         ", end = w_least(columns, begin + " + size +
         ");\n    for (w_int first = begin; first < end; first += " + step() + ") {\n" + loops + "    }\n" +
         rest + last + finish + "}\n";
}

std::string CudaStageWriter::finish_stage(const std::string& name) {
  CudaSection section(code_, variant_, params_, printer_, Part::Rows);
  bounds(section);
  for (uint32_t f : all_column_folds()) section.use_fold(f, {scratch(What::Fold, f) + "[line]", type_of(f)});
  collect_line(section, code_.num_passes(), false, "threadIdx.x == 0", "line");
  std::string text = begin(name) + section.head + "  const w_int line = (w_int)block;\n" + line_text("line");
  for (const std::string& line : section.line) text += line;
  return text + section.actions.back() + "}\n";
}

// Stores for each batch, by one thread.
void CudaStageWriter::collect_batch(CudaSection& section, const std::string& condition) {
  for (uint32_t k = 0; k < body_.indirects.size(); ++k) {
    const ValueLevel level = code_.indirect_level(k);
    if (level.after_rows && !level.uses_column) section.check(k);
  }
  for (size_t s = 0; s < body_.stores.size(); ++s)
    if (body_.stores[s].each == BodyStore::Each::Batch) section.store(body_.stores[s], s, condition);
}

std::string CudaStageWriter::values_stage(const std::string& name) {
  needs_.arrays = true;
  CudaSection section(code_, variant_, params_, printer_, Part::AfterRows, true);
  bounds(section);
  std::string folds;
  for (uint32_t f = 0; f < body_.folds.size(); ++f) {
    if (body_.folds[f].axis == Axis::Columns || code_.is_array(f)) continue;
    const std::string n = number(f), type = type_of(f), x = scratch(What::Row, f) + " + batch_of * rows";
    folds += "  __shared__ " + type + " shared" + n + "[64];\n";
    if (body_.folds[f].axis == Axis::RowValues)
      folds += "  const " + type + " f" + n + " = w_fold_array<" + op(f) + ">(" + x + ", rows, shared" + n +
               ");\n";
    else
      folds += "  const " + type + " f" + n + " = w_fold_rows<" + op(f) + ">(" + x +
               ", rows, rows_of_block, " + scratch(What::Eights, f) +
               " + batch_of * ((blocks_of_rows + 7) / 8), shared" + n + ");\n";
    folds += "  if (threadIdx.x == 0) " + scratch(What::Result, f) + "[batch_of] = f" + n + ";\n";
    section.use_fold(f, {"f" + n, type});
  }
  if (!has_stage(CudaStage::Kind::After)) {
    section.begin_pass(0);
    collect_batch(section, "threadIdx.x == 0");
  }
  return begin(name) + section.head + block_text() + "  const w_int batch_of = (w_int)block;\n" +
         (body_.batch.is_symbolic() ? "  const w_int batch = batch_of;\n" : "") + folds + section.line[0] +
         section.actions[0] + "}\n";
}

// A tile of columns: the folds along the rows, then what needs them.
std::string CudaStageWriter::after_stage(const std::string& name) {
  CudaSection section(code_, variant_, params_, printer_, Part::AfterRows, true);
  section.packs = "1";
  bounds(section);
  const std::string v = number(vector());
  const bool has_eights = variant_.kind != CudaVariant::Class::RowsOuter;
  std::string folds;
  for (uint32_t f : arrays()) {
    const std::string n = number(f), type = type_of(f), operation = op(f);
    section.use_fold(f, {"r" + n + "[e]", type});
    const std::string count = has_eights ? "eights" : "blocks_of_rows";
    const std::string load = "w_load<w_fresh, " +
                             std::string(variant_.vector > 1 && !variant_.has_tail ? "true" : "false") +
                             ">(block, part + ";
    folds += "  " + type + " r" + n + "[" + v + "];\n#pragma unroll\n  for (int e = 0; e < " + v +
             "; ++e) r" + n + "[e] = " + none(f) + ";\n  __shared__ " + type + " shared" + n + "[" + v +
             "][" + number(kCudaThreads) + "];\n  if (y < 8 && c0 < columns) {\n    const " + type +
             "* const part = " + scratch(What::Part, f) + " + (long)batch_of * " + count +
             " * columns + c0;\n" + (has_eights ? "#pragma unroll 8\n" : "#pragma unroll 1\n") +
             "    for (w_int q = y; q < eights; q += 8) {\n";
    if (has_eights) {
      folds += "      w_pack<" + type + ", " + v + "> block;\n      " + load +
               "(long)q * columns);\n#pragma unroll\n      for (int e = 0; e < " + v + "; ++e) r" + n +
               "[e] = " + operation + "::of(r" + n + "[e], w_get(block, e));\n";
    } else {
      folds += "      " + type + " of[8][" + v +
               "];\n#pragma unroll\n      for (int i = 0; i < 8; ++i) {\n        w_pack<" + type + ", " + v +
               "> block;\n        if (8 * q + i < blocks_of_rows) " + load +
               "(long)(8 * q + i) * columns);\n#pragma unroll\n        for (int e = 0; e < " + v +
               "; ++e) of[i][e] = 8 * q + i < blocks_of_rows ? w_get(block, e) : " + none(f) +
               ";\n      }\n#pragma unroll\n      for (int e = 0; e < " + v + "; ++e)\n        r" + n +
               "[e] = " + operation + "::of(r" + n + "[e], " + operation + "::of(w_fold4<" + operation +
               ">(of[0][e], of[1][e], of[2][e], of[3][e]), w_fold4<" + operation +
               ">(of[4][e], of[5][e], of[6][e], of[7][e])));\n";
    }
    folds += "    }\n  }\n#pragma unroll\n  for (int e = 0; e < " + v + "; ++e) shared" + n +
             "[e][threadIdx.x] = r" + n + "[e];\n";
  }
  if (!arrays().empty()) folds += "  __syncthreads();\n";
  folds += "  if (y != 0 || c0 >= columns) return;\n";
  for (uint32_t f : arrays()) {
    const std::string s = "shared" + number(f) + "[e][x + ";
    const auto four = [&](int i) {
      std::string made = "w_fold4<" + op(f) + ">(";
      for (int j = i; j < i + 4; ++j) made += (j == i ? "" : ", ") + s + number(j) + " * tile_threads]";
      return made + ")";
    };
    folds += "#pragma unroll\n  for (int e = 0; e < " + v + "; ++e) r" + number(f) + "[e] = " + op(f) +
             "::of(" + four(0) + ", " + four(4) + ");\n";
  }
  for (uint32_t f = 0; f < body_.folds.size(); ++f)
    if (body_.folds[f].axis != Axis::Columns && !code_.is_array(f))
      section.use_fold(f, {scratch(What::Result, f) + "[batch_of]", type_of(f)});
  section.begin_pass(0);
  for (uint32_t k = 0; k < body_.indirects.size(); ++k) {
    const ValueLevel level = code_.indirect_level(k);
    if (level.after_rows && level.uses_column) section.check(k);
  }
  for (size_t s = 0; s < body_.stores.size(); ++s)
    if (body_.stores[s].each == BodyStore::Each::Column) section.store(body_.stores[s], s, "");
  std::string loops;
  collect_batch(section, "tile == 0 && x == 0");
  note(section);
  loops = pack_loops(section, "      {\n", section.line[0], section.actions[0]);
  std::string text =
      begin(name) + section.head + tile_text() + block_text() +
      "  const w_int eights = (blocks_of_rows + 7) / 8, batch_of = w_over((w_int)block, tiles), tile = "
      "(w_int)block - batch_of * tiles;\n  const w_int c0 = (tile * tile_threads + x) * " +
      v + ";\n";
  if (body_.batch.is_symbolic()) text += "  const w_int batch = batch_of;\n";
  return text + folds + loops + "}\n";
}

}  // namespace weft::compiler
