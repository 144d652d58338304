// weft_golden: runs the stored reference programs and compares every result and gradient with the stored values.
// Place: a tool of the build tree; its command line and its output are fixed in docs/architecture.md (contracts).
#include <algorithm>
#include <iostream>

#include "compiler/runtime/compile.h"
#include "compiler/runtime/stats.h"
#include "tensor/cuda/cuda.h"
#include "tensor/cuda/products.h"
#include "tests/golden/checks.h"
#include "tests/support/check_run.h"
#include "tests/support/command_line.h"
#include "tests/support/compare.h"

namespace weft::tests {
namespace {

constexpr int kRuns = 3;  // so that a compiled function is hit twice

struct Options {
  std::string manifest, tensors, mode = "eager", device = "cpu", id, dump;
  std::vector<std::string> groups;
  bool stats = false;
};

// One set, run several times; adds what the first run gave to the dump. `eager` is null where that is what runs.
std::string check_set(const Program& program, const ProgramFunction& function, const ProgramFunction* eager,
                      size_t number, const NamedTensors& tensors, NamedTensors* dump) {
  const InputSet& set = program.sets[number];
  NamedTensors first;
  const int64_t products = cuda::product_stats().calls;
  for (int i = 0; i < kRuns; ++i) {
    const RunResult run = run_program(program, function, set, tensors);
    if (std::string text = check_outputs(program, set, tensors, run); !text.empty()) return text;
    NamedTensors results;
    for (const std::string& name : program.outputs) results[name] = copy_of(run.values.at(name));
    Gradients gradients;
    const Pullback how = i == 1 ? Pullback::Backward : Pullback::Grad;
    if (!set.grads.empty()) {
      gradients = gradients_of(run, set, tensors, how);
      if (std::string text = check_gradients(program, set, tensors, gradients); !text.empty()) return text;
      for (const auto& [name, gradient] : gradients)
        if (gradient.defined()) results["grad." + name] = copy_of(gradient);
    }
    if (eager != nullptr) {
      const bool has_equal_bits = cuda::product_stats().calls == products;
      const RunResult alongside = run_program(program, *eager, set, tensors);
      if (std::string text = check_same_as_eager(run, alongside, has_equal_bits); !text.empty()) return text;
      if (!set.grads.empty() && has_equal_bits) {
        const Gradients want = gradients_of(alongside, set, tensors, how);
        if (std::string text = check_same_gradients(gradients, want); !text.empty()) return text;
      }
    }
    if (i == 0) {
      first = results;
      continue;
    }
    for (const auto& [name, result] : results) {
      if (std::string text = difference_of_bits(result, first[name]); !text.empty())
        return name + ": run " + std::to_string(i + 1) + " differs from the first: " + text;
    }
  }
  if (dump != nullptr) {
    for (const auto& [name, result] : first)
      (*dump)[program.group + "/" + program.id + "/" + std::to_string(number) + "/" + name] = result;
  }
  return {};
}

// How the programs of one run of the tool are executed.
struct Mode {
  std::string backend;  // none: eager
  std::string mode = "default";
  bool is_compiled() const { return !backend.empty(); }
};
const std::map<std::string, Mode> kModes = {{"eager", {}},
                                            {"aot_eager", {"aot_eager"}},
                                            {"interpret", {"interpret"}},
                                            {"compiled", {"weft"}},
                                            {"reduce-overhead", {"weft", "reduce-overhead"}}};

// Sizes of 0 and 1 may take a program of their own; all others share one after the first.
constexpr uint64_t kDynamicTraces = 3;

// Empty if the function was compiled, as seldom as it should be, and never ran in another way.
std::string check_counts(const Program& program, const CompileStats& before) {
  const CompileStats now = compile_stats();
  const uint64_t traces = now.traces - before.traces, eager_calls = now.eager_calls - before.eager_calls;
  if (traces == 0) return "was never traced";
  if (eager_calls > 0) return "ran eagerly in " + std::to_string(eager_calls) + " calls";
  if (program.group == "dynamic" && traces > kDynamicTraces)
    return "needed " + std::to_string(traces) + " compilations for " + std::to_string(program.sets.size()) +
           " sizes; " + std::to_string(kDynamicTraces) + " are enough";
  return {};
}

std::string check_program(const Program& program, const Mode& mode, const NamedTensors& tensors,
                          NamedTensors* dump) {
  const ProgramFunction eager = function_of(program);
  ProgramFunction function = eager;
  // One function for all sets. Audits would trace hits again, and it is hits that are to be tested.
  if (mode.is_compiled())
    function = compile(eager, {.backend = mode.backend, .audit = false, .mode = mode.mode});
  const CompileStats before = compile_stats();
  for (size_t i = 0; i < program.sets.size(); ++i) {
    std::string text;
    try {
      text = check_set(program, function, mode.is_compiled() ? &eager : nullptr, i, tensors, dump);
    } catch (const std::exception& error) {
      text = error.what();
    }
    if (!text.empty()) return program.sets.size() == 1 ? text : "set " + std::to_string(i) + ": " + text;
  }
  return mode.is_compiled() ? check_counts(program, before) : "";
}

int run(const Options& options) {
  if (options.device == "cuda" && !cuda::is_available()) throw Error(cuda::why_unavailable());
  const NamedTensors tensors = read_safetensors(options.tensors);
  std::vector<Program> programs = read_programs(options.manifest);
  std::erase_if(programs, [&](const Program& program) {
    const auto& groups = options.groups;
    return (!groups.empty() && std::find(groups.begin(), groups.end(), program.group) == groups.end()) ||
           (!options.id.empty() && options.id != program.id &&
            options.id != program.group + "/" + program.id);
  });
  const auto mode = kModes.find(options.mode);
  NamedTensors dump;
  CheckRun checks;
  for (Program& program : programs) {
    program.device = Device(options.device);
    checks.run(program.group + "/" + program.id, [&]() -> std::string {
      if (mode == kModes.end()) return "mode '" + options.mode + "' is not there yet";
      return check_program(program, mode->second, tensors, options.dump.empty() ? nullptr : &dump);
    });
  }
  if (!options.dump.empty()) write_safetensors(options.dump, dump);
  if (checks.is_empty()) std::cerr << "weft_golden: no program matches --group and --id\n";
  if (options.stats) {
    const CompileStats stats = compile_stats();
    std::cout << "compilations " << stats.traces << ", kernels " << stats.kernels << ", extern calls "
              << stats.extern_calls << ", interpreter fallbacks " << stats.interpreted << '\n';
    if (options.device == "cuda") std::cerr << "host trips " << stats.host_trips << '\n';
  }
  return checks.finish();
}

}  // namespace
}  // namespace weft::tests

int main(int argc, char** argv) {
  weft::tests::Options options;
  weft::tests::CommandLine line(
      "Runs the stored reference programs and compares them with the values of PyTorch");
  line.required("--manifest", options.manifest, "the programs, a JSON file");
  line.required("--tensors", options.tensors, "their values, a safetensors file");
  line.option("--mode", options.mode, "how they run",
              {"eager", "aot_eager", "interpret", "compiled", "reduce-overhead"});
  line.option("--device", options.device, "where they run", {"cpu", "cuda"});
  line.list("--group", options.groups, "only programs of this group; may be given several times");
  line.option("--id", options.id, "only this program");
  line.flag("--stats", options.stats, "print what was compiled before the last line");
  line.option("--dump", options.dump, "write all results to this safetensors file");
  if (const auto status = line.parse(argc, argv)) return *status;
  try {
    return weft::tests::run(options);
  } catch (const std::exception& error) {
    std::cerr << "weft_golden: " << error.what() << '\n';
    return 2;
  }
}
