// Activations and dropout as modules.
// Place: the out-of-line half of nn/activation.h.
#include "nn/activation.h"

namespace weft::nn {

std::string describe_numbers(const char* name,
                             std::initializer_list<std::pair<const char*, double>> numbers) {
  std::string text = std::string(name) + "(";
  const char* separator = "";
  for (const auto& [key, value] : numbers) {
    text += weft::detail::concat(separator, key, "=", value);
    separator = ", ";
  }
  return text + ")";
}

Tensor ReLUImpl::forward(const Tensor& x, SourceLocation where) {
  if (!options.inplace()) return relu(x, where);
  Tensor handle = x;
  return handle.relu_(where);
}
std::string ReLUImpl::describe() const { return options.inplace() ? "ReLU(inplace=true)" : "ReLU()"; }
void ReLUImpl::visit_facts(StateVisitor& visitor, const std::string& prefix) {
  visitor.fact(prefix + ".inplace", options.inplace());
}

std::string GELUImpl::describe() const { return "GELU(approximate=" + options.approximate() + ")"; }
void GELUImpl::visit_facts(StateVisitor& visitor, const std::string& prefix) {
  visitor.fact(prefix + ".approximate", options.approximate() == "tanh");
}

std::string SoftmaxImpl::describe() const {
  return describe_numbers("Softmax", {{"dim", static_cast<double>(options.dim())}});
}
void SoftmaxImpl::visit_facts(StateVisitor& visitor, const std::string& prefix) {
  visitor.fact(prefix + ".dim", static_cast<double>(options.dim()));
}
std::string LogSoftmaxImpl::describe() const {
  return describe_numbers("LogSoftmax", {{"dim", static_cast<double>(options.dim())}});
}
void LogSoftmaxImpl::visit_facts(StateVisitor& visitor, const std::string& prefix) {
  visitor.fact(prefix + ".dim", static_cast<double>(options.dim()));
}

DropoutImpl::DropoutImpl(const DropoutOptions& o) : options(o) {
  WEFT_CHECK(options.p() >= 0 && options.p() <= 1, "Dropout: p is ", options.p(),
             "; a probability between 0 and 1 is needed");
}
void DropoutImpl::visit_facts(StateVisitor& visitor, const std::string& prefix) {
  visitor.fact(prefix + ".p", options.p());
}

}  // namespace weft::nn
