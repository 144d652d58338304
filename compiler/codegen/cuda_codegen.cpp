// Kernels of loop bodies: loops and folds around what sections collect.
// Place: the out-of-line half of cuda_codegen.h.
#include "compiler/codegen/cuda_codegen.h"

#include <algorithm>

#include "compiler/codegen/cpu_plan.h"
#include "compiler/codegen/cuda_section.h"
#include "tensor/base/error.h"

namespace weft::compiler {
namespace {

using Axis = BodyFold::Axis;
using What = CudaScratch::What;
using Part = CudaSection::Part;

std::string number(int64_t n) { return std::to_string(n); }

// What one launch needs of the prelude.
struct Needs {
  bool random = false, atomics = false, arrays = false;
};

// A body's stages as functions NAME_stage(p, block).
class StageWriter {
 public:
  StageWriter(const CudaBody& code, const CudaVariant& variant, const CudaParams& params, uint32_t words,
              std::string name, CudaPrinter& printer, Needs& needs)
      : code_(code),
        body_(code.body),
        variant_(variant),
        params_(params),
        words_(words),
        name_(std::move(name)),
        printer_(printer),
        needs_(needs),
        scratch_(code.scratch(variant)) {
    if (!variant.is_persistent || code.num_passes() < 2) return;
    VectorPrinter vectors(CpuTarget::current());
    const CpuPlan plan(body_, vectors);
    for (const CpuPlan::Kept& kept : plan.kept()) kept_.push_back({kept.value, kept.pass});
  }

  // The functions; the name of each stage's.
  std::string write(const std::vector<CudaStage>& stages, std::vector<std::string>& names) {
    std::string text;
    stages_ = &stages;
    for (const CudaStage& stage : stages)
      if (stage.kind == CudaStage::Kind::Outer && is_finished_in_place())
        text += after_stage(name_ + "_after");
    for (const CudaStage& stage : stages) {
      const std::string name = name_ + suffix(stage);
      names.push_back(name);
      switch (stage.kind) {
        case CudaStage::Kind::Flat: text += flat_stage(name); break;
        case CudaStage::Kind::Rows: text += rows_stage(name, false); break;
        case CudaStage::Kind::RowsOuter: text += rows_stage(name, true); break;
        case CudaStage::Kind::Outer: text += outer_stage(name, stage.reads_folds); break;
        case CudaStage::Kind::Split: text += split_stage(name, stage.pass); break;
        case CudaStage::Kind::Finish: text += finish_stage(name); break;
        case CudaStage::Kind::Values: text += values_stage(name); break;
        case CudaStage::Kind::After: text += after_stage(name); break;
      }
    }
    return text;
  }

 private:
  static std::string suffix(const CudaStage& stage) {
    switch (stage.kind) {
      case CudaStage::Kind::Flat:
      case CudaStage::Kind::RowsOuter: return "_all";
      case CudaStage::Kind::Rows: return "_rows";
      case CudaStage::Kind::Outer: return "_columns";
      case CudaStage::Kind::Split: return "_pass" + number(stage.pass);
      case CudaStage::Kind::Finish: return "_finish";
      case CudaStage::Kind::Values: return "_values";
      case CudaStage::Kind::After: return "_after";
    }
    return {};
  }
  bool has_stage(CudaStage::Kind kind) const {
    return std::any_of(stages_->begin(), stages_->end(), [&](const CudaStage& s) { return s.kind == kind; });
  }
  bool is_finished_in_place() const {
    return variant_.kind == CudaVariant::Class::Outer && !has_stage(CudaStage::Kind::After) &&
           !code_.has_row_values();
  }

  // ---- Names and numbers

