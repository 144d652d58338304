// CudaStageWriter: the stages of a body as functions, which the kernels of cuda_codegen.cpp call.
// Needs cuda_section. The stages themselves are in cuda_stage_writer.cpp; here is what they have in common.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "compiler/codegen/code_text.h"
#include "compiler/codegen/cpu_plan.h"
#include "compiler/codegen/cuda_section.h"
#include "tensor/base/error.h"

namespace weft::compiler {

// What one launch needs of the prelude.
struct CudaNeeds {
  bool random = false, atomics = false, arrays = false;
};

// A body's stages as functions NAME_stage(p, block).
class CudaStageWriter {
  using Axis = BodyFold::Axis;
  using What = CudaScratch::What;
  using Part = CudaSection::Part;

 public:
  CudaStageWriter(const CudaBody& code, const CudaVariant& variant, const CudaParams& params, uint32_t words,
                  std::string name, CudaPrinter& printer, CudaNeeds& needs)
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
        case CudaStage::Kind::Tiled: text += tiled_stage(name); break;
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
      case CudaStage::Kind::Tiled:
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
                         const std::string& actions, const std::string& after_loads = "") const {
    const std::string packs = section.packs;
    const std::string head = "#pragma unroll\n    for (int k = 0; k < " + packs + "; ++k) {\n" + open;
    std::string count;
    if (variant_.has_tail)
      count = "      const int n = (int)w_least(columns - c0, " + number(vector()) + ");\n";
    std::string text = section.declared;
    if (!section.loads.empty()) text += head + line + count + section.loads + "    }}\n";
    text += after_loads;
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
    const std::string condition = *limit == 0 ? "" : "if (c0 < " + std::string(limit) + ") ";
    return "      const w_int c0 = " + first + at + ";\n      " + condition + "{\n";
  }
  std::string step() const {
    return vector() == 1 ? number(variant_.packs) + " * lanes"
                         : number(vector() * variant_.packs) + " * threads";
  }

  // The packs of all threads from `first` on, of which the last may be missing. Without a test for each pack, what one thread
  // does for several of them is done at once.
  std::string part_loops(const CudaSection& section) const {
    return "    if (first + " + step() + " <= end) {\n" +
           pack_loops(section, row_open("first + ", ""), "", "") + "    } else {\n" +
           pack_loops(section, row_open("first + ", "end"), "", "") + "    }\n";
  }

  // One pass over the columns of a row, with its folds as f0, f1, …
  std::string row_pass(const CudaSection& section, uint32_t pass, const std::string& parity) const {
    const std::vector<uint32_t> folds = column_folds(pass);
    std::string text;
    if (variant_.is_persistent) {
      const bool is_held = variant_.is_held && pass == 0;
      if (is_held) text += "    w_wait(0);\n";
      text += accumulators(pass) +
              pack_loops(section, row_open("", "limit"), "", "", is_held ? "    ask(i + 1);\n" : "");
      for (uint32_t f : folds)
        text += "    const " + type_of(f) + " f" + number(f) + " = " + folded(f, parity) + ";\n";
      return text;
    }
    const std::string loops = part_loops(section);
    std::string wait, ask;
    if (variant_.is_held) {
      const bool is_last = pass + 1 == code_.num_passes();
      if (pass == 0) wait = "    w_wait(parts - 1" + std::string(is_last ? "" : " - first / step") + ");\n";
      // Warps that run apart from one another write and read memory here and there, at two thirds of its bandwidth; folds keep
      // them together.
      const bool stores = is_last && folds.empty();
      if (is_last)
        ask = std::string(stores ? "    __syncthreads();\n" : "") + "    ask(line + stride, first);\n";
    }
    const std::string loop = "    for (w_int first = begin; first < end; first += " + step() + ") {\n" +
                             wait + loops + ask + "    }\n";
    if (folds.empty()) return "    {\n    const w_int begin = 0, end = limit;\n" + loop + "    }\n";
    std::string before, after, inside;
    for (uint32_t f : folds) {
      const std::string n = number(f), type = type_of(f);
      before += "    " + type + " f" + n + ", v" + n + "[4] = {" + none(f) + ", " + none(f) + ", " + none(f) +
                ", " + none(f) + "};\n";
      // The blocks' values are a row of at most sixteen: one lane, four accumulators.
      inside += "    f" + n + " = " + folded(f, variant_.is_held ? "turn" + n + "++ & 1" : "b & 1") + ";\n" +
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

  // ---- Stages (cuda_stage_writer.cpp)

  std::string flat_stage(const std::string& name);
  std::string tiled_stage(const std::string& name);
  std::string rows_stage(const std::string& name, bool has_blocks);
  std::string held_places(CudaSection& section, const std::string& first);
  std::string held_rows(CudaSection& section, const std::string& row);
  std::vector<uint32_t> all_column_folds() const;
  std::string outer_stage(const std::string& name, bool reads_folds);
  std::string last_block(const std::string& counter, const std::string& count) const;
  std::string split_stage(const std::string& name, uint32_t pass);
  std::string finish_stage(const std::string& name);
  void collect_batch(CudaSection& section, const std::string& condition);
  std::string values_stage(const std::string& name);
  std::string after_stage(const std::string& name);

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
  CudaNeeds& needs_;
  std::vector<CudaScratch> scratch_;
  std::vector<Kept> kept_;
  const std::vector<CudaStage>* stages_ = nullptr;
};

}  // namespace weft::compiler
