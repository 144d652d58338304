// CompileLog: what compiling one graph leaves in WEFT_LOGS=fusion,output_code,timing and in WEFT_DEBUG_DIR.
// Needs debug_directory and report. Plan keeps one while it is made; costs two clock reads where nothing is asked for.
#pragma once

#include <chrono>

#include "compiler/runtime/debug_directory.h"
#include "compiler/trace/graph.h"

namespace weft::compiler {

class Plan;

class CompileLog {
 public:
  explicit CompileLog(const Graph& traced);

  // For the pipeline: keeps each graph that a pass changed. Empty where nobody asked.
  std::function<void(const std::string& pass, const Graph&)> watch();
  // The time since the last stage ended was spent on this one.
  void end_stage(const char* name);
  // Since the beginning.
  double seconds() const;
  // Says all of it.
  void finish(const Plan& plan);

 private:
  using Clock = std::chrono::steady_clock;
  std::string function_, part_;  // "step", "graph" or "backward"
  bool keeps_passes_;
  Clock::time_point start_ = Clock::now(), last_ = start_;
  std::vector<std::pair<const char*, double>> stages_;
  std::string passes_, last_graph_;
};

// The guards of a program, under its function's name: where WEFT_DEBUG_DIR asks for them.
void write_guards(const std::string& function, const std::vector<std::string>& guards);

}  // namespace weft::compiler