  std::string word(uint32_t w) const { return "p.launch[" + number(words_ + w) + "]"; }
  std::string scratch(What what, uint32_t fold = 0) const {
    const auto found = std::find(scratch_.begin(), scratch_.end(), CudaScratch{what, fold});
    WEFT_ASSERT(found != scratch_.end(), "no such scratch memory");
    const std::string offset = word(kNumWords + static_cast<uint32_t>(found - scratch_.begin()));
    if (what == What::Counter) return "(p.counters + " + offset + ")";
    return "((" + std::string(type_of(fold)) + "*)(p.scratch + " + offset + "))";
  }
  std::string type_of(uint32_t fold) const { return cuda_type(code_.dtype_of(fold)); }
  std::string op(uint32_t fold) const { return cuda_fold(body_.folds[fold].fold); }
  std::string none(uint32_t fold) const { return op(fold) + "::none<" + type_of(fold) + ">()"; }
  int vector() const { return variant_.vector; }
  // A size as a constant where it is one.
  static std::string size_text(CudaSection& section, const char* name, Sym size) {
    return section.bound(name, size);
  }
  std::string constant_or_word(const char* name, Sym size, int64_t (*of)(int64_t), uint32_t w) const {
    return "  const int " + std::string(name) + " = " +
           (size.is_symbolic() ? "(int)" + word(w) : number(of(size.concrete()))) + ";\n";
  }
  std::string lanes_text() const {
    return constant_or_word(
               "lanes", body_.columns, [](int64_t n) { return int64_t{cuda_lanes(n)}; }, kWordLanes) +
           "  const int threads = lanes" + (vector() == 8 ? " / 2" : "") +
           ", t = threadIdx.x & (threads - 1);\n";
  }
  std::string tile_text() const {
    return std::string("  const int tile_threads = ") +
           (body_.columns.is_symbolic()
                ? "(int)" + word(kWordTileThreads)
                : number(CudaBody::tile_threads(variant_, body_.columns.concrete()))) +
           ", x = threadIdx.x & (tile_threads - 1), y = threadIdx.x / tile_threads, height = " +
           number(kCudaThreads) + " / tile_threads;\n  const w_int tiles = (columns + tile_threads * " +
           number(vector()) + " - 1) / (tile_threads * " + number(vector()) + ");\n";
  }
  std::string block_text() const {
    return constant_or_word("rows_of_block", body_.rows, cuda_rows_of_block, kWordRowsOfBlock) +
           "  const w_int blocks_of_rows = " +
           (body_.rows.is_symbolic() ? "(w_int)" + word(kWordBlocksOfRows)
                                     : number(cuda_blocks_of_rows(body_.rows.concrete()))) +
           ";\n";
  }
  // batch and row of `line`.
  std::string line_text(const std::string& line) const {
    std::string text;
    const bool one_batch = is_int(body_.batches, 1), one_row = is_int(body_.rows, 1);
    if (body_.batch.is_symbolic())
      text += "const w_int batch = " + (one_row ? line : "w_over(" + line + ", rows)") + "; ";
    if (body_.row.is_symbolic())
      text += "const w_int row = " + (one_batch ? line : "w_rest(" + line + ", rows)") + "; ";
    return text.empty() ? text : "    " + text + "\n";
  }
  void bounds(CudaSection& section) const {
    section.bound("batches", body_.batches);
    section.bound("rows", body_.rows);
    section.bound("columns", body_.columns);
  }
  std::string begin(const std::string& name) const {
    return "\nstatic __forceinline__ void " + name + "(const w_params& p, const unsigned block) {\n";
  }

  // ---- Passes

  // What a pass does for each pack: loops over the packs of a thread, loads first. `open` sets c0 and opens one brace.
  std::string pack_loops(const CudaSection& section, const std::string& open, const std::string& line,
                         const std::string& actions) const {
    const std::string packs = section.packs;
    const std::string head = "#pragma unroll\n    for (int k = 0; k < " + packs + "; ++k) {\n" + open;
    std::string count;
    if (variant_.has_tail)
      count = "      const int n = (int)w_least(columns - c0, " + number(vector()) + ");\n";
    std::string text = section.declared;
    if (!section.loads.empty()) text += head + line + count + section.loads + "    }}\n";
    if (section.element.empty() && section.after.empty() && actions.empty()) return text;
    text += head + line + actions + count + section.before;
    if (!section.element.empty())
      text += "#pragma unroll\n      for (int e = 0; e < " + number(vector()) + "; ++e) " +
              (variant_.has_tail && vector() > 1 ? "if (e < n) " : "") +
              "{\n        const w_int c = c0 + e;\n" + section.element + "      }\n";
    return text + section.after + "    }}\n";
  }

