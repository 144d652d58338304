// Reports: the counters of the process, the screen of explain(), and log lines.
#include "compiler/runtime/report.h"

#include <algorithm>
#include <cstdio>

#include "tensor/base/log.h"

namespace weft {
namespace {

// A guard list longer than this hides what matters; WEFT_LOGS=guards prints it whole.
constexpr size_t kMostGuards = 12;
// Likewise programs, and nodes of a graph.
constexpr size_t kMostEntries = 3, kMostNodes = 16, kMostLines = 4, kMostRefusals = 4;

std::string count_of(uint64_t count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}
std::string ordinal(size_t n) {
  const bool is_teen = n / 10 % 10 == 1;
  const char* end = is_teen || n % 10 > 3 || n % 10 == 0 ? "th"
                    : n % 10 == 1                        ? "st"
                    : n % 10 == 2                        ? "nd"
                                                         : "rd";
  return std::to_string(n) + end;
}

void add_lines(std::string& out, const std::string& text, const std::string& indent) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    out += indent + text.substr(at, end - at) + "\n";
    at = end + 1;
  }
}

// Those that say something; hits always do.
std::string stats_text(const CompileStats& stats) {
  std::string text = count_of(stats.hits, "hit");
  const auto add = [&](uint64_t count, const char* what) {
    if (count > 0) text += ", " + count_of(count, what);
  };
  text += ", " + std::to_string(stats.misses) + (stats.misses == 1 ? " miss" : " misses");
  add(stats.traces, "trace");
  add(stats.compilations, "compiled graph");
  add(stats.kernels, "kernel");
  add(stats.extern_calls, "extern call");
  add(stats.audits, "audit");
  add(stats.refreshes, "check after a change of state");
  add(stats.followed, "followed call");
  add(stats.breaks, "break");
  add(stats.evictions, "eviction");
  add(stats.eager_calls, "eager call");
  return text;
}

// Ops one after another and one line each, if there are too many lines only the first.
void add_listing(std::string& out, const std::vector<std::string>& lines, size_t most,
                 const std::string& indent, const char* rest) {
  for (size_t i = 0; i < std::min(lines.size(), most); ++i) out += indent + lines[i] + "\n";
  if (lines.size() > most)
    out += indent + weft::detail::concat("and ", lines.size() - most, " more", rest, "\n");
}

std::string seconds_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, seconds < 1 ? "%.0f ms" : "%.1f s", seconds < 1 ? 1e3 * seconds : seconds);
  return text;
}

// "8 nodes -> 1 kernel; 264 KB moved, 1.2 MB unfused; compiled in 84 ms"
std::string summary_of(const Explanation::Graph& graph) {
  std::string text = count_of(graph.nodes, "node");
  if (!graph.kernels.empty() || graph.extern_calls > 0) {
    text += " -> " + count_of(graph.kernels.size(), "kernel");
    if (graph.extern_calls > 0) text += ", " + count_of(graph.extern_calls, "library or eager call");
    text += "; " + compiler::bytes_text(graph.bytes.total()) + " moved, " +
            compiler::bytes_text(graph.unfused.total()) + " unfused";
  }
  if (graph.compile_seconds > 0) text += "; compiled in " + seconds_text(graph.compile_seconds);
  return text;
}

// What runs it; lists are cut so that a screen takes it, or whole.
void add_fusion(std::string& out, const Explanation::Graph& graph, const std::string& indent, bool is_whole) {
  const size_t most_lines = is_whole ? SIZE_MAX : kMostLines;
  for (const Explanation::Kernel& kernel : graph.kernels) {
    out += indent + kernel.name + ": reads " + compiler::bytes_text(kernel.bytes.read) + ", writes " +
           compiler::bytes_text(kernel.bytes.written) + "\n";
    add_listing(out, compiler::lines_of_origins(kernel.origins), most_lines, indent + "  ", " lines");
  }
  if (!graph.library_calls.empty()) {
    out += indent + "library and eager calls:\n";
    add_listing(out, compiler::lines_of_origins(graph.library_calls), most_lines, indent + "  ", " lines");
  }
  if (graph.stored_writes > 0)
    out += indent + "stored over inputs: " + count_of(graph.stored_writes, "tensor") + "\n";
  if (graph.copied_writes > 0)
    out += indent + "copied into inputs after the kernels: " + count_of(graph.copied_writes, "tensor") +
           ", " + compiler::bytes_text(graph.copied_bytes) + " moved\n";
  if (!graph.replay.empty()) out += indent + graph.replay + "\n";
  if (!graph.refusals.empty()) {
    out += indent + "not fused:\n";
    add_listing(out, graph.refusals, is_whole ? SIZE_MAX : kMostRefusals, indent + "  ",
                " (WEFT_LOGS=fusion lists them)");
  }
}

void add_graph(std::string& out, const Explanation::Graph& graph) {
  out += "  graph " + graph.name + ": " + summary_of(graph) + "\n";
  if (graph.nodes <= kMostNodes) add_lines(out, graph.text, "    ");
  add_fusion(out, graph, "    ", false);
}

