// Jacobians by differences and by backward, element by element.
#include "autograd/gradcheck.h"

#include <cmath>

#include "autograd/grad_mode.h"
#include "tensor/dispatch.h"

namespace weft::autograd::detail {
namespace {

// The address of element `i` in row-major order.
double* element(const Tensor& x, int64_t i) {
  double* at = data_of<double>(x);
  for (size_t d = static_cast<size_t>(x.dim()); d-- > 0;) {
    const int64_t size = int_sizes(x)[d];
    at += i % size * int_strides(x)[d];
    i /= size;
  }
  return at;
}

Tensor filled(const Tensor& like, double (*value)(int64_t)) {
  Tensor x = make_tensor(like->layout.sizes, kFloat64);
  for (int64_t i = 0; i < int_numel(x); ++i) data_of<double>(x)[i] = value(i);
  return x;
}

bool is_checked(const Tensor& x) { return x.defined() && x.is_floating_point() && x.requires_grad(); }

// Values only: undefined results count as empty.
std::vector<std::vector<double>> evaluate(const GradcheckFunction& function, const variable_list& inputs) {
  std::vector<std::vector<double>> values;
  for (const Tensor& output : function(inputs))
    values.push_back(output.defined() && output.is_floating_point() ? output.to_vector<double>()
                                                                    : std::vector<double>());
  return values;
}

}  // namespace

bool check_first(const GradcheckFunction& function, const variable_list& inputs,
                 const GradcheckOptions& options, SourceLocation where) {
  variable_list wanted;
  std::vector<size_t> positions;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!is_checked(inputs[i])) continue;
    WEFT_CHECK(inputs[i].dtype() == kFloat64, "gradcheck: input ", i, " is ", inputs[i].dtype(),
               "; differences need float64");
    wanted.push_back(inputs[i]);
    positions.push_back(i);
  }
  WEFT_CHECK(!wanted.empty(), "gradcheck: no input requires grad");

  const AutoGradMode on(true);
  const variable_list outputs = function(inputs);
  // analytic[input][output][row · columns + column]
  std::vector<std::vector<std::vector<double>>> analytic(wanted.size(),
                                                         std::vector<std::vector<double>>(outputs.size()));
  for (size_t o = 0; o < outputs.size(); ++o) {
    if (!is_checked(outputs[o])) continue;
    const int64_t rows = int_numel(outputs[o]);
    for (int64_t row = 0; row < rows; ++row) {
      Tensor seed = filled(outputs[o], [](int64_t) { return 0.0; });
      data_of<double>(seed)[row] = 1;
      if (outputs[o].dtype() != kFloat64) seed = seed.to(outputs[o].dtype());
      const variable_list rows_of = grad({outputs[o]}, wanted, {seed}, true, false, true, where);
      for (size_t i = 0; i < wanted.size(); ++i) {
        const std::vector<double> values =
            rows_of[i].defined() ? rows_of[i].to_vector<double>()
                                 : std::vector<double>(static_cast<size_t>(int_numel(wanted[i])));
        WEFT_CHECK(static_cast<int64_t>(values.size()) == int_numel(wanted[i]),
                   "gradcheck: the gradient of input ", positions[i], " has ", values.size(), " elements");
        analytic[i][o].insert(analytic[i][o].end(), values.begin(), values.end());
      }
    }
  }

  for (size_t i = 0; i < wanted.size(); ++i) {
    const int64_t columns = int_numel(wanted[i]);
    for (int64_t column = 0; column < columns; ++column) {
      double* const at = element(wanted[i], column);
      const double value = *at;
      *at = value + options.eps;
      const auto above = evaluate(function, inputs);
      *at = value - options.eps;
      const auto below = evaluate(function, inputs);
      *at = value;
      for (size_t o = 0; o < outputs.size(); ++o) {
        for (size_t row = 0; row < above[o].size(); ++row) {
          const double numeric = (above[o][row] - below[o][row]) / (2 * options.eps);
          const double found =
              analytic[i][o].empty()
                  ? 0  // the output does not require grad
                  : analytic[i][o][row * static_cast<size_t>(columns) + static_cast<size_t>(column)];
          if (std::abs(found - numeric) <= options.atol + options.rtol * std::abs(numeric)) continue;
          if (!options.raise) return false;
          throw Error(weft::detail::concat(
              "gradcheck: d output ", o, "[", row, "] / d input ", positions[i], "[", column, "] is ", found,
              " by backward, but ", numeric,
              " by differences (elements counted in row-major order; the input's value is ", value, ")"));
        }
      }
    }
  }
  return true;
}

bool check_second(const GradcheckFunction& function, const variable_list& inputs,
                  const GradcheckOptions& options, SourceLocation where) {
  const AutoGradMode on(true);
  variable_list all = inputs;
  std::vector<size_t> kept;  // the outputs that have gradients
  const variable_list outputs = function(inputs);
  for (size_t o = 0; o < outputs.size(); ++o) {
    if (!is_checked(outputs[o])) continue;
    kept.push_back(o);
    all.push_back(filled(outputs[o], [](int64_t i) {
                    return 0.5 + 0.3 * std::sin(1.7 * static_cast<double>(i));
                  }).requires_grad_());
  }
  const size_t count = inputs.size();
  const GradcheckFunction gradient = [=](const variable_list& values) {
    const variable_list first(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(count));
    variable_list results = function(first), chosen, seeds, wanted;
    for (size_t k = 0; k < kept.size(); ++k) {
      chosen.push_back(results[kept[k]]);
      seeds.push_back(values[count + k]);
    }
    for (const Tensor& x : first)
      if (is_checked(x)) wanted.push_back(x);
    return grad(chosen, wanted, seeds, true, true, true, where);
  };
  return check_first(gradient, all, options, where);
}

}  // namespace weft::autograd::detail