  bool is_in_pass(const ValueLevel& level, uint32_t pass, bool joined) const {
    return !level.after_rows && (joined || level.pass == pass);
  }

  // Collects what pass `pass` does for each element: checks, folds, stores, values that later passes need.
  void collect(CudaSection& section, uint32_t pass, bool joined, bool has_stores,
               const std::string& accumulator) {
    section.begin_pass(pass);
    for (uint32_t k = 0; k < body_.indirects.size(); ++k) {
      const ValueLevel level = code_.indirect_level(k);
      if (level.uses_column && is_in_pass(level, pass, joined)) section.check(k);
    }
    for (uint32_t f = 0; f < body_.folds.size(); ++f) {
      const ValueLevel& level = code_.levels.folds[f];
      if (!level.uses_column || !is_in_pass(level, pass, joined)) continue;
      const bool is_columns = body_.folds[f].axis == Axis::Columns;
      if (is_columns ? joined : !has_stores) continue;
      const std::string target = is_columns ? "a" + number(f) + "[" + (vector() == 1 ? "k & 3" : "e") + "]"
                                            : "r" + number(f) + accumulator;
      const std::string x = section.value(body_.folds[f].value).text;
      section.statement(target + " = " + op(f) + "::of(" + target + ", " + x + ");");
    }
    if (has_stores)
      for (size_t s = 0; s < body_.stores.size(); ++s)
        if (body_.stores[s].each == BodyStore::Each::Element && (joined || code_.pass_of_store(s) == pass))
          section.store(body_.stores[s], s, "");
    for (const Kept& kept : kept_)
      if (kept.pass == pass && !joined) section.keep(kept.value);
    note(section);
  }

  // What is done for a line before pass `pass`.
  void collect_line(CudaSection& section, uint32_t pass, bool joined, const std::string& condition,
                    const std::string& line) {
    section.begin_pass(pass);
    for (uint32_t k = 0; k < body_.indirects.size(); ++k) {
      const ValueLevel level = code_.indirect_level(k);
      if (!level.uses_column && is_in_pass(level, pass, joined)) section.check(k);
    }
    for (uint32_t f = 0; f < body_.folds.size(); ++f) {
      const ValueLevel& level = code_.levels.folds[f];
      if (body_.folds[f].axis == Axis::Columns || level.uses_column || !is_in_pass(level, pass, joined))
        continue;
      const std::string x = section.value(body_.folds[f].value).text;
      section.action("if (" + condition + ") " + scratch(What::Row, f) + "[" + line + "] = " + x + ";");
    }
    for (size_t s = 0; s < body_.stores.size(); ++s)
      if (body_.stores[s].each == BodyStore::Each::Row && (joined || code_.pass_of_store(s) == pass))
        section.store(body_.stores[s], s, condition);
    note(section);
  }

  void note(const CudaSection& section) {
    needs_.random |= section.uses_random;
    needs_.atomics |= section.uses_atomics;
  }

  std::vector<uint32_t> column_folds(uint32_t pass) const {
    std::vector<uint32_t> found;
    for (uint32_t f = 0; f < body_.folds.size(); ++f)
      if (body_.folds[f].axis == Axis::Columns && code_.levels.folds[f].pass == pass) found.push_back(f);
    return found;
  }
  std::vector<uint32_t> arrays() const {
    std::vector<uint32_t> found;
    for (uint32_t f = 0; f < body_.folds.size(); ++f)
      if (code_.is_array(f)) found.push_back(f);
    return found;
  }

