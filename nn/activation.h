// Activations and dropout as modules: ReLU, GELU, Softmax, Dropout, …
// Needs module_holder and options; each calls the function of its name.
#pragma once

#include "nn/module_holder.h"
#include "nn/options.h"

namespace weft::nn {

// Modules without options: x -> function(x).
#define WEFT_PLAIN_ACTIVATION(Name, function)                                         \
  class Name##Impl : public Module {                                                  \
   public:                                                                            \
    Tensor forward(const Tensor& x, WEFT_HERE) { return ::weft::function(x, where); } \
    std::string describe() const override { return #Name "()"; }                      \
  };                                                                                  \
  WEFT_MODULE(Name)
WEFT_PLAIN_ACTIVATION(ReLU6, relu6);
WEFT_PLAIN_ACTIVATION(SELU, selu);
WEFT_PLAIN_ACTIVATION(SiLU, silu);
WEFT_PLAIN_ACTIVATION(Mish, mish);
WEFT_PLAIN_ACTIVATION(Tanh, tanh);
WEFT_PLAIN_ACTIVATION(Sigmoid, sigmoid);
WEFT_PLAIN_ACTIVATION(LogSigmoid, log_sigmoid);
WEFT_PLAIN_ACTIVATION(Softsign, softsign);
WEFT_PLAIN_ACTIVATION(Tanhshrink, tanhshrink);
WEFT_PLAIN_ACTIVATION(Hardswish, hardswish);
WEFT_PLAIN_ACTIVATION(Hardsigmoid, hardsigmoid);
#undef WEFT_PLAIN_ACTIVATION

struct ReLUOptions {
  ReLUOptions(bool inplace = false) : inplace_(inplace) {}  // NOLINT
  // Writes into the argument, as in PyTorch.
  WEFT_OPTION(bool, inplace, false)
};
class ReLUImpl : public Module {
 public:
  explicit ReLUImpl(const ReLUOptions& o = {}) : options(o) {}
  Tensor forward(const Tensor& x, WEFT_HERE);
  std::string describe() const override;
  ReLUOptions options;

 protected:
  void visit_facts(StateVisitor& visitor, const std::string& prefix) override;
};
WEFT_MODULE(ReLU);

struct GELUOptions {
  // "none" (erf) or "tanh".
  WEFT_OPTION(std::string, approximate, "none")
};
class GELUImpl : public Module {
 public:
  explicit GELUImpl(GELUOptions o = {}) : options(std::move(o)) {}
  Tensor forward(const Tensor& x, WEFT_HERE) { return gelu(x, options.approximate(), where); }
  std::string describe() const override;
  GELUOptions options;

