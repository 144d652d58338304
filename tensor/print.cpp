// Printing a tensor's values in PyTorch's form: aligned columns, four digits, long tensors shortened.
// Place: defines operator<< of tensor/tensor.h.
#include <cmath>
#include <cstdio>
#include <ostream>

#include "tensor/base/half.h"
#include "tensor/dispatch.h"

namespace weft {
namespace {

// PyTorch's defaults.
constexpr int64_t kThreshold = 1000;  // more elements than this are shortened
constexpr int64_t kEdge = 3;          // to so many at either end of a dimension
constexpr int kLineWidth = 80;
constexpr int kIndent = 7;  // "tensor("

std::string formatted(const char* format, double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char text[400];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

class Printer {
 public:
  explicit Printer(const Tensor& x)
      : x_(x), is_short_(x.numel() > kThreshold), is_floating_(is_floating(x.dtype())) {
    for_each_shown(0, 0, [&](int64_t at) {
      if (is_floating_) numbers_.push_back(number_at(at));
    });
    choose_form();
    // Zeros and non-finite values do not widen the columns.
    for_each_shown(0, 0, [&](int64_t at) {
      if (is_floating_ && (!std::isfinite(number_at(at)) || number_at(at) == 0)) return;
      width_ = std::max(width_, text_at(at, false).size());
    });
  }

  std::string text() const { return x_.dim() == 0 ? text_at(0, true) : part(0, 0, kIndent); }

 private:
  double number_at(int64_t at) const {
    return visit(x_.dtype(), [&](auto zero) -> double {
      using T = decltype(zero);
      const T value = data_of<T>(x_)[at];
      if constexpr (std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>) return to_float(value);
      else return static_cast<double>(value);
    });
  }
  std::string integer_at(int64_t at) const {
    return visit(x_.dtype(), [&](auto zero) -> std::string {
      using T = decltype(zero);
      if constexpr (std::is_same_v<T, bool>) return data_of<T>(x_)[at] ? "True" : "False";
      else if constexpr (std::is_integral_v<T>) return std::to_string(data_of<T>(x_)[at]);
      else return {};
    });
  }

  // PyTorch's choice: whole numbers without digits, scientific where fixed digits would not tell the values apart.
  void choose_form() {
    double low = INFINITY, high = 0;
    for (double value : numbers_) {
      if (!std::isfinite(value) || value == 0) continue;
      low = std::min(low, std::abs(value));
      high = std::max(high, std::abs(value));
      if (value != std::ceil(value)) is_whole_ = false;
    }
    if (high == 0) return;
    is_scientific_ = high / low > 1000 || high > 1e8 || (!is_whole_ && low < 1e-4);
  }

  std::string text_at(int64_t at, bool padded) const {
    std::string text;
    if (!is_floating_) {
      text = integer_at(at);
    } else {
      const double value = number_at(at);
      text = formatted(is_scientific_ ? "%.4e" : is_whole_ ? "%.0f" : "%.4f", value);
      if (is_whole_ && !is_scientific_ && std::isfinite(value)) text += '.';
    }
    if (padded && text.size() < width_) text.insert(0, width_ - text.size(), ' ');
    return text;
  }

  // Calls f(index) for the indices of a dimension that are shown, and f(-1) where some are left out.
  template <class F>
  void for_each_index(size_t dim, const F& f) const {
    const int64_t size = int_sizes(x_)[dim];
    const bool skips = is_short_ && size > 2 * kEdge;
    for (int64_t i = 0; i < size; ++i) {
      if (skips && i == kEdge) {
        f(int64_t{-1});
        i = size - kEdge;
      }
      f(i);
    }
  }
  template <class F>
  void for_each_shown(size_t dim, int64_t at, const F& f) const {
    if (dim == x_->layout.sizes.size()) return f(at);
    for_each_index(dim, [&](int64_t i) {
      if (i >= 0) for_each_shown(dim + 1, at + i * int_strides(x_)[dim], f);
    });
  }

  std::string part(size_t dim, int64_t at, int indent) const {
    const size_t rank = x_->layout.sizes.size();
    std::vector<std::string> items;
    for_each_index(dim, [&](int64_t i) {
      const int64_t next = at + i * int_strides(x_)[dim];
      if (dim + 1 == rank) items.push_back(i < 0 ? " ..." : text_at(next, true));
      else items.push_back(i < 0 ? "..." : part(dim + 1, next, indent + 1));
    });
    const std::string margin(static_cast<size_t>(indent) + 1, ' ');
    std::string text = "[";
    const size_t per_line =
        dim + 1 == rank
            ? std::max<size_t>(1, static_cast<size_t>(std::max(0, kLineWidth - indent)) / (width_ + 2))
            : 1;
    const std::string break_line = "," + std::string(std::max<size_t>(1, rank - dim - 1), '\n') + margin;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) text += i % per_line == 0 ? break_line : ", ";
      text += items[i];
    }
    return text + ']';
  }

  const Tensor& x_;
  bool is_short_, is_floating_, is_whole_ = true, is_scientific_ = false;
  std::vector<double> numbers_;
  size_t width_ = 1;
};

}  // namespace

std::ostream& operator<<(std::ostream& out, const Tensor& x) {
  if (!x.defined()) return out << "tensor(undefined)";
  // Real tensors that a traced function prints too: their values would be shown once, not at each call.
  if (x->is_fake || current_trace() != nullptr)
    return out << "tensor(of a trace, sizes " << x.sizes() << ", " << x.dtype()
               << "; print(x) shows the values at each call)";
  const bool is_empty = x.numel() == 0;
  const Tensor here = x.is_cpu() ? x : x.cpu();
  const std::string text = is_empty ? "[]" : Printer(here).text();
  std::vector<std::string> notes;
  if (is_empty && x.dim() != 1) notes.push_back(detail::concat("sizes ", x.sizes()));
  if (!x.is_cpu()) notes.push_back(detail::concat("device=", x.device()));
  const DType dtype = x.dtype();
  const bool is_plain =
      dtype == default_dtype() || (!is_empty && (dtype == DType::Int64 || dtype == DType::Bool));
  if (!is_plain) notes.push_back(detail::concat("dtype=", dtype));
  if (x.requires_grad()) notes.push_back("requires_grad=True");

  out << "tensor(" << text;
  const size_t last_break = text.rfind('\n');
  size_t used = last_break == std::string::npos ? text.size() + kIndent : text.size() - last_break;
  for (const std::string& note : notes) {
    if (used + note.size() + 2 > static_cast<size_t>(kLineWidth)) {
      out << ",\n" << std::string(kIndent, ' ') << note;
      used = kIndent + note.size();
    } else {
      out << ", " << note;
      used += note.size() + 2;
    }
  }
  return out << ')';
}

}  // namespace weft