  std::string accumulators(uint32_t pass) const {
    std::string text;
    for (uint32_t f : column_folds(pass)) {
      text += "    " + type_of(f) + " a" + number(f) + "[" + number(std::max(vector(), 4)) + "] = {";
      for (int i = 0; i < std::max(vector(), 4); ++i) text += (i == 0 ? "" : ", ") + none(f);
      text += "};\n";
    }
    return text;
  }
  // The value of what the threads of a row accumulated.
  std::string folded(uint32_t f, const std::string& parity) const {
    const std::string a = "a" + number(f);
    const auto four = [&](int i) {
      return "w_fold4<" + op(f) + ">(" + a + "[" + number(i) + "], " + a + "[" + number(i + 1) + "], " + a +
             "[" + number(i + 2) + "], " + a + "[" + number(i + 3) + "])";
    };
    const std::string own = vector() == 8 ? op(f) + "::of(" + four(0) + ", " + four(4) + ")" : four(0);
    return "w_fold_lanes<" + op(f) + ">(" + own + ", threads, shared" + number(f) + " + 32 * (" + parity +
           "))";
  }
  std::string shared_text() const {
    std::string text;
    for (uint32_t f = 0; f < body_.folds.size(); ++f)
      if (body_.folds[f].axis == Axis::Columns)
        text += "  __shared__ " + type_of(f) + " shared" + number(f) + "[64];\n";
    return text;
  }

  // The packs of a thread, `first` columns on.
  std::string row_open(const std::string& first, const char* limit) const {
    const std::string at = vector() == 1 ? "t + k * lanes" : number(vector()) + " * (t + k * threads)";
    return "      const w_int c0 = " + first + at + ";\n      if (c0 < " + limit + ") {\n";
  }
  std::string step() const {
    return vector() == 1 ? number(variant_.packs) + " * lanes"
                         : number(vector() * variant_.packs) + " * threads";
  }

  // One pass over the columns of a row, with its folds as f0, f1, …
  std::string row_pass(const CudaSection& section, uint32_t pass, const std::string& parity) const {
    const std::vector<uint32_t> folds = column_folds(pass);
    std::string text;
    if (variant_.is_persistent) {
      text += accumulators(pass) + pack_loops(section, row_open("", "limit"), "", "");
      for (uint32_t f : folds)
        text += "    const " + type_of(f) + " f" + number(f) + " = " + folded(f, parity) + ";\n";
      return text;
    }
    const std::string loops = pack_loops(section, row_open("first + ", "end"), "", "");
    const std::string loop =
        "    for (w_int first = begin; first < end; first += " + step() + ") {\n" + loops + "    }\n";
    if (folds.empty()) return "    {\n    const w_int begin = 0, end = limit;\n" + loop + "    }\n";
    std::string before, after, inside;
    for (uint32_t f : folds) {
      const std::string n = number(f), type = type_of(f);
      before += "    " + type + " f" + n + ", v" + n + "[4] = {" + none(f) + ", " + none(f) + ", " + none(f) +
                ", " + none(f) + "};\n";
      // The blocks' values are a row of at most sixteen: one lane, four accumulators.
      inside += "    f" + n + " = " + folded(f, "b & 1") + ";\n" +
                "#pragma unroll\n    for (int i = 0; i < 4; ++i) if ((b & 3) == i) v" + n + "[i] = " + op(f) +
                "::of(v" + n + "[i], f" + n + ");\n";
      after += "    if (columns > " + number(kCudaBlockColumns) + ") f" + n + " = w_fold4<" + op(f) + ">(v" +
               n + "[0], v" + n + "[1], v" + n + "[2], v" + n + "[3]);\n";
    }
    return before + "    for (int b = 0; b == 0 || b * " + number(kCudaBlockColumns) +
           " < columns; ++b) {\n" + accumulators(pass) + "    const w_int begin = b * " +
           number(kCudaBlockColumns) + ", end = w_least(limit, begin + " + number(kCudaBlockColumns) +
           ");\n" + loop + inside + "    }\n" + after;
  }

  // ---- Stages

