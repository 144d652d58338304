// The C++ that CppPrinter prints computes the same bits as the library's vector kernels.
// Needs a C++ compiler on PATH (skips without one): all cases are compiled at once into a shared object and loaded.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tensor/cpu/isa.h"
#include "tensor/expr/print_cpp.h"
#include "tensor/ops/pointwise_rule.h"
#include "tests/support/boxed_call.h"
#include "tests/support/compare.h"
#include "tests/support/expr_cases.h"

namespace weft::tests {
namespace {

using Case = ExprCase;
constexpr DType kDTypes[] = {DType::Float32, DType::Float64, DType::Int32, DType::Int64};

bool has(const Case& c, DType dtype) { return is_floating(dtype) ? c.floats : c.integers; }
std::string symbol_of(const Case& c, DType dtype) {
  std::string name = std::string("run_") + c.op + "_" + short_name_of(dtype);
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

// The whole translation unit: what all cases need, then one loop each.
std::string source_text() {
  CppPrinter printer;
  std::string loops;
  for (const Case& c : kExprCases) {
    const PointwiseRule& rule = *OpTable::instance().get(c.op).pointwise;
    for (DType dtype : kDTypes) {
      if (!has(c, dtype)) continue;
      ExprGraph graph;
      graph.set_number_dtype(dtype);
      std::vector<Expr> inputs;
      for (int k = 0; k < rule.arity; ++k) inputs.push_back(graph.input(k, dtype));
      const Expr value = rule.expr(inputs);
      const std::string symbol = symbol_of(c, dtype), type = cpp_type(dtype),
                        result = cpp_type(value.dtype());
      loops += printer.function("f_" + symbol, graph, value, std::vector<DType>(inputs.size(), dtype));
      loops += "extern \"C\" void " + symbol + "(long n, const " + type + "* const* in, " + result +
               "* out) {\n  for (long i = 0; i < n; ++i) out[i] = f_" + symbol + "(";
      for (size_t k = 0; k < inputs.size(); ++k)
        loops += (k == 0 ? "in[" : ", in[") + std::to_string(k) + "][i]";
      loops += ");\n}\n";
    }
  }
  return printer.definitions() + loops;
}

std::string quoted(const std::filesystem::path& path) { return "'" + path.string() + "'"; }

class ExprCode : public ::testing::TestWithParam<Case> {
 protected:
  static void SetUpTestSuite() {
    if (cpu::current_isa() == cpu::Isa::SSE4) {
      why_not = "the kernels in use have no fma (SSE4), the printed code has";
      return;
    }
    std::string compiler;
    for (const char* name : {"c++", "g++", "clang++"}) {
      if (compiler.empty() &&
          std::system((std::string("command -v ") + name + " >/dev/null 2>&1").c_str()) == 0)
        compiler = name;
    }
    if (compiler.empty()) {
      why_not = "no C++ compiler is on PATH";
      return;
    }
    std::string pattern = (std::filesystem::temp_directory_path() / "weft_expr_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    const std::filesystem::path dir = pattern, source = dir / "all.cpp", object = dir / "all.so",
                                log = dir / "log";
    std::ofstream(source) << source_text();
    const std::string command =
        compiler + " -O2 -ffp-contract=off -fno-math-errno -fwrapv -mfma -mavx2 -shared -fPIC -o " +
        quoted(object) + " " + quoted(source) + " 2>" + quoted(log);
    const int status = std::system(command.c_str());
    std::ifstream messages(log);
    const std::string text{std::istreambuf_iterator<char>(messages), std::istreambuf_iterator<char>()};
    if (status == 0) library = dlopen(object.c_str(), RTLD_NOW | RTLD_LOCAL);
    std::filesystem::remove_all(dir);
    ASSERT_EQ(status, 0) << text.substr(0, 4000);
    ASSERT_NE(library, nullptr) << dlerror();
  }

  static inline void* library = nullptr;
  static inline std::string why_not;
};

template <class T>
void compare_with_kernel(const Case& c, void* function) {
  const Op& op = OpTable::instance().get(c.op);
  const PointwiseRule& rule = *op.pointwise;
  const bool is_integer = std::is_integral_v<T>;
  std::vector<std::vector<T>> inputs = inputs_for<T>(rule.arity, is_integer && rule.divisor >= 0);
  const auto n = static_cast<int64_t>(inputs[0].size());
  Args args;
  Kwargs kwargs;
  std::vector<const T*> in;
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (op.schema.params[k].type == ParamType::Number) {
      // One number for all elements, as an op takes it.
      const double number = is_integer ? 3 : 0.75;
      inputs[k].assign(inputs[k].size(), static_cast<T>(number));
      kwargs.emplace_back(op.schema.params[k].name, is_integer ? Arg(3) : Arg(number));
    } else {
      args.push_back(tensor_of_bytes(inputs[k].data(), {n}, dtype_of<T>));
    }
    in.push_back(inputs[k].data());
  }
  const Tensor want = bind_call(op, args, kwargs).run()[0];
  Tensor got = make_tensor(want->layout.sizes, want.dtype());
  reinterpret_cast<void (*)(long, const T* const*, void*)>(function)(n, in.data(), bytes_of(got));
  if (const std::string text = difference_of_bits(got, want); !text.empty()) {
    std::ostringstream message;
    message.precision(17);
    const auto a = doubles_of(got), b = doubles_of(want);
    for (size_t i = 0; i < a.size(); ++i) {
      if (a[i] == b[i] ? std::signbit(a[i]) == std::signbit(b[i]) : std::isnan(a[i]) && std::isnan(b[i]))
        continue;
      message << "; inputs";
      for (const T* x : in) message << ' ' << x[i];
      break;
    }
    ADD_FAILURE() << c.op << ' ' << dtype_of<T> << ": printed code and kernel: " << text << message.str();
  }
}

TEST_P(ExprCode, PrintedCodeEqualsTheKernelBitForBit) {
  if (library == nullptr) GTEST_SKIP() << why_not;
  const Case& c = GetParam();
  for (DType dtype : kDTypes) {
    if (!has(c, dtype)) continue;
    void* function = dlsym(library, symbol_of(c, dtype).c_str());
    ASSERT_NE(function, nullptr);
    if (dtype == DType::Float32) compare_with_kernel<float>(c, function);
    if (dtype == DType::Float64) compare_with_kernel<double>(c, function);
    if (dtype == DType::Int32) compare_with_kernel<int32_t>(c, function);
    if (dtype == DType::Int64) compare_with_kernel<int64_t>(c, function);
  }
}

INSTANTIATE_TEST_SUITE_P(Table, ExprCode, ::testing::ValuesIn(kExprCases), [](const auto& info) {
  std::string name = info.param.op;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
});

}  // namespace
}  // namespace weft::tests
