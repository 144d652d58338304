// The functions of a kernel, and how they are shared over threads.
// Place: the out-of-line half of cpu_codegen.h.
#include "compiler/codegen/cpu_codegen.h"

#include <algorithm>

#include "compiler/codegen/code_text.h"
#include "compiler/codegen/cpu_pass.h"
#include "tensor/base/error.h"

namespace weft::compiler {
namespace {

// Rows whose kept values are larger (elements) get memory of their own; others lie on the stack.
constexpr int64_t kStackElements = 8192;
// Columns of a tile where a row need not be whole.
constexpr int64_t kTileColumns = 256;
// Columns that a thread folds along the rows at a time: totals and the block's values stay in L1.
constexpr int64_t kChunkColumns = 1024;

class KernelWriter {
 public:
  KernelWriter(const LoopBody& body, std::string name, VectorPrinter& printer)
      : body_(body), plan_(body, printer), passes_(plan_), name_(std::move(name)) {}

  std::string write() {
    std::string text = "// " + body_.name + "\n";
    for (const std::string& origin : body_.origins) text += "//   " + origin + "\n";
    if (plan_.is_flat()) return text + flat_kernel();
    if (plan_.has_row_folds()) return text + block_kernel();
    return text + rows_kernel();
  }

 private:
  uint32_t num_passes() const { return plan_.num_passes(); }
  std::vector<uint32_t> folds_along(BodyFold::Axis axis) const {
    std::vector<uint32_t> found;
    for (uint32_t f = 0; f < body_.folds.size(); ++f)
      if (body_.folds[f].axis == axis) found.push_back(f);
    return found;
  }
  // "float* const name = …": so many elements, to be given back.
  static std::string allocation(const std::string& element, const std::string& name,
                                const std::string& count) {
    return element + "* const " + name + " = (" + element + "*)w_allocate((" + count + ") * sizeof(" +
           element + "));\n";
  }
  static const char* element_of(const CpuPlan::Kept& kept) {
    return kept.type == "f64"   ? "double"
           : kept.type == "i64" ? "long long"
           : kept.type == "i32" ? "int"
                                : "float";
  }

  // ---- Rows

  // Memory for the kept values of one row and for tiles: declared at the head, given back at the end.
  std::string row_memory(std::string& end) const {
    std::string text;
    const int64_t columns = plan_.known_columns(), kept_count = static_cast<int64_t>(plan_.kept().size());
    const bool on_stack = columns >= 0 && columns * kept_count <= kStackElements;
    const auto add = [&](const std::string& element, const std::string& name, const std::string& count,
                         bool is_known) {
      if (is_known) {
        text += "  " + element + " " + name + "[" + count + "] __attribute__((aligned(64)));\n";
        return;
      }
      text += "  " + allocation(element, name, count);
      end += "  w_release(" + name + ");\n";
    };
    text += "  const long width = (columns + 15) / 16 * 16;\n";
    for (const CpuPlan::Kept& kept : plan_.kept())
      add(element_of(kept), kept.array, on_stack ? number((columns + 15) / 16 * 16) : "width", on_stack);
    for (const CpuPlan::Tile& tile : plan_.tiles())
      add(element_type(body_.buffers[tile.param].dtype), tile.name,
          number(plan_.tile_rows()) + " * " + tile_columns(), !plan_.has_whole_tiles());
    return text;
  }