  std::string flat_stage(const std::string& name) {
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
      open +=
          "    const w_int line = w_over(q, packs), c0 = (q - line * packs) * " + number(vector()) + ";\n";
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

  // Rows, or blocks of rows with the sums of their columns.
  std::string rows_stage(const std::string& name, bool has_blocks) {
    const bool folds_only = variant_.kind == CudaVariant::Class::RowsThenOuter;
    CudaSection section(code_, variant_, params_, printer_, Part::Rows);
    section.keeps_loads = variant_.is_persistent;
    section.packs = number(variant_.packs);
    bounds(section);
    const std::string condition = has_blocks ? "is_there && t == 0" : "is_there && t == 0";
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
      texts.push_back(row_pass(section, pass, has_blocks ? "row & 1" : "0"));
    }
    std::string row = has_blocks ? "" : line_text("line");
    for (uint32_t pass = 0; pass < passes; ++pass)
      row += section.line[pass] + section.actions[pass] + texts[pass];
    row += section.line[passes] + section.actions[passes];
    if (folds_only)
      for (uint32_t f : all_column_folds())
        row += "    if (" + condition + ") " + scratch(What::Fold, f) + "[line] = f" + number(f) + ";\n";
    std::string text = begin(name) + shared_text() + section.head + lanes_text() +
                       "  const w_int unit = (w_int)block * ((int)" + word(kWordThreads) +
                       " / threads) + (int)threadIdx.x / threads;\n";
    if (!has_blocks)
      return text +
             "  const bool is_there = unit < batches * rows;\n  const w_int line = is_there ? unit : 0, "
             "limit = "
             "is_there ? columns : 0;\n" +
             row + "}\n";
    text += block_text() +
            "  const bool has_block = unit < batches * blocks_of_rows;\n  const w_int batch = has_block ? "
            "w_over(unit, "
            "blocks_of_rows) : 0, of_batch = unit - batch * blocks_of_rows;\n";
    std::string end;
    for (uint32_t f : arrays()) {
      const std::string n = number(f), v = number(vector());
      text += "  " + type_of(f) + " r" + n + "[" + section.packs + "][" + v + "];\n" +
              "#pragma unroll\n  for (int k = 0; k < " + section.packs +
              "; ++k)\n#pragma unroll\n    for (int e = 0; e < " + v + "; ++e) r" + n +
              "[k][e] = " + none(f) + ";\n";
      end += "#pragma unroll\n  for (int k = 0; k < " + section.packs + "; ++k) {\n" +
             row_open("", "columns") + "#pragma unroll\n      for (int e = 0; e < " + v +
             "; ++e)\n        if (has_block) " + scratch(What::Part, f) +
             "[(long)unit * columns + c0 + e] = r" + n + "[k][e];\n    }}\n";
    }
    return text +
           "  for (int i = 0; i < rows_of_block; ++i) {\n    const w_int at = of_batch * rows_of_block + "
           "i;\n" +
           "    const bool is_there = has_block && at < rows;\n    const w_int row = is_there ? at : 0, line "
           "= batch * "
           "rows + row, limit = is_there ? columns : 0;\n" +
           row + "  }\n" + end + "}\n";
  }
  std::vector<uint32_t> all_column_folds() const {
    std::vector<uint32_t> found;
    for (uint32_t f = 0; f < body_.folds.size(); ++f)
      if (body_.folds[f].axis == Axis::Columns) found.push_back(f);
    return found;
  }

