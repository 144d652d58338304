// Statements and loops of one pass.
// Place: the out-of-line half of cpu_pass.h.
#include "compiler/codegen/cpu_pass.h"

#include <algorithm>

#include "compiler/codegen/code_text.h"
#include "tensor/base/error.h"

namespace weft::compiler {
namespace {

// A pass whose body has more primitives than this is unrolled once, not four times: its own instructions keep the core busy.
constexpr double kHeavyCost = 24;
// How far ahead memory is asked for, in bytes (bias_gelu_residual 4096 x 4096, one thread, against a copy of the same bytes: 1.23
// without, 1.09 with 512 bytes, 1.00 with 2 KB or 16 KB).
constexpr int64_t kBytesAhead = 2048;
// Rows of more elements do not stay in L2 until they are read again.
constexpr int64_t kLongRow = 65536;
constexpr int64_t kLineBytes = 64;

bool is_name_char(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; }

}  // namespace

std::string filled(std::string_view text,
                   std::initializer_list<std::pair<std::string_view, std::string>> values) {
  std::string made;
  for (size_t at = 0; at < text.size();) {
    if (text[at] != '@') {
      made += text[at++];
      continue;
    }
    size_t end = at + 1;
    while (end < text.size() && is_name_char(text[end])) ++end;
    const std::string_view word = text.substr(at + 1, end - at - 1);
    const auto* const found =
        std::find_if(values.begin(), values.end(), [&](const auto& value) { return value.first == word; });
    WEFT_ASSERT(found != values.end(), "@", word, " has no value");
    made += found->second;
    at = end;
  }
  return made;
}

std::string CpuPasses::type_of(uint32_t fold) const {
  return plan_.code.printer.type_of(plan_.code.node(body_.folds[fold].value).dtype);
}
const char* CpuPasses::element_of(uint32_t fold) const {
  return element_type(plan_.code.node(body_.folds[fold].value).dtype);
}
std::string CpuPasses::function(const char* what, uint32_t fold) const {
  return "w_" + std::string(what) + "_" + name_of(body_.folds[fold].fold) + "_" + type_of(fold);
}
std::string CpuPasses::folded(uint32_t fold, const std::string& a, const std::string& b) const {
  return fold_text(name_of(body_.folds[fold].fold), type_of(fold), a, b);
}

CpuPasses::Pass CpuPasses::collect(CpuSection& section, uint32_t pass) {
  Pass made;
  made.is_heavy = plan_.cost_of_pass(pass) > kHeavyCost;
  for (const CpuPlan::Kept& kept : plan_.kept())
    if (kept.pass < pass) section.use_kept(kept.value, kept.array);
  for (uint32_t k = 0; k < body_.indirects.size(); ++k)
    if (plan_.is_checked_in(k, pass)) section.check(k);
  for (const CpuPlan::Kept& kept : plan_.kept())
    if (kept.pass == pass) section.keep(kept.value, kept.array);
  for (uint32_t f = 0; f < body_.folds.size(); ++f) {
    const ValueLevel& level = plan_.code.levels.folds[f];
    if (!level.uses_column || level.pass != pass) continue;
    const CppValue x = section.value(body_.folds[f].value);
    if (plan_.is_array(f)) {
      const std::string at = "rows" + number(f) + " + (c - first)";
      section.add("w_put_" + x.type + "(" + at + ", " +
                  folded(f, "w_whole_" + x.type + "(" + at + ")", x.text) + ");");
    } else {
      made.folds.push_back(f);
      const std::string total = "a" + number(f);
      section.add(total + " = " + folded(f, total, function("keep", f) + "(" + x.text + ", n)") + ";");
    }
  }
  for (size_t s = 0; s < body_.stores.size(); ++s)
    if (body_.stores[s].each == BodyStore::Each::Element && plan_.pass_of_store(s) == pass)
      section.store(body_.stores[s]);
  made.body = section.column + prefetches(section, pass);
  return made;
}

// Note [Asking for memory ahead]
// Arithmetic and memory overlap only if lines are asked for long before they are used, and a pass over a row that is in
// cache leaves memory idle. So the heaviest pass asks for the next row of what the passes read, a single pass for what
// lies 2 KB ahead; and whoever stores asks for the lines that it will own 2 KB ahead. (softmax 4096 x 4096, one thread, against
// a copy: 1.80 without, 1.16 with; asking for both in one pass 1.39. Streaming stores gain 6 % more there and nothing
// for a norm; they are not used, as the next kernel reads what was stored.)
std::string CpuPasses::prefetches(CpuSection& section, uint32_t pass) {
  std::string text;
  for (const CpuSection::Stream& stream : section.streams()) {
    if (!stream.is_written && pass != plan_.heaviest_pass()) continue;
    const auto bytes = static_cast<int64_t>(stream.element_bytes);
    const std::string ahead = ahead_of(section, stream);
    if (ahead.empty()) continue;
    for (int64_t line = 0; line < std::max<int64_t>(1, bytes * kCpuLanes / kLineBytes); ++line)
      text += "        __builtin_prefetch(" + stream.address + " + " + ahead +
              (line == 0 ? "" : " + " + number(line * kLineBytes / bytes)) +
              (stream.is_written ? ", 1" : "") + ");\n";
  }
  return text;
}

// How many elements ahead; nothing for what stays in cache.
std::string CpuPasses::ahead_of(CpuSection& section, const CpuSection::Stream& stream) {
  const std::string near = number(kBytesAhead / static_cast<int64_t>(stream.element_bytes));
  if (stream.is_written || plan_.has_one_line()) return near;
  const std::optional<Sym> step = plan_.line_stride(stream.base);
  if (step && is_int(*step, 0)) return {};  // the same for every row
  if (!step || (plan_.num_passes() == 1 && !plan_.has_row_folds())) return near;
  SymTable& table = body_.expressions->syms;
  const std::string next =
      section.index_text(table.binary(SymOp::Mul, *step, Sym::from_int(plan_.rows_at_a_time())));
  if (plan_.known_columns() >= 0) return plan_.known_columns() < kLongRow ? next : near;
  section.bound("columns", body_.columns);
  return "(columns < " + number(kLongRow) + " ? " + next + " : " + near + ")";
}

std::string CpuPasses::lambda(const std::string& name, const Pass& pass) const {
  std::string text = "      const auto " + name + " = [&](long c, long n";
  for (uint32_t f : pass.folds) text += ", " + type_of(f) + "& a" + number(f);
  return text + ") __attribute__((always_inline)) {\n" + pass.body + "      };\n";
}

std::string CpuPasses::call(const std::string& name, const Pass& pass, const std::string& c,
                            const std::string& n, const std::string& which) const {
  std::string text = name + "(" + c + ", " + n;
  for (uint32_t f : pass.folds) text += ", s" + number(f) + which;
  return text + ");";
}

std::string CpuPasses::plain_loop(const std::string& name, const Pass& pass, const std::string& first,
                                  const std::string& last) const {
  if (plan_.columns_are_multiple_of(kCpuLanes))
    return filled("      for (long c = @first; c < @last; c += 16) @call\n",
                  {{"first", first}, {"last", last}, {"call", call(name, pass, "c", "16", "")}});
  return filled(R"(      {
        long c = @first;
        for (; c + 16 <= @last; c += 16) @call
        if (c < @last) @rest
      }
)",
                {{"first", first},
                 {"last", last},
                 {"call", call(name, pass, "c", "16", "")},
                 {"rest", call(name, pass, "c", last + " - c", "")}});
}

