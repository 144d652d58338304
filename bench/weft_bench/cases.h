// The cases of weft_bench: what each runs and how much it moves or computes.
// Needs weft.h; main.cpp times them.
#pragma once

#include <weft.h>

#include <functional>
#include <string>
#include <vector>

namespace weft::bench {

struct Case {
  std::string name;
  // Prepares inputs and gives the call to time.
  std::function<std::function<void()>(Device device)> make;
  int iterations;               // calls per repetition
  double bytes = 0, flops = 0;  // per call, where a rate is meaningful
  bool training = false;        // a whole step: also runs in mode "step"
};

// The cases of peers' baseline script, by the same names. Shapes that differ by device follow it too.
std::vector<Case> yardstick_cases(Device device);

}  // namespace weft::bench
