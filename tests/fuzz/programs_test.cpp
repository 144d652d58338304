// Random programs give the same eagerly, with loops interpreted and with loops compiled: values to the bit, strides, shared
// memory, writes, versions, gradients and errors.
// WEFT_FUZZ_PROGRAMS says how many are run, WEFT_FUZZ_SEED which is the first.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <iostream>

#include "compiler/runtime/kernel_batch.h"
#include "tests/compiler/child_of_test.h"
#include "tests/fuzz/generate_program.h"
#include "tests/fuzz/shrink_program.h"

namespace weft::tests {
namespace {

using compiler::KernelBatch;

uint32_t number_of(const char* variable, uint32_t otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? static_cast<uint32_t>(std::atoi(text)) : otherwise;
}

CompileOptions options_for(const Program& program, const char* backend) {
  CompileOptions options{.backend = backend, .audit = false};
  if (program.dynamic) options.dynamic = true;
  return options;
}

// What eager code does; nothing for a program that cannot be compared.
std::optional<std::vector<Outcome>> run_eagerly(const Program& program) {
  const ProgramFunction function = function_of(program, true);
  std::vector<Outcome> outcomes;
  try {
    for (size_t call = 0; call < program.batches.size(); ++call)
      outcomes.push_back(call_program(program, function, call));
  } catch (const NotComparable&) {
    return {};
  }
  return outcomes;
}

// How compiled calls differ from eager ones; empty if they do not.
std::string difference_of_calls(const Program& program, const ProgramFunction& compiled,
                                const std::vector<Outcome>& want) {
  for (size_t call = 0; call < want.size(); ++call) {
    if (want[call].is_defect) return "eager: " + want[call].error;
    const Outcome got = call_program(program, compiled, call);
    if (std::string text = difference_of(program, got, want[call]); !text.empty())
      return "call " + std::to_string(call + 1) + ": " + text;
  }
  return {};
}

// A program on its own.
std::string failure_of(const Program& program, const char* backend) {
  const auto want = run_eagerly(program);
  if (!want) return {};
  const ProgramFunction compiled = compile(function_of(program), options_for(program, backend));
  for (const char* round : {"", "second round, "}) {
    if (std::string text = difference_of_calls(program, compiled, *want); !text.empty()) return round + text;
  }
  return {};
}

// The same in a process of its own, so that a crash is a failure like others.
std::string failure_in_child(const Program& program, const char* backend) {
  int ends[2];
  if (::pipe(ends) != 0) return "no pipe";
  const pid_t child = weft::testing::start_child([&] {
    constexpr unsigned kMostSeconds = 60;
    ::alarm(kMostSeconds);
    const std::string text = failure_of(program, backend);
    return ::write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
  });
  ::close(ends[1]);
  std::string text;
  char part[4096];
  for (ssize_t n; (n = ::read(ends[0], part, sizeof(part))) > 0;) text.append(part, static_cast<size_t>(n));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) return "ended by signal " + std::to_string(WTERMSIG(status));
  return WEXITSTATUS(status) == 0 || !text.empty() ? text : "ended by an exception";
}

void report(uint32_t seed, const std::string& how) {
  Program program = generate_program(seed);
  for (const char* backend : {"eager", "aot_eager", "interpret", "weft"}) {
    std::string text = failure_in_child(program, backend);
    if (text.empty()) continue;
    program = shrink_program(std::move(program),
                             [&](const Program& smaller) { return failure_in_child(smaller, backend); });
    ADD_FAILURE() << "backend " << backend << ", " << failure_in_child(program, backend) << '\n'
                  << to_string(program);
    return;
  }
  if (how.empty()) {
    std::cout << to_string(program);
    return;
  }
  ADD_FAILURE() << how << ", but not by itself\n" << to_string(program);
}

struct Case {
  Program program;
  std::vector<Outcome> want;
  ProgramFunction compiled;
};

TEST(Programs, GiveEagerResultsInterpretedAndCompiled) {
  const uint32_t count = number_of("WEFT_FUZZ_PROGRAMS", 200), first = number_of("WEFT_FUZZ_SEED", 0);
  constexpr uint32_t kTogether = 200;  // programs whose kernels are compiled at once
  if (count == 1) return report(first, "");
  constexpr size_t kMostReports = 10;
  size_t num_steps = 0, num_apart = 0, num_kernels = 0, num_distinct = 0, num_errors = 0;
  std::vector<std::pair<uint32_t, std::string>> failures;
  const bool is_verbose = std::getenv("WEFT_FUZZ_VERBOSE") != nullptr;
  using Clock = std::chrono::steady_clock;
  double seconds[4] = {};
  auto last = Clock::now();
  const auto lap = [&](int i) {
    const auto now = Clock::now();
    seconds[i] += std::chrono::duration<double>(now - last).count();
    last = now;
  };
  for (uint32_t begin = 0; begin < count; begin += kTogether) {
    KernelBatch batch;
    std::vector<Case> cases;
    for (uint32_t seed = first + begin; seed < first + std::min(begin + kTogether, count); ++seed) {
      if (is_verbose) std::cout << "seed " << seed << std::endl;
      Program program = generate_program(seed);
      auto want = run_eagerly(program);
      lap(0);
      if (!want) {
        ++num_apart;
        continue;
      }
      num_steps += program.steps.size();
      num_errors += !want->back().error.empty();
      ProgramFunction compiled = compile(function_of(program), options_for(program, "weft"));
      const std::string how = difference_of_calls(program, compiled, *want);
      if (how.empty()) cases.push_back({std::move(program), std::move(*want), std::move(compiled)});
      else failures.emplace_back(seed, "interpreted, " + how);
      lap(1);
    }
    num_kernels += batch.num_waiting();
    batch.compile();
    num_distinct += batch.num_distinct();
    lap(2);
    for (const Case& each : cases) {
      if (is_verbose) std::cout << "seed " << each.program.seed << " in code" << std::endl;
      const std::string how = difference_of_calls(each.program, each.compiled, each.want);
      if (!how.empty()) failures.emplace_back(each.program.seed, "compiled, " + how);
    }
    EXPECT_EQ(batch.num_waiting(), 0u) << "calls that were made before compiled anew";
    lap(3);
  }
  std::cout << count - num_apart << " programs of " << num_steps << " steps, " << num_errors
            << " with an error; " << num_apart << " more show bits of NaN; " << num_kernels << " kernels, "
            << num_distinct << " different ones; seconds: eager " << seconds[0] << ", interpreted "
            << seconds[1] << ", compiling " << seconds[2] << ", in code " << seconds[3] << '\n';
  for (const auto& [seed, how] : failures) std::cout << "seed " << seed << ": " << how << '\n';
  for (size_t i = 0; i < std::min(failures.size(), kMostReports); ++i)
    report(failures[i].first, failures[i].second);
  EXPECT_EQ(failures.size(), 0u);
}

}  // namespace
}  // namespace weft::tests