// s<f>[4], or s<f>_0 … s<f>_3 where a compiler shall see that they are registers.
std::string CpuPasses::accumulators(const Pass& pass, bool is_array) const {
  std::string text;
  for (uint32_t f : pass.folds)
    text += filled(is_array ? "        @type s@f[4] = {@id, @id, @id, @id};\n"
                            : "        @type s@f_0 = @id, s@f_1 = @id, s@f_2 = @id, s@f_3 = @id;\n",
                   {{"type", type_of(f)},
                    {"f", number(f)},
                    {"f_0", number(f) + "_0"},
                    {"f_1", number(f) + "_1"},
                    {"f_2", number(f) + "_2"},
                    {"f_3", number(f) + "_3"},
                    {"id", function("identity", f) + "()"}});
  return text;
}

std::string CpuPasses::block_loop(const std::string& name, const Pass& pass, const std::string& begin,
                                  const std::string& end) const {
  const bool is_short = plan_.known_columns() >= 0 && plan_.known_columns() < cpu::kInnerSlots;
  const bool unrolls = !pass.is_heavy && !is_short;
  bool is_array = !unrolls;
  std::string text = "        long c = " + begin + ";\n" + accumulators(pass, is_array);
  if (unrolls) {
    text += "        for (; c + 64 <= " + end + "; c += 64) {\n";
    for (int k = 0; k < 4; ++k)
      text += "          " + call(name, pass, k == 0 ? "c" : "c + " + number(16 * k), "16", "_" + number(k)) +
              "\n";
    text += "        }\n";
    if (!plan_.columns_are_multiple_of(cpu::kInnerSlots)) {
      is_array = true;
      for (uint32_t f : pass.folds)
        text += filled("        @type s@f[4] = {s@f_0, s@f_1, s@f_2, s@f_3};\n", {{"type", type_of(f)},
                                                                                  {"f", number(f)},
                                                                                  {"f_0", number(f) + "_0"},
                                                                                  {"f_1", number(f) + "_1"},
                                                                                  {"f_2", number(f) + "_2"},
                                                                                  {"f_3", number(f) + "_3"}});
      text += "        for (long k = 0; c < " + end + "; c += 16, ++k) " +
              call(name, pass, "c", "w_least(16, " + end + " - c)", "[k]") + "\n";
    }
  } else {
    const std::string which = "[c >> 4 & 3]";
    text += "        for (; c + 16 <= " + end + "; c += 16) " + call(name, pass, "c", "16", which) + "\n";
    if (!plan_.columns_are_multiple_of(kCpuLanes))
      text += "        if (c < " + end + ") " + call(name, pass, "c", end + " - c", which) + "\n";
  }
  for (uint32_t f : pass.folds) {
    const auto pair = [&](int k) {
      const auto s = [&](int i) {
        return "s" + number(f) + (is_array ? "[" + number(i) + "]" : "_" + number(i));
      };
      return "(" + folded(f, s(k), s(k + 1)) + ")";
    };
    text += "        const " + type_of(f) + " value" + number(f) + " = " + function("reduce", f) + "(" +
            folded(f, pair(0), pair(2)) + ");\n";
  }
  return text;
}

std::string CpuPasses::row_pass(const std::string& name, const Pass& pass) const {
  if (pass.folds.empty()) return lambda(name, pass) + plain_loop(name, pass, "first", "last");
  std::string totals, adds, results;
  for (uint32_t f : pass.folds) {
    const std::string type = type_of(f), total = "total" + number(f);
    totals += "      " + type + " " + total + " = " + function("identity", f) + "();\n";
    adds += "        " + total + " = " + folded(f, total, "value" + number(f)) + ";\n";
    results += "      const " + type + " fold" + number(f) + " = w_splat_" + type + "(w_lane0_" + type + "(" +
               total + "));\n";
  }
  return lambda(name, pass) + totals +
         "      for (long block = 0; block < columns; block += 4096) {\n"
         "        const long end = w_least(columns, block + 4096);\n" +
         block_loop(name, pass, "block", "end") + adds + "      }\n" + results;
}

}  // namespace weft::compiler