void add_entry(std::string& out, const Explanation::Entry& entry, size_t number) {
  out += weft::detail::concat("program ", number, ": ", count_of(entry.hits, "hit"),
                              entry.is_dynamic ? ", dynamic" : "", "\n");
  for (const Explanation::Graph& graph : entry.graphs) add_graph(out, graph);
  if (!entry.activations.empty()) {
    uint64_t bytes = 0;
    std::vector<std::string> lines;
    for (const Explanation::Activation& each : entry.activations) {
      bytes += each.bytes;
      lines.push_back(each.text + ": " + compiler::bytes_text(each.bytes));
    }
    out += "  saved for backward: " + count_of(lines.size(), "tensor") + ", " + compiler::bytes_text(bytes) +
           "\n";
    add_listing(out, lines, kMostLines, "    ", "");
  }
  for (const Explanation::Break& stop : entry.breaks)
    out += "  break at " + stop.where + (stop.op.empty() ? "" : " by " + stop.op) + ": " + stop.reason + "\n";
  for (size_t i = 0; i < std::min(entry.guards.size(), kMostGuards); ++i)
    out += "  guard: " + entry.guards[i] + "\n";
  if (entry.guards.size() > kMostGuards)
    out += weft::detail::concat("  and ", entry.guards.size() - kMostGuards,
                                " more guards (WEFT_LOGS=guards lists them)\n");
}

}  // namespace

std::string Explanation::to_string() const {
  size_t graphs = 0, nodes = 0, kernels = 0;
  for (const Entry& entry : entries) {
    graphs += entry.graphs.size();
    for (const Graph& graph : entry.graphs) {
      nodes += graph.nodes;
      kernels += graph.kernels.size();
    }
  }
  std::string out = weft::detail::concat(
      function, ", backend ", backend, ": ", count_of(entries.size(), "program"), ", ",
      count_of(graphs, "graph"), ", ", count_of(nodes, "node"),
      kernels > 0 ? ", " + count_of(kernels, "kernel") : "", "\n", stats_text(stats), "\n");
  for (size_t i = 0; i < std::min(entries.size(), kMostEntries); ++i) add_entry(out, entries[i], i + 1);
  if (entries.size() > kMostEntries)
    out += weft::detail::concat("and ", entries.size() - kMostEntries, " more, used longer ago\n");
  for (const std::string& reason : recompiles) out += "recompiled: " + reason + "\n";
  for (const std::string& note : notes) out += "note: " + note + "\n";
  return out;
}

std::string Explanation::code() const {
  std::string out;
  for (const Entry& entry : entries)
    for (const Graph& graph : entry.graphs)
      for (const Kernel& kernel : graph.kernels) out += kernel.code + "\n";
  return out;
}

std::ostream& operator<<(std::ostream& out, const Explanation& explanation) {
  return out << explanation.to_string();
}

namespace compiler {

std::string bytes_text(int64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 999.5 && unit < 4; ++unit) value /= 1000;
  char text[32];
  std::snprintf(text, sizeof text,
                unit == 0 || value >= 99.95 ? "%.0f %s"
                : value >= 9.995            ? "%.1f %s"
                                            : "%.2f %s",
                value, kUnits[unit]);
  return text;
}

std::vector<std::string> lines_of_origins(const std::vector<std::string>& origins) {
  struct Line {
    std::string place;
    std::vector<std::pair<std::string, size_t>> ops;
  };
  std::vector<Line> lines;
  for (const std::string& origin : origins) {
    const size_t space = origin.find(' ');
    const std::string place = space == std::string::npos ? "" : origin.substr(0, space);
    const std::string op = space == std::string::npos ? origin : origin.substr(space + 1);
    auto line =
        std::find_if(lines.begin(), lines.end(), [&](const Line& each) { return each.place == place; });
    if (line == lines.end()) line = lines.insert(line, {place, {}});
    auto known =
        std::find_if(line->ops.begin(), line->ops.end(), [&](const auto& each) { return each.first == op; });
    if (known == line->ops.end()) line->ops.emplace_back(op, 1);
    else ++known->second;
  }
  std::vector<std::string> result;
  for (const Line& line : lines) {
    std::string text = line.place;
    for (size_t i = 0; i < line.ops.size(); ++i) {
      text += (i > 0 ? ", " : text.empty() ? "" : " ") + line.ops[i].first;
      if (line.ops[i].second > 1) text += " x" + std::to_string(line.ops[i].second);
    }
    result.push_back(std::move(text));
  }
  return result;
}

std::string name_of_function(const std::string& name, SourceLocation where) {
  const std::string place = weft::to_string(where);
  if (name.empty()) return place.empty() ? "a compiled function" : "the function compiled at " + place;
  return place.empty() ? name : name + " (" + place + ")";
}

void log_recompile(const std::string& function, size_t version, const std::string& failure,
                   const std::string& consequence, const std::string& cost) {
  if (!log_enabled(LogChannel::Recompiles)) return;
  log_line(LogChannel::Recompiles, "recompiled " + function + ", " + ordinal(version) + " version: " +
                                       failure + (consequence.empty() ? "" : " -> " + consequence) + "." +
                                       (cost.empty() ? "" : " " + cost + "."));
}
std::string fusion_text(const Explanation::Graph& graph) {
  std::string out = summary_of(graph) + "\n";
  add_fusion(out, graph, "  ", true);
  if (out.ends_with("\n")) out.pop_back();
  return out;
}
void log_graph(const std::string& function, const Explanation::Graph& graph) {
  if (log_enabled(LogChannel::Graph))
    log_line(LogChannel::Graph, "graph " + graph.name + " of " + function + ":\n" + graph.text);
}
void log_guards(const std::string& function, const std::vector<std::string>& guards) {
  if (!log_enabled(LogChannel::Guards)) return;
  std::string text = "guards of " + function + ":";
  for (const std::string& guard : guards) text += "\n  " + guard;
  log_line(LogChannel::Guards, text);
}
void log_break(const std::string& function, const Explanation::Break& stop) {
  if (log_enabled(LogChannel::Breaks))
    log_line(LogChannel::Breaks, function + " breaks at " + stop.where +
                                     (stop.op.empty() ? "" : " by " + stop.op) + ": " + stop.reason);
}

}  // namespace compiler
}  // namespace weft