  // All that happens in one row.
  std::string row_text(CpuSection& section) {
    std::vector<std::string> passes(num_passes() + 1);
    for (uint32_t pass = 0; pass <= num_passes(); ++pass) {
      section.begin_pass(pass);
      for (uint32_t k = 0; k < body_.indirects.size(); ++k) {
        const ValueLevel level = plan_.indirect_level(k);
        if (!level.uses_column && !level.after_rows && level.pass == pass) section.check(k);
      }
      for (uint32_t f = 0; f < body_.folds.size(); ++f)
        if (body_.folds[f].axis != BodyFold::Axis::Columns && !plan_.is_array(f) &&
            plan_.code.levels.folds[f].pass == pass)
          fold_row_value(section, f, pass);
      for (size_t s = 0; s < body_.stores.size(); ++s)
        if (body_.stores[s].each == BodyStore::Each::Row && plan_.pass_of_store(s) == pass)
          section.store(body_.stores[s]);
      if (pass == num_passes()) break;
      const CpuPasses::Pass made = passes_.collect(section, pass);
      if (!made.body.empty()) passes[pass] = passes_.row_pass("pass" + number(pass), made);
      for (uint32_t f : made.folds) section.set_fold(f, {"fold" + number(f), passes_.type_of(f)});
    }
    std::string text;
    for (uint32_t pass = 0; pass <= num_passes(); ++pass) text += section.line[pass] + passes[pass];
    return text;
  }
  // A value without column that is folded along the rows.
  void fold_row_value(CpuSection& section, uint32_t f, uint32_t pass) {
    const CppValue x = section.value(body_.folds[f].value);
    const std::string total = "total" + number(f);
    if (body_.folds[f].axis == BodyFold::Axis::Rows)
      section.line[pass] += "      " + total + " = " + passes_.folded(f, total, x.text) + ";\n";
    else
      section.line[pass] += "      w_store_" + x.type + "(rows" + number(f) + " + " +
                            (is_int(body_.batches, 1) ? "row" : "batch * rows + row") + ", " + x.text +
                            ", 1);\n";
  }

  std::string tile_columns() const { return plan_.has_whole_tiles() ? "width" : number(kTileColumns); }

  // The loop over rows start … stop-1.
  std::string row_loop(CpuSection& section, const std::string& row, const std::string& start,
                       const std::string& stop) {
    if (plan_.tiles().empty())
      return filled("    for (long row = @start; row < @stop; ++row) {\n@row    }\n",
                    {{"start", start}, {"stop", stop}, {"row", row}});
    std::string loads, stores;
    for (const CpuPlan::Tile& tile : plan_.tiles()) {
      const std::string there = section.buffer(tile.param) + " + (" + section.index_text(tile.index, "c0") +
                                "), " + section.index_text(tile.stride),
                        here = tile.name + ", " + tile_columns(),
                        turn = "          w_turn" +
                               number(static_cast<int64_t>(size_of(body_.buffers[tile.param].dtype)));
      if (tile.is_store) stores += turn + "(" + here + ", " + there + ", c1 - c0, height);\n";
      else loads += turn + "(" + there + ", " + here + ", height, c1 - c0);\n";
    }
    return filled(R"(    for (long row0 = @start; row0 < @stop; row0 += @height) {
      const long height = w_least(@height, @stop - row0);
      for (long c0 = first; c0 < last; c0 += @width) {
        const long c1 = w_least(last, c0 + @width);
        {
          const long row = row0;
@loads        }
        for (long row = row0; row < row0 + height; ++row) {
          const long first = c0, last = c1;
@row        }
        {
          const long row = row0;
@stores        }
      }
    }
)",
                  {{"start", start},
                   {"stop", stop},
                   {"height", number(plan_.tile_rows())},
                   {"width", tile_columns()},
                   {"loads", loads},
                   {"row", row},
                   {"stores", stores}});
  }

  // NAME_rows: the lines begin … end-1 of all batches, columns first … last-1.
  std::string rows_function() {
    CpuSection section(plan_.code, CpuSection::Part::Rows);
    for (const CpuPlan::Tile& tile : plan_.tiles())
      section.use_tile(tile.param, tile.index,
                       tile.name + " + (row - row0) * " + tile_columns() + " + (c - c0)");
    const std::string row = row_text(section);
    section.bound("rows", body_.rows);
    section.bound("columns", body_.columns);
    const bool has_rows = !is_int(body_.rows, 1), has_batches = !is_int(body_.batches, 1);
    std::string loop;
    if (!has_batches) {
      loop = section.batch + (has_rows ? row_loop(section, row, "begin", "end")
                                       : "    if (begin < end) {\n" + row + "    }\n");
    } else if (!has_rows) {
      loop = "  for (long batch = begin; batch < end; ++batch) {\n" + section.batch + row + "  }\n";
    } else {
      loop =
          "  for (long line = begin; line < end;) {\n"
          "    const long batch = line / rows, start = line - batch * rows, stop = w_least(rows, start + end "
          "- line);\n"
          "    line += stop - start;\n" +
          section.batch + row_loop(section, row, "start", "stop") + "  }\n";
    }
    std::string end;
    const std::string memory = row_memory(end);
    return "static void " + name_ +
           "_rows(const w_call& call, long begin, long end, long first, long last) {\n" + section.head +
           memory + loop + end + "}\n";
  }