  std::string outer_stage(const std::string& name, bool reads_folds) {
    CudaSection section(code_, variant_, params_, printer_, Part::Rows, true);
    section.packs = number(variant_.packs);
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
              "; ++e) r" + n + "[e] = " + none(f) + ";\n  __shared__ " + type_of(f) + " shared" + n + "[" +
              v + "][" + number(kCudaThreads) + "];\n";
      fold += "#pragma unroll\n  for (int e = 0; e < " + v + "; ++e) shared" + n + "[e][threadIdx.x] = r" +
              n + "[e];\n";
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
  std::string last_block(const std::string& counter, const std::string& count) const {
    return "  __shared__ bool is_last;\n  __threadfence();\n  __syncthreads();\n  if (threadIdx.x == 0) {\n  "
           "  unsigned* const "
           "counter = " +
           scratch(What::Counter) + " + (" + counter +
           ");\n    is_last = atomicAdd(counter, 1u) == (unsigned)(" + count +
           ") - 1;\n    if (is_last) *counter = 0;\n  }\n  __syncthreads();\n  if (!is_last) return;\n  "
           "__threadfence();\n";
  }

  std::string split_stage(const std::string& name, uint32_t pass) {
    CudaSection section(code_, variant_, params_, printer_, Part::Rows);
    section.packs = number(variant_.packs);
    bounds(section);
    for (uint32_t f : all_column_folds())
      if (code_.levels.folds[f].pass < pass)
        section.use_fold(f, {scratch(What::Fold, f) + "[line]", type_of(f)});
    collect_line(section, pass, false, "b == 0 && threadIdx.x == 0", "line");
    collect(section, pass, false, true, "");
    const std::string loops = pack_loops(section, row_open("first + ", "end"), "", "");
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

  std::string finish_stage(const std::string& name) {
    CudaSection section(code_, variant_, params_, printer_, Part::Rows);
    bounds(section);
    for (uint32_t f : all_column_folds())
      section.use_fold(f, {scratch(What::Fold, f) + "[line]", type_of(f)});
    collect_line(section, code_.num_passes(), false, "threadIdx.x == 0", "line");
    std::string text =
        begin(name) + section.head + "  const w_int line = (w_int)block;\n" + line_text("line");
    for (const std::string& line : section.line) text += line;
    return text + section.actions.back() + "}\n";
  }

  // Stores for each batch, by one thread.
  void collect_batch(CudaSection& section, const std::string& condition) {
    for (uint32_t k = 0; k < body_.indirects.size(); ++k) {
      const ValueLevel level = code_.indirect_level(k);
      if (level.after_rows && !level.uses_column) section.check(k);
    }
    for (size_t s = 0; s < body_.stores.size(); ++s)
      if (body_.stores[s].each == BodyStore::Each::Batch) section.store(body_.stores[s], s, condition);
  }

  std::string values_stage(const std::string& name) {
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
  std::string after_stage(const std::string& name) {
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
                 "];\n#pragma unroll\n      for (int i = 0; i < 8; ++i) {\n        w_pack<" + type + ", " +
                 v + "> block;\n        if (8 * q + i < blocks_of_rows) " + load +
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

  struct Kept {
    BodyValue value;
    uint32_t pass;
  };

  const CudaBody& code_;
  const LoopBody& body_;
  const CudaVariant& variant_;
  CudaParams params_;
  uint32_t words_;
  std::string name_;
  CudaPrinter& printer_;
  Needs& needs_;
  std::vector<CudaScratch> scratch_;
  std::vector<Kept> kept_;
  const std::vector<CudaStage>* stages_ = nullptr;
};

std::string identifier(const std::string& name) {
  std::string text;
  for (char c : name)
    text += (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ? c : '_';
  return text;
}

int max_threads_of(const CudaStage& stage, const CudaBody& code) {
  switch (stage.kind) {
    case CudaStage::Kind::Values:
    case CudaStage::Kind::Split: return kCudaLanes;
    case CudaStage::Kind::Rows:
    case CudaStage::Kind::RowsOuter:
      if (code.body.columns.is_symbolic()) return kCudaLanes;
      return std::max(cuda_lanes(code.body.columns.concrete()), kCudaThreads);
    default: return kCudaThreads;
  }
}

}  // namespace

CudaCode generate_cuda(std::span<const LoopBody* const> bodies, std::span<const CudaVariant> variants,
                       const CudaTarget&) {
  WEFT_ASSERT(bodies.size() == variants.size() && !bodies.empty(), "one variant for each body");
  CudaCode code;
  CudaPrinter printer;
  Needs needs;
  CudaParams params;
  uint32_t words = 0;
  bool is_wide = false, is_in_place = false;
  std::string functions, origins;
  struct Launch {
    std::string calls, suffix;
    uint32_t bodies = 0;
    int threads = 0;
  };
  std::vector<Launch> launches;
  const std::string name =
      "kernel_" + identifier(bodies[0]->name) +
      (bodies.size() > 1 ? "_and_" + number(static_cast<int64_t>(bodies.size()) - 1) : "");
  for (size_t b = 0; b < bodies.size(); ++b) {
    const CudaBody body(*bodies[b]);
    is_wide |= variants[b].is_wide;
    is_in_place |= body.is_in_place() && !body.body.checks.empty();
    for (const std::string& origin : body.body.origins) origins += "// " + origin + "\n";
    const std::vector<CudaStage> stages = body.stages(variants[b]);
    std::vector<std::string> names;
    std::string own = identifier(body.body.name);
    if (bodies.size() > 1) own += "_" + number(static_cast<int64_t>(b));
    functions += StageWriter(body, variants[b], params, words, own, printer, needs).write(stages, names);
    for (size_t s = 0; s < stages.size(); ++s) {
      if (launches.size() <= s) launches.emplace_back();
      Launch& launch = launches[s];
      const std::string w = "p.launch[" + number(words) + " + ";
      if (bodies.size() == 1) {
        launch.calls += "  " + names[s] + "(p, block);\n";
      } else {
        launch.calls += "  if (block < (unsigned)" + w + number(kWordBlocks) +
                        "]) {\n    if (threadIdx.x < (unsigned)" + w + number(kWordThreads) + "]) " +
                        names[s] + "(p, block);\n    return;\n  }\n  block -= (unsigned)" + w +
                        number(kWordBlocks) + "];\n";
      }
      launch.threads = std::max(launch.threads, max_threads_of(stages[s], body));
      if (s > 0) launch.suffix = names[s].substr(names[s].rfind('_'));
    }
    params.buffers += static_cast<uint32_t>(body.body.buffers.size());
    params.numbers += static_cast<uint32_t>(body.body.numbers.size());
    params.sizes += static_cast<uint32_t>(body.body.size_symbols.size());
    words += kNumWords + static_cast<uint32_t>(body.scratch(variants[b]).size());
  }
  std::string kernels;
  for (const Launch& launch : launches) {
    code.kernels.push_back({name + launch.suffix, launch.threads});
    kernels += "\nextern \"C\" __global__ void __launch_bounds__(" + number(launch.threads) + ") " +
               code.kernels.back().entry + "(const __grid_constant__ w_params p) {\n" +
               (is_in_place ? "  if (*(volatile int*)&p.error->check != 0) return;\n" : "") +
               "  unsigned block = blockIdx.x;\n" + launch.calls + "}\n";
  }
  const auto member = [](const char* type, const char* field, uint32_t n) {
    return n == 0 ? std::string() : "  " + std::string(type) + " " + field + "[" + number(n) + "];\n";
  };
  code.text = std::string(is_wide ? "typedef long w_int;\ntypedef unsigned long w_unsigned;\n"
                                  : "typedef int w_int;\ntypedef unsigned w_unsigned;\n") +
              cuda_prelude() + (needs.random ? cuda_random_prelude() : "") +
              (needs.atomics ? cuda_atomic_prelude() : "") + (needs.arrays ? cuda_array_prelude() : "") +
              "\nstruct w_params {\n" + member("void*", "buffers", params.buffers) +
              member("unsigned long", "numbers", params.numbers) + member("long", "sizes", params.sizes) +
              "  w_error* error;\n  char* scratch;\n  unsigned* counters;\n" +
              member("long", "launch", words) + "};\n\n" + printer.definitions() + "\n" + origins +
              functions + kernels;
  return code;
}

CudaCode generate_cuda(std::span<const LoopBody* const> bodies, const CudaTarget& target) {
  std::vector<CudaVariant> variants;
  for (const LoopBody* body : bodies) {
    const CudaBody own(*body);
    variants.push_back(own.variant(own.traced_sizes(), nullptr, target));
  }
  return generate_cuda(bodies, variants, target);
}

}  // namespace weft::compiler
