// CheckRun: runs checks by name and reports them as the contracts of docs/architecture.md say.
// Needs nothing of Weft; weft_golden and weft_training are loops over it.
#pragma once

#include <functional>
#include <string>

namespace weft::tests {

// A line `FAIL name: what` for each check that fails; last `N passed, M failed`. A crash still names its check and leaves
// the closing line. One at a time in a process.
class CheckRun {
 public:
  CheckRun();

  // The check answers what is wrong, or nothing; an exception's text counts as that.
  void run(const std::string& name, const std::function<std::string()>& check);
  // Prints the closing line. The exit status: 0 if something passed and nothing failed.
  int finish() const;
  // No check was run.
  bool is_empty() const;
};

}  // namespace weft::tests
