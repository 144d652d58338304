// weft_golden: runs the stored reference programs and compares every result and gradient with the stored values.
// Place: a tool of the build tree; its command line and its output are fixed in docs/architecture.md (contracts).
#include <unistd.h>
#include <CLI/CLI.hpp>
#include <csignal>
#include <iostream>
#include <set>

#include "tests/golden/program.h"
#include "tests/support/compare.h"

namespace weft::tests {
namespace {

constexpr int kRuns = 3;  // so that a compiled function is hit twice

struct Options {
  std::string manifest, tensors, mode = "eager", device = "cpu", id, dump;
  std::set<std::string> groups;
  bool stats = false;
};

// Tolerances beyond those of the README, each with its reason.
struct Wider {
  const char* program;
  Tolerance tolerance;
  const char* reason;
};
const std::vector<Wider> kWider = {};

Tolerance tolerance_of(const Program& program, DType dtype) {
  static const std::set<std::string> pointwise = {"pointwise", "special", "binary", "promotion",
                                                  "integer",   "ternary", "cast"};
  for (const Wider& wider : kWider)
    if (wider.program == program.group + "/" + program.id) return wider.tolerance;
  return golden_tolerance(dtype, pointwise.contains(program.group) ? 1 : 8);
}

// PyTorch's vectorised fmod and remainder give NaN where the quotient overflows, its scalar ones (and CUDA) the exact
// remainder. Ours is exact everywhere, so a stored NaN of that kind gives way to the mathematical value.
Tensor without_overflowed_quotients(const Program& program, const RunResult& run, const Tensor& want) {
  const bool is_remainder = program.id == "remainder_special";
  if (program.group != "special" || (program.id != "fmod_special" && !is_remainder)) return want;
  const std::vector<double> x = doubles_of(run.values.at("x")), y = doubles_of(run.values.at("y"));
  Tensor exact = copy_of(want);
  auto* values = data_of<float>(exact);
  for (size_t i = 0; i < x.size(); ++i) {
    if (!std::isnan(values[i]) || !std::isfinite(x[i]) || !std::isfinite(y[i]) || y[i] == 0) continue;
    const double mod = std::fmod(x[i], y[i]);
    values[i] = static_cast<float>(is_remainder && mod != 0 && (mod < 0) != (y[i] < 0) ? mod + y[i] : mod);
  }
  return exact;
}

// Everything about one set that a run must meet; empty if it does.
std::string check_outputs(const Program& program, const InputSet& set, const NamedTensors& tensors,
                          const RunResult& run) {
  for (const auto& [name, key] : set.outputs) {
    const Tensor &got = run.values.at(name),
                 want = without_overflowed_quotients(program, run, tensors.at(key));
    if (std::string text = difference(got, want, tolerance_of(program, want.dtype())); !text.empty())
      return name + ": " + text;
  }
  for (const auto& [name, view] : set.views) {
    const Tensor &output = run.values.at(name), &input = run.values.at(view.of);
    if (output->storage != input->storage) return name + ": is a copy, not a view of " + view.of;
    if (output.strides() != view.strides || output.storage_offset() != view.offset) {
      std::ostringstream text;
      text << name << ": strides " << output.strides() << " and offset " << output.storage_offset()
           << " instead of " << SizesView(SymList(view.strides)) << " and " << view.offset;
      return text.str();
    }
  }
  for (const std::string& name : program.outputs) {
    // An empty view is not told from an empty copy.
    const Tensor& output = run.values.at(name);
    if (set.views.contains(name) || run.leaves.contains(name) || int_numel(output) == 0) continue;
    for (const auto& [input, leaf] : run.leaves) {
      if (output->storage == run.values.at(input)->storage)
        return name + ": shares the storage of " + input + "; it must be a copy";
    }
  }
  return {};
}

std::string check_gradients(const Program& program, const InputSet& set, const NamedTensors& tensors,
                            const std::map<std::string, Tensor>& gradients) {
  for (const auto& [name, gradient] : gradients) {
    const auto expected = set.grads.find(name);
    if (expected == set.grads.end()) {
      if (gradient.defined()) return "grad of " + name + ": " + describe(gradient) + "; none may arrive";
      continue;
    }
    const Tensor& want = tensors.at(expected->second);
    if (std::string text = difference(gradient, want, tolerance_of(program, want.dtype())); !text.empty())
      return "grad of " + name + ": " + text;
  }
  return {};
}

// One set, run several times; adds what the first run gave to the dump.
std::string check_set(const Program& program, size_t number, const NamedTensors& tensors,
                      NamedTensors* dump) {
  const InputSet& set = program.sets[number];
  NamedTensors first;
  for (int i = 0; i < kRuns; ++i) {
    const RunResult run = run_program(program, set, tensors);
    if (std::string text = check_outputs(program, set, tensors, run); !text.empty()) return text;
    NamedTensors results;
    for (const std::string& name : program.outputs) results[name] = copy_of(run.values.at(name));
    if (!set.grads.empty()) {
      const auto gradients = gradients_of(run, set, tensors, i == 1 ? Pullback::Backward : Pullback::Grad);
      if (std::string text = check_gradients(program, set, tensors, gradients); !text.empty()) return text;
      for (const auto& [name, gradient] : gradients)
        if (gradient.defined()) results["grad." + name] = copy_of(gradient);
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

std::string check_program(const Program& program, const NamedTensors& tensors, NamedTensors* dump) {
  for (size_t i = 0; i < program.sets.size(); ++i) {
    std::string text;
    try {
      text = check_set(program, i, tensors, dump);
    } catch (const std::exception& error) {
      text = error.what();
    }
    if (!text.empty()) return program.sets.size() == 1 ? text : "set " + std::to_string(i) + ": " + text;
  }
  return {};
}

// A crash still names its program and leaves the closing line. Only async-signal-safe calls.
char current_program[256];
int passed = 0, failed = 0;
void report_crash(int signal) {
  char text[512];
  const int size = std::snprintf(text, sizeof text, "FAIL %s: crashed with signal %d\n%d passed, %d failed\n",
                                 current_program, signal, passed, failed + 1);
  [[maybe_unused]] const ssize_t written = write(STDOUT_FILENO, text, static_cast<size_t>(size));
  _exit(1);
}

int run(const Options& options) {
  const NamedTensors tensors = read_safetensors(options.tensors);
  std::vector<Program> programs = read_programs(options.manifest);
  std::erase_if(programs, [&](const Program& program) {
    return (!options.groups.empty() && !options.groups.contains(program.group)) ||
           (!options.id.empty() && options.id != program.id &&
            options.id != program.group + "/" + program.id);
  });
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) std::signal(signal, report_crash);
  NamedTensors dump;
  for (const Program& program : programs) {
    std::snprintf(current_program, sizeof current_program, "%s/%s", program.group.c_str(),
                  program.id.c_str());
    std::string text = options.mode != "eager" ? "mode '" + options.mode + "' is not there yet"
                       : options.device != "cpu"
                           ? "device '" + options.device + "' is not there yet"
                           : check_program(program, tensors, options.dump.empty() ? nullptr : &dump);
    if (text.empty()) {
      ++passed;
      continue;
    }
    ++failed;
    std::replace(text.begin(), text.end(), '\n', ' ');
    std::cout << "FAIL " << current_program << ": " << text << std::endl;
  }
  if (!options.dump.empty()) write_safetensors(options.dump, dump);
  if (programs.empty()) std::cerr << "weft_golden: no program matches --group and --id\n";
  if (options.stats)
    std::cout
        << "compilations 0, kernels 0, extern calls 0, interpreter fallbacks 0\n";  // eager compiles nothing
  std::cout << passed << " passed, " << failed << " failed" << std::endl;
  return failed == 0 && passed > 0 ? 0 : 1;
}

}  // namespace
}  // namespace weft::tests

int main(int argc, char** argv) {
  weft::tests::Options options;
  CLI::App app("Runs the stored reference programs and compares them with the values of PyTorch");
  app.add_option("--manifest", options.manifest, "the programs, a JSON file")->required();
  app.add_option("--tensors", options.tensors, "their values, a safetensors file")->required();
  app.add_option("--mode", options.mode, "how they run")
      ->check(CLI::IsMember({"eager", "aot_eager", "interpret", "compiled", "reduce-overhead"}));
  app.add_option("--device", options.device, "where they run")->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--group", options.groups, "only programs of this group; may be given several times");
  app.add_option("--id", options.id, "only this program");
  app.add_flag("--stats", options.stats, "print what was compiled before the last line");
  app.add_option("--dump", options.dump, "write all results to this safetensors file");
  CLI11_PARSE(app, argc, argv);
  try {
    return weft::tests::run(options);
  } catch (const std::exception& error) {
    std::cerr << "weft_golden: " << error.what() << '\n';
    return 2;
  }
}