 protected:
  void visit_facts(StateVisitor& visitor, const std::string& prefix) override;
};
WEFT_MODULE(GELU);

// Modules with one or two numbers: x -> function(x, a[, b]).
#define WEFT_ACTIVATION_1(Name, function, a, a_default)                                            \
  struct Name##Options {                                                                           \
    Name##Options(double a = a_default) : a##_(a) {} /* NOLINT */                                  \
    WEFT_OPTION(double, a, a_default)                                                              \
  };                                                                                               \
  class Name##Impl : public Module {                                                               \
   public:                                                                                         \
    explicit Name##Impl(const Name##Options& o = {}) : options(o) {}                               \
    Tensor forward(const Tensor& x, WEFT_HERE) { return ::weft::function(x, options.a(), where); } \
    std::string describe() const override { return describe_numbers(#Name, {{#a, options.a()}}); } \
    Name##Options options;                                                                         \
                                                                                                   \
   protected:                                                                                      \
    void visit_facts(StateVisitor& visitor, const std::string& prefix) override {                  \
      visitor.fact(prefix + "." #a, options.a());                                                  \
    }                                                                                              \
  };                                                                                               \
  WEFT_MODULE(Name)
#define WEFT_ACTIVATION_2(Name, function, a, a_default, b, b_default)                            \
  struct Name##Options {                                                                         \
    Name##Options(double a = a_default, double b = b_default) : a##_(a), b##_(b) {} /* NOLINT */ \
    WEFT_OPTION(double, a, a_default)                                                            \
    WEFT_OPTION(double, b, b_default)                                                            \
  };                                                                                             \
  class Name##Impl : public Module {                                                             \
   public:                                                                                       \
    explicit Name##Impl(const Name##Options& o = {}) : options(o) {}                             \
    Tensor forward(const Tensor& x, WEFT_HERE) {                                                 \
      return ::weft::function(x, options.a(), options.b(), where);                               \
    }                                                                                            \
    std::string describe() const override {                                                      \
      return describe_numbers(#Name, {{#a, options.a()}, {#b, options.b()}});                    \
    }                                                                                            \
    Name##Options options;                                                                       \
                                                                                                 \
   protected:                                                                                    \
    void visit_facts(StateVisitor& visitor, const std::string& prefix) override {                \
      visitor.fact(prefix + "." #a, options.a());                                                \
      visitor.fact(prefix + "." #b, options.b());                                                \
    }                                                                                            \
  };                                                                                             \
  WEFT_MODULE(Name)

// "LeakyReLU(negative_slope=0.01)"
std::string describe_numbers(const char* name, std::initializer_list<std::pair<const char*, double>> numbers);

WEFT_ACTIVATION_1(LeakyReLU, leaky_relu, negative_slope, 0.01);
WEFT_ACTIVATION_1(ELU, elu, alpha, 1.0);
WEFT_ACTIVATION_1(CELU, celu, alpha, 1.0);
WEFT_ACTIVATION_1(Softshrink, softshrink, lambda, 0.5);
WEFT_ACTIVATION_1(Hardshrink, hardshrink, lambda, 0.5);
WEFT_ACTIVATION_2(Hardtanh, hardtanh, min_val, -1.0, max_val, 1.0);
WEFT_ACTIVATION_2(Softplus, softplus, beta, 1.0, threshold, 20.0);
#undef WEFT_ACTIVATION_1
#undef WEFT_ACTIVATION_2

struct SoftmaxOptions {
  SoftmaxOptions(int64_t dim) : dim_(dim) {}  // NOLINT
  WEFT_OPTION(int64_t, dim, -1)
};
class SoftmaxImpl : public Module {
 public:
  explicit SoftmaxImpl(const SoftmaxOptions& o) : options(o) {}
  Tensor forward(const Tensor& x, WEFT_HERE) { return softmax(x, options.dim(), {}, where); }
  std::string describe() const override;
  SoftmaxOptions options;

 protected:
  void visit_facts(StateVisitor& visitor, const std::string& prefix) override;
};
WEFT_MODULE(Softmax);

using LogSoftmaxOptions = SoftmaxOptions;
class LogSoftmaxImpl : public Module {
 public:
  explicit LogSoftmaxImpl(const LogSoftmaxOptions& o) : options(o) {}
  Tensor forward(const Tensor& x, WEFT_HERE) { return log_softmax(x, options.dim(), {}, where); }
  std::string describe() const override;
  LogSoftmaxOptions options;

 protected:
  void visit_facts(StateVisitor& visitor, const std::string& prefix) override;
};
WEFT_MODULE(LogSoftmax);

struct DropoutOptions {
  DropoutOptions(double p = 0.5) : p_(p) {}  // NOLINT
  WEFT_OPTION(double, p, 0.5)
};
// In train mode zeroes each element with probability p and divides the rest by 1 - p; in eval mode x itself.
// Errors: p outside [0, 1].  Source: torch.nn.Dropout; Hinton et al. 2012.
class DropoutImpl : public Module {
 public:
  explicit DropoutImpl(const DropoutOptions& o = {});
  Tensor forward(const Tensor& x, WEFT_HERE) { return dropout(x, options.p(), is_training(), where); }
  std::string describe() const override { return describe_numbers("Dropout", {{"p", options.p()}}); }
  DropoutOptions options;

 protected:
  void visit_facts(StateVisitor& visitor, const std::string& prefix) override;
};
WEFT_MODULE(Dropout);

}  // namespace weft::nn
