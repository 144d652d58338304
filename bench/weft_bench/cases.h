// The cases of weft_bench: what each runs in which mode, and how much it moves or computes.
// Needs weft.h; main.cpp times them.
#pragma once

#include <weft.h>

#include <functional>
#include <string>
#include <vector>

namespace weft::bench {

// How a case is run: "eager" as it is written, "step" with the whole training step compiled, and otherwise with its function
// compiled by a backend.
struct Mode {
  std::string name;
  bool compiles_function() const { return name != "eager" && !compiles_step(); }
  bool compiles_step() const { return name == "step" || name == "step-graph"; }
  CompileOptions options() const;
};
// Error where there is no such mode, or not yet.
Mode mode_of(const std::string& name);

struct Case {
  std::string name;
  // Prepares inputs and gives the call to time.
  std::function<std::function<void()>(Device device, const Mode& mode)> make;
  int iterations;  // calls per repetition
  double bytes = 0,
         flops = 0;  // per call, where a rate is meaningful; bytes that must be read or written, each once
  bool training = false;  // a whole step: also runs in mode "step"
  // On a GPU: the time that it takes there, each call with cold caches. Other cases are loops of calls with one wait.
  bool is_device_time = false;
};

// The cases of peers' baseline script, by the same names. Shapes that differ by device follow it too.
std::vector<Case> yardstick_cases(Device device);
// Kernels whose bound is memory, at 4096×4096 float32: against a copy of the same bytes.
std::vector<Case> bandwidth_cases();

}  // namespace weft::bench
