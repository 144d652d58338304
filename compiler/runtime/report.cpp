// Reports: the counters of the process, the screen of explain(), and log lines.
#include "compiler/runtime/report.h"

#include <algorithm>

#include "tensor/base/log.h"

namespace weft {
namespace {

// A guard list longer than this hides what matters; WEFT_LOGS=guards prints it whole.
constexpr size_t kMostGuards = 12;
// Likewise programs, and nodes of a graph.
constexpr size_t kMostEntries = 3, kMostNodes = 16;

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

void add_entry(std::string& out, const Explanation::Entry& entry, size_t number) {
  out += detail::concat("program ", number, ": ", count_of(entry.hits, "hit"),
                        entry.is_dynamic ? ", dynamic" : "", "\n");
  for (const Explanation::Graph& graph : entry.graphs) {
    out += "  graph " + graph.name + ": " + count_of(graph.nodes, "node") + "\n";
    if (graph.nodes <= kMostNodes) add_lines(out, graph.text, "    ");
    for (const Explanation::Kernel& kernel : graph.kernels) {
      out += "    " + kernel.name;
      for (size_t i = 0; i < kernel.origins.size(); ++i) out += (i == 0 ? ": " : ", ") + kernel.origins[i];
      out += "\n";
    }
    if (graph.extern_calls > 0) out += "    " + count_of(graph.extern_calls, "library or eager call") + "\n";
    for (const std::string& refusal : graph.refusals) out += "    " + refusal + "\n";
  }
  if (!entry.activations.empty()) {
    uint64_t bytes = 0;
    for (const Explanation::Activation& each : entry.activations) bytes += each.bytes;
    out += detail::concat("  saved for backward: ", bytes, " bytes\n");
    for (size_t i = 0; i < std::min(entry.activations.size(), kMostNodes); ++i)
      out += detail::concat("    ", entry.activations[i].text, ": ", entry.activations[i].bytes, " bytes\n");
    if (entry.activations.size() > kMostNodes)
      out += detail::concat("    and ", entry.activations.size() - kMostNodes, " more\n");
  }
  for (const Explanation::Break& stop : entry.breaks)
    out += "  break at " + stop.where + (stop.op.empty() ? "" : " by " + stop.op) + ": " + stop.reason + "\n";
  for (size_t i = 0; i < std::min(entry.guards.size(), kMostGuards); ++i)
    out += "  guard: " + entry.guards[i] + "\n";
  if (entry.guards.size() > kMostGuards)
    out += detail::concat("  and ", entry.guards.size() - kMostGuards,
                          " more guards (WEFT_LOGS=guards lists them)\n");
}

}  // namespace

std::string Explanation::to_string() const {
  size_t graphs = 0, nodes = 0;
  for (const Entry& entry : entries) {
    graphs += entry.graphs.size();
    for (const Graph& graph : entry.graphs) nodes += graph.nodes;
  }
  std::string out =
      detail::concat(function, ", backend ", backend, ": ", count_of(entries.size(), "program"), ", ",
                     count_of(graphs, "graph"), ", ", count_of(nodes, "node"), "\n", stats_text(stats), "\n");
  for (size_t i = 0; i < std::min(entries.size(), kMostEntries); ++i) add_entry(out, entries[i], i + 1);
  if (entries.size() > kMostEntries)
    out += detail::concat("and ", entries.size() - kMostEntries, " more, used longer ago\n");
  for (const std::string& reason : recompiles) out += "recompiled: " + reason + "\n";
  for (const std::string& note : notes) out += "note: " + note + "\n";
  return out;
}

std::ostream& operator<<(std::ostream& out, const Explanation& explanation) {
  return out << explanation.to_string();
}

namespace compiler {

std::string name_of_function(const std::string& name, SourceLocation where) {
  const std::string place = to_string(where);
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