  bool has_rows_work() const {
    if (plan_.has_row_folds() || plan_.has_column_folds() || !body_.indirects.empty()) return true;
    return std::any_of(body_.stores.begin(), body_.stores.end(),
                       [](const BodyStore& s) { return !is_after(s); });
  }

  std::string entry_head() {
    std::string text = "extern \"C\" void " + name_ +
                       "(void* const* buffers, const unsigned long* numbers, const long* sizes, w_error* "
                       "error, int threads) {\n";
    const bool is_in_place = std::any_of(body_.stores.begin(), body_.stores.end(), [&](const BodyStore& s) {
      return s.mode == BodyStore::Mode::Add || body_.buffers[s.param].is_read;
    });
    if (is_in_place) text += "  if (error->check != 0) return;\n";
    if (plan_.has_collisions() && !plan_.collides_by_column())
      text += "  threads = 1;  // in order, where elements may go to one place\n";
    text += "  const w_call call = {buffers, numbers, sizes, error};\n";
    CpuSection bounds(plan_.code, CpuSection::Part::Rows);
    bounds.bound("batches", body_.batches);
    bounds.bound("rows", body_.rows);
    bounds.bound("columns", body_.columns);
    return text + bounds.head;
  }

  std::string rows_kernel() {
    const bool has_rows = has_rows_work(), has_after = plan_.code.levels.has_after;
    // Threads begin where a tile does.
    const bool by_tiles = !plan_.tiles().empty() && is_int(body_.batches, 1);
    const std::string lines =
        by_tiles ? filled(
                       "  w_parallel((rows + @n - 1) / @n, threads, [&](long begin, long end) { "
                       "@name_rows(call, begin * @n, w_least(rows, end * @n), 0, columns); });\n",
                       {{"n", number(plan_.tile_rows())}, {"name_rows", name_ + "_rows"}})
                 : filled(
                       "  w_parallel(batches * rows, threads, [&](long begin, long end) { @name_rows(call, "
                       "begin, end, 0, columns); });\n",
                       {{"name_rows", name_ + "_rows"}});
    std::string text = (has_rows ? rows_function() : "") + (has_after ? after_function() : "") + entry_head();
    const std::string by_columns =
        filled(R"(    w_parallel((columns + 15) / 16, threads, [&](long begin, long end) {
      @name_rows(call, 0, batches * rows, begin * 16, w_least(columns, end * 16));
    });
)",
               {{"name_rows", name_ + "_rows"}});
    if (has_rows && plan_.shares_columns())
      text +=
          "  const long many = 2 * (threads < 0 ? -threads : threads);\n"
          "  if (batches * rows >= many || many <= 2) {\n  " +
          lines + "  } else {\n" + by_columns + "  }\n";
    else if (has_rows && plan_.has_collisions() && plan_.collides_by_column()) text += by_columns;
    else if (has_rows) text += lines;
    if (has_after)
      text +=
          "  w_parallel(batches, threads, [&](long begin, long end) {\n    for (long batch = begin; batch < "
          "end; ++batch) " +
          name_ + "_after(call, batch, 0, columns);\n  });\n";
    return text + "}\n";
  }

  // ---- After the rows

  // "const float* rows2, …": the folds along the rows.
  std::string fold_params(bool is_const) const {
    std::string text;
    for (uint32_t f = 0; f < body_.folds.size(); ++f)
      if (body_.folds[f].axis != BodyFold::Axis::Columns)
        text += std::string(is_const ? ", const " : ", ") + passes_.element_of(f) + "* __restrict rows" +
                number(f);
    return text;
  }

  std::string after_function() {
    CpuSection section(plan_.code, CpuSection::Part::AfterRows);
    section.begin_pass(0);
    for (uint32_t f = 0; f < body_.folds.size(); ++f) {
      const std::string array = "rows" + number(f), type = passes_.type_of(f);
      if (body_.folds[f].axis == BodyFold::Axis::Columns) continue;
      if (plan_.is_array(f)) section.set_fold_array(f, array);
      else if (body_.folds[f].axis == BodyFold::Axis::Rows)
        section.set_fold(f, {"w_one_" + type + "(" + array + ")", type});
      else
        section.set_fold(f, {"w_splat_" + type + "(w_lane0_" + type + "(" + passes_.function("run", f) + "(" +
                                 array + " + batch * rows, rows)))",
                             type});
    }
    section.bound("rows", body_.rows);
    section.bound("columns", body_.columns);
    for (uint32_t k = 0; k < body_.indirects.size(); ++k)
      if (plan_.indirect_level(k).after_rows) section.check(k);
    for (const BodyStore& store : body_.stores)
      if (is_after(store)) section.store(store);
    std::string text = "static void " + name_ +
                       "_after(const w_call& call, long batch, long first, long last" + fold_params(true) +
                       ") {\n" + section.head + section.line[0];
    if (!section.column.empty()) {
      const CpuPasses::Pass pass{section.column, {}, false};
      text += passes_.lambda("pass", pass) + passes_.plain_loop("pass", pass, "first", "last");
    }
    return text + "}\n";
  }

  // ---- Folds along the rows

  // Rows begin … end-1, some at a time.
  std::string folded_rows(CpuSection& section) {
    section.begin_pass(0);
    const CpuPasses::Pass made = passes_.collect(section, 0);
    std::string lines, calls;
    for (int64_t k = 0; k < plan_.rows_at_a_time(); ++k) {
      const std::string line = "line" + number(k);
      lines += "      const auto " + line + " = line(row + " + number(k) + ");\n";
      calls += "        " + line + "(c, n);\n";
    }
    const CpuPasses::Pass together{calls, {}, false};
    return filled(R"(    const auto line = [&](const long row) __attribute__((always_inline)) {
@line      return [=](long c, long n) __attribute__((always_inline)) {
@pass      };
    };
    long row = begin;
    for (; row + @rows <= end; row += @rows) {
@lines@lambda@loop    }
    for (; row < end; ++row) {
      const auto pass0 = line(row);
@each    }
)",
                  {{"line", section.line[0]},
                   {"pass", made.body},
                   {"rows", number(plan_.rows_at_a_time())},
                   {"lines", lines},
                   {"lambda", passes_.lambda("together", together)},
                   {"loop", passes_.plain_loop("together", together, "first", "last")},
                   {"each", passes_.plain_loop("pass0", made, "first", "last")}});
  }

  // NAME_block: the values of one block of rows, into arrays that begin with column `first`.
  std::string block_function() {
    CpuSection section(plan_.code, CpuSection::Part::Rows);
    const bool is_by_row = plan_.rows_at_a_time() == 1;
    const std::string row = is_by_row ? row_text(section) : folded_rows(section);
    section.bound("rows", body_.rows);
    section.bound("columns", body_.columns);
    std::string begin, end;
    for (uint32_t f : folds_along(BodyFold::Axis::Rows)) {
      const std::string identity = passes_.function("identity", f) + "()", type = passes_.type_of(f),
                        n = number(f);
      if (plan_.is_array(f)) {
        begin += "  for (long c = 0; c < last - first; c += 16) w_put_" + type + "(rows" + n + " + c, " +
                 identity + ");\n";
      } else {
        begin += "  " + type + " total" + n + " = " + identity + ";\n";
        end += "  w_put_" + type + "(rows" + n + ", total" + n + ");\n";
      }
    }
    const std::string memory = row_memory(end);
    return "static void " + name_ +
           "_block(const w_call& call, long batch, long begin, long end, long first, long last" +
           fold_params(false) + ") {\n" + section.head + memory + section.batch + begin +
           (is_by_row ? "    for (long row = begin; row < end; ++row) {\n" + row + "    }\n" : row) + end +
           "}\n";
  }

  // An argument for each fold along the rows, by what stands for its array.
  template <class F>
  std::string fold_args(F text_of) const {
    std::string text;
    for (uint32_t f = 0; f < body_.folds.size(); ++f)
      if (body_.folds[f].axis != BodyFold::Axis::Columns)
        text += ", " + (body_.folds[f].axis == BodyFold::Axis::RowValues ? "rows" + number(f) : text_of(f));
    return text;
  }
  // The same line for each fold along the rows that has an array or a single value: @f its number, @width(…) elements.
  template <class F>
  std::string for_each_fold(F line) const {
    std::string text;
    for (uint32_t f : folds_along(BodyFold::Axis::Rows)) text += line(f, number(f));
    return text;
  }
  // Elements of a fold's array over so many columns: a single value takes a vector.
  std::string width(uint32_t f, const std::string& columns) const {
    return plan_.is_array(f) ? columns : "16";
  }

  std::string block_kernel() {
    const bool shares = plan_.shares_columns();
    const std::vector<uint32_t> values = folds_along(BodyFold::Axis::RowValues);
    const auto arrays = [&](const std::string& name, const std::string& columns) {
      return for_each_fold([&](uint32_t f, const std::string& n) {
        return "      " + allocation(passes_.element_of(f), name + n, width(f, columns));
      });
    };
    const auto release = [&](const std::string& name) {
      return for_each_fold(
          [&](uint32_t, const std::string& n) { return "      w_release(" + name + n + ");\n"; });
    };
    const std::string start = for_each_fold([&](uint32_t f, const std::string& n) {
      return "        for (long c = 0; c < " + width(f, "last - first") + "; c += 16) w_put_" +
             passes_.type_of(f) + "(total" + n + " + c, " + passes_.function("identity", f) + "());\n";
    });
    const auto combine = [&](const std::string& block, auto offset) {
      return for_each_fold([&](uint32_t f, const std::string& n) {
        return "          " + passes_.function("combine", f) + "(total" + n + ", " + block + n + offset(f) +
               ", " + width(f, "(last - first + 15) / 16 * 16") + ");\n";
      });
    };
    std::string row_values, row_values_end;
    for (uint32_t f : values) {
      row_values += "  " + allocation(passes_.element_of(f), "rows" + number(f), "batches * rows");
      row_values_end += "  w_release(rows" + number(f) + ");\n";
    }
    // The combination, and what follows it: over columns where each is for itself.
    const bool splits =
        values.empty() && std::none_of(body_.stores.begin(), body_.stores.end(), [](const BodyStore& s) {
          return s.each == BodyStore::Each::Batch || (is_after(s) && s.mode == BodyStore::Mode::Add);
        });
    const auto pieces = [](const char* size, const std::string& columns, bool is_split) {
      return filled(is_split ? "const long @size = w_least(width, @columns), @sizes = @size == 0 ? 1 : "
                               "(columns + @size - 1) / @size;\n"
                             : "const long @size = width, @sizes = 1;\n",
                    {{"size", size}, {"sizes", std::string(size) + "s"}, {"columns", columns}});
    };
    const std::string kernel = R"(  const long blocks = (rows + 63) / 64, width = (columns + 15) / 16 * 16;
@row_values  @chunks  if (threads <= 1 || blocks <= 1 || batches * chunks >= 2 * threads) {
    w_parallel(batches * chunks, threads, [&](long begin, long end) {
@chunk_arrays      for (long unit = begin; unit < end; ++unit) {
        const long batch = unit / chunks, first = unit % chunks * chunk, last = w_least(columns, first + chunk);
@start        for (long b = 0; b < blocks; ++b) {
          @block(call, batch, b * 64, w_least(rows, b * 64 + 64), first, last@block_args);
@combine_block        }
        @after(call, batch, first, last@total_args);
      }
@chunk_release    });
  } else {
@part_arrays    w_parallel(batches * blocks, threads, [&](long begin, long end) {
      for (long unit = begin; unit < end; ++unit) {
        const long batch = unit / blocks, b = unit % blocks;
        @block(call, batch, b * 64, w_least(rows, b * 64 + 64), 0, columns@part_args);
      }
    });
    @pieces    w_parallel(batches * pieces, threads, [&](long begin, long end) {
@piece_arrays      for (long unit = begin; unit < end; ++unit) {
        const long batch = unit / pieces, first = unit % pieces * piece, last = w_least(columns, first + piece);
@start        for (long b = 0; b < blocks; ++b) {
@combine_part        }
        @after(call, batch, first, last@total_args);
      }
@total_release    });
@part_release  }
@row_values_end}
)";
    return block_function() + after_function() + entry_head() +
           filled(kernel, {{"row_values", row_values},
                           {"chunks", pieces("chunk", number(kChunkColumns), shares)},
                           {"chunk_arrays", arrays("total", "chunk") + arrays("block", "chunk")},
                           {"start", start},
                           {"block", name_ + "_block"},
                           {"block_args", fold_args([](uint32_t f) { return "block" + number(f); })},
                           {"combine_block", combine("block", [](uint32_t) { return std::string(); })},
                           {"after", name_ + "_after"},
                           {"total_args", fold_args([](uint32_t f) { return "total" + number(f); })},
                           {"chunk_release", release("total") + release("block")},
                           {"part_arrays", for_each_fold([&](uint32_t f, const std::string& n) {
                              return "    " + allocation(passes_.element_of(f), "part" + n,
                                                         "batches * blocks * " + width(f, "width"));
                            })},
                           {"part_args", fold_args([&](uint32_t f) {
                              return "part" + number(f) + " + unit * " + width(f, "width");
                            })},
                           {"pieces", pieces("piece", "256", splits)},
                           {"piece_arrays", arrays("total", "piece")},
                           {"combine_part", combine("part",
                                                    [&](uint32_t f) {
                                                      return " + (batch * blocks + b) * " +
                                                             width(f, "width") +
                                                             (plan_.is_array(f) ? " + first" : "");
                                                    })},
                           {"total_release", release("total")},
                           {"part_release", release("part")},
                           {"row_values_end", row_values_end}});
  }

  // ---- A single row

  std::string flat_kernel() {
    std::string functions, calls, ends, declarations = "  const long blocks = (columns + 4095) / 4096;\n";
    std::vector<uint32_t> done;
    for (const CpuPlan::Kept& kept : plan_.kept()) {
      declarations += "  " + allocation(element_of(kept), kept.array, "(columns + 15) / 16 * 16");
      ends += "  w_release(" + kept.array + ");\n";
    }
    const auto begin_section = [&](CpuSection& section, uint32_t pass) {
      for (uint32_t f : done)
        section.set_fold(f,
                         {"w_one_" + passes_.type_of(f) + "(&total" + number(f) + ")", passes_.type_of(f)});
      section.begin_pass(pass);
    };
    const auto head_of = [&](CpuSection& section, uint32_t pass) {
      section.bound("columns", body_.columns);
      std::string text = section.head + section.batch;
      for (uint32_t p = 0; p <= pass; ++p) text += section.line[p];
      return text;
    };
    // Each pass, and what is done once before it; then what follows the last.
    for (uint32_t pass = 0; pass <= num_passes(); ++pass) {
      std::string params, args;
      for (uint32_t f : done) {
        params += std::string(", ") + passes_.element_of(f) + " total" + number(f);
        args += ", total" + number(f);
      }
      for (const CpuPlan::Kept& kept : plan_.kept()) {
        params += std::string(", ") + element_of(kept) + "* " + kept.array;
        args += ", " + kept.array;
      }
      CpuSection once(plan_.code, CpuSection::Part::Rows);
      begin_section(once, pass);
      for (uint32_t k = 0; k < body_.indirects.size(); ++k) {
        const ValueLevel level = plan_.indirect_level(k);
        if (!level.uses_column && level.pass == pass) once.check(k);
      }
      for (size_t s = 0; s < body_.stores.size(); ++s)
        if (body_.stores[s].each == BodyStore::Each::Row && plan_.pass_of_store(s) == pass)
          once.store(body_.stores[s]);
      if (!once.line[pass].empty()) {
        const std::string name = name_ + "_before" + number(pass);
        functions +=
            "static void " + name + "(const w_call& call" + params + ") {\n" + head_of(once, pass) + "}\n";
        calls += "  " + name + "(call" + args + ");\n";
      }
      if (pass == num_passes()) break;
      CpuSection section(plan_.code, CpuSection::Part::Rows);
      begin_section(section, pass);
      const CpuPasses::Pass made = passes_.collect(section, pass);
      if (made.body.empty()) continue;
      const std::string name = name_ + "_pass" + number(pass);
      std::string parts, part_args, loop, stores;
      for (uint32_t f : made.folds) {
        const std::string element = passes_.element_of(f), n = number(f);
        parts += ", " + element + "* part" + n;
        part_args += ", part" + n;
        stores += "        w_store_" + passes_.type_of(f) + "(part" + n + " + block, value" + n + ", 1);\n";
        declarations += "  " + allocation(element, "part" + n, "blocks");
        ends += "  w_release(part" + n + ");\n";
      }
      if (made.folds.empty())
        loop = passes_.plain_loop("pass", made, "begin * 4096", "w_least(columns, end * 4096)");
      else
        loop =
            "      for (long block = begin; block < end; ++block) {\n        const long stop = "
            "w_least(columns, block * 4096 + 4096);\n" +
            passes_.block_loop("pass", made, "block * 4096", "stop") + stores + "      }\n";
      functions += "static void " + name + "(const w_call& call" + params + parts +
                   ", long begin, long end) {\n" + head_of(section, pass) + passes_.lambda("pass", made) +
                   loop + "}\n";
      calls += "  w_parallel(blocks, threads, [&](long begin, long end) { " + name + "(call" + args +
               part_args + ", begin, end); });\n";
      for (uint32_t f : made.folds) {
        calls += std::string("  const ") + passes_.element_of(f) + " total" + number(f) + " = w_lane0_" +
                 passes_.type_of(f) + "(" + passes_.function("serial", f) + "(part" + number(f) +
                 ", blocks));\n";
        done.push_back(f);
      }
    }
    return functions + entry_head() + declarations + calls + ends + "}\n";
  }

  const LoopBody& body_;
  CpuPlan plan_;
  CpuPasses passes_;
  std::string name_;
};

