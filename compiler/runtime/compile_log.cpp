// Collecting the stages of one compile, and telling of them.
// Place: the out-of-line half of compiler/runtime/compile_log.h.
#include "compiler/runtime/compile_log.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/runtime/report_tree.h"
#include "tensor/base/log.h"

namespace weft::compiler {
namespace {

// Backward graphs are named after their function.
constexpr std::string_view kBackward = "_backward";

std::string loops_of(const Schedule& schedule) {
  std::string text;
  for (const KernelStep& kernel : schedule.kernels)
    for (const LoopBody& body : kernel.bodies) text += to_string(body) + "\n";
  return text;
}

// Kernels in order with what became of them, and every pair that stayed apart.
std::string schedule_text(const Explanation::Graph& graph) {
  return fusion_text(graph) + "\n" + (graph.refusals.empty() ? "nothing was kept apart\n" : "");
}

}  // namespace

CompileLog::CompileLog(const Graph& traced)
    : function_(traced.name), part_("graph"), keeps_passes_(has_debug_directory()) {
  if (function_.ends_with(kBackward)) {
    function_.resize(function_.size() - kBackward.size());
    part_ = kBackward.substr(1);
  }
  if (keeps_passes_) last_graph_ = to_string(traced);
}

std::function<void(const std::string& pass, const Graph&)> CompileLog::watch() {
  if (!keeps_passes_) return {};
  return [this](const std::string& pass, const Graph& graph) {
    std::string text = to_string(graph);
    if (pass == "trace") return;
    if (text == last_graph_) passes_ += "==== " + pass + ": no change\n\n";
    else passes_ += fmt::format("==== {}: {} nodes\n{}\n", pass, graph.nodes.size(), text);
    last_graph_ = std::move(text);
  };
}

void CompileLog::end_stage(const char* name) {
  const Clock::time_point now = Clock::now();
  stages_.emplace_back(name, std::chrono::duration<double>(now - last_).count());
  last_ = now;
}

double CompileLog::seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

void CompileLog::finish(const Plan& plan) {
  const bool is_asked = keeps_passes_ || log_enabled(LogChannel::Fusion) ||
                        log_enabled(LogChannel::OutputCode) || log_enabled(LogChannel::Timing);
  if (!is_asked) return;
  const std::string name = function_ + (part_ == "graph" ? "" : ", " + part_);
  std::string times;
  for (const auto& [stage, seconds] : stages_)
    times += fmt::format("{}{} {:.1f} ms", times.empty() ? "" : ", ", stage, 1e3 * seconds);
  times += fmt::format("; in all {:.1f} ms", 1e3 * plan.compile_seconds());
  if (log_enabled(LogChannel::Timing)) log_line(LogChannel::Timing, "compiled " + name + ": " + times);

  const Explanation::Graph graph = explain_graph(plan, name);
  if (log_enabled(LogChannel::Fusion) && plan.launch_plan() != nullptr)
    log_line(LogChannel::Fusion, "fusion of " + name + ": " + fusion_text(graph));
  if (log_enabled(LogChannel::OutputCode))
    for (const Explanation::Kernel& kernel : graph.kernels)
      if (!kernel.code.empty())
        log_line(LogChannel::OutputCode, "code of " + kernel.name + " of " + name + ":\n" + kernel.code);

  if (!keeps_passes_) return;
  std::vector<DebugFile> files = {{"summary.txt", schedule_text(graph) + times + "\n"},
                                  {"traced.txt", to_string(plan.traced())},
                                  {"passes.txt", passes_ + "==== in the end\n" + to_string(plan.graph())}};
  if (const LaunchPlan* launch = plan.launch_plan()) {
    files.push_back({"loops.txt", loops_of(launch->schedule())});
    std::vector<const std::string*> sources;
    for (const KernelProgram& program : launch->programs()) {
      const std::string* source = program.source.get();
      if (source->empty() || std::find(sources.begin(), sources.end(), source) != sources.end()) continue;
      sources.push_back(source);
      files.push_back({"kernels_" + std::to_string(sources.size()) + ".cpp", *source});
    }
    files.push_back({"launch_plan.txt", to_string(*launch)});
  }
  write_debug_files(function_, part_, fmt::format("{} nodes, {} kernels", graph.nodes, graph.kernels.size()),
                    files);
}

void write_guards(const std::string& function, const std::vector<std::string>& guards) {
  std::string text;
  for (const std::string& guard : guards) text += guard + "\n";
  write_debug_files(function, "guards", fmt::format("{} guards", guards.size()), {{"guards.txt", text}});
}

}  // namespace weft::compiler