// A C identifier after the body's name.
std::string entry_name(const std::string& name) {
  std::string text = "kernel_";
  for (char c : name)
    text += (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ? c : '_';
  return text;
}

}  // namespace

bool can_be_shared_by_a_team(const LoopBody& body) {
  return body.folds.empty() && body.checks.empty() && body.indirects.empty() &&
         std::all_of(body.stores.begin(), body.stores.end(), [](const BodyStore& store) {
           return store.each == BodyStore::Each::Element && store.mode == BodyStore::Mode::Plain;
         });
}

CpuCode generate_cpu(std::span<const LoopBody* const> bodies, CpuTarget target) {
  CpuCode code;
  VectorPrinter printer(target);
  std::string kernels;
  std::set<std::string> taken;
  for (const LoopBody* given : bodies) {
    LoopBody body = is_int(given->rows, 1) ? without_row_folds(*given) : *given;
    // Symbols of the printer's own go to a copy of the tables.
    body.expressions = std::make_shared<Expressions>(*given->expressions);
    const std::string base = entry_name(given->name);
    std::string name = base;
    for (int i = 2; !taken.insert(name).second; ++i) name = base + "_" + std::to_string(i);
    code.functions.push_back(KernelWriter(body, name, printer).write());
    kernels += "\n" + code.functions.back();
    code.entries.push_back(name);
  }
  const std::string text = printer.definitions() + kernels;
  code.text = definitions_for(target, text) + text;
  return code;
}

CpuCode generate_cpu(const LoopBody& body, CpuTarget target) {
  const LoopBody* const one = &body;
  return generate_cpu(std::span(&one, 1), target);
}

}  // namespace weft::compiler
