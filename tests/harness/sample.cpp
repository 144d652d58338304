// Parsing and making up samples, and filling their tensors.
// Place: beneath the tests of the table harness.
#include "tests/harness/sample.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>
#include <sstream>

#include "tensor/base/half.h"

namespace weft::tests {
namespace {

// ---- Texts ----------------------------------------------------------------------------------------------------------

// "x=[3,4] dims=[0]" -> {"x", "[3,4]"}, {"dims", "[0]"}
std::vector<std::pair<std::string, std::string>> split_text(const std::string& text) {
  std::vector<std::pair<std::string, std::string>> parts;
  size_t at = 0;
  while ((at = text.find_first_not_of(' ', at)) != std::string::npos) {
    const size_t end = std::min(text.find(' ', at), text.size()), equals = text.find('=', at);
    WEFT_CHECK(equals < end, "sample '", text, "': no '=' in '", text.substr(at, end - at), "'");
    parts.emplace_back(text.substr(at, equals - at), text.substr(equals + 1, end - equals - 1));
    at = end;
  }
  return parts;
}

std::optional<double> parse_number(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::vector<int64_t> parse_integers(std::string_view text) {
  WEFT_CHECK(text.size() >= 2 && text.front() == '[' && text.back() == ']', "sample: '", text,
             "' is no list");
  text = text.substr(1, text.size() - 2);
  std::vector<int64_t> integers;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const auto number = parse_number(text.substr(0, comma));
    WEFT_CHECK(number.has_value(), "sample: '", text, "' is no list of integers");
    integers.push_back(static_cast<int64_t>(*number));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return integers;
}

TensorSpec parse_tensor(const std::string& text) {
  TensorSpec spec;
  const size_t close = text.find(']');
  WEFT_CHECK(close != std::string::npos, "sample: '", text, "' is no tensor");
  spec.sizes = parse_integers(std::string_view(text).substr(0, close + 1));
  if (close + 1 == text.size()) return spec;
  const size_t less = std::min(text.find('<'), text.size());
  WEFT_CHECK(text[close + 1] == ':', "sample: '", text, "' is no tensor");
  spec.dtype = dtype_of_name(text.substr(close + 2, less - close - 2));
  WEFT_CHECK(spec.dtype.has_value(), "sample: '", text, "' has an unknown dtype");
  if (less < text.size()) spec.below = static_cast<int64_t>(parse_number(text.substr(less + 1)).value());
  return spec;
}

// "[[3,4],[3,5]:i64<4]" -> its elements
std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> items;
  int depth = 0;
  size_t begin = 1;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[') ++depth;
    if (text[i] == ']') --depth;
    if ((depth == 1 && text[i] == ',') || (depth == 0 && i + 1 == text.size())) {
      if (i > begin) items.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    }
  }
  return items;
}

Arg parse_arg(const std::string& text) {
  if (text == "None") return {};
  if (text == "True" || text == "False") return text == "True";
  if (text == "inf" || text == "-inf")
    return text == "inf" ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
  if (text.front() == '[') {
    Arg::List list;
    for (int64_t i : parse_integers(text)) list.push_back(i);
    return list;
  }
  if (const auto number = parse_number(text)) {
    if (text.find_first_of(".e") == std::string::npos) return static_cast<int64_t>(*number);
    return *number;
  }
  return text.front() == '\'' || text.front() == '"' ? text.substr(1, text.size() - 2) : text;
}

bool is_list(ParamType type) {
  return type == ParamType::TensorList || type == ParamType::OptionalTensorList;
}

Sample parse_sample(const Op& op, const std::string& text) {
  Sample sample{text, true, {}};
  for (const auto& [name, value] : split_text(text)) {
    size_t p = 0;
    while (p < op.schema.params.size() && op.schema.params[p].name != name) ++p;
    WEFT_CHECK(p < op.schema.params.size(), op.name(), ": sample '", text, "' names no parameter '", name,
               "'");
    const ParamType type = op.schema.params[p].type;
    Sample::Entry entry{.param = p};
    if (is_list(type)) {
      entry.is_list = true;
      for (const std::string& item : split_list(value)) {
        if (item == "None") entry.nones.push_back(entry.nones.size() + entry.tensors.size());
        else entry.tensors.push_back(parse_tensor(item));
      }
    } else if (op.schema.params[p].is_operand() && value.front() == '[') {
      entry.tensors.push_back(parse_tensor(value));
    } else {
      entry.arg = parse_arg(value);
    }
    sample.entries.push_back(std::move(entry));
  }
  return sample;
}

// ---- Made up --------------------------------------------------------------------------------------------------------

bool is_gradient_formula(const Op& op) {
  return op.kind == Kind::Pointwise && op.schema.params[0].name == "dy";
}
std::vector<int64_t> broadcast(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  return SizesView(broadcast_sizes(SymList(a), SymList(b), "sample"));
}

// Every tensor of these sizes (the second may differ), everything else by default, dimensions as given.
std::optional<Sample> made_up(const Op& op, const std::vector<int64_t>& sizes,
                              const std::vector<int64_t>& other, int64_t dim, bool must_work) {
  Sample sample{"", must_work, {}};
  std::ostringstream text;
  size_t tensors = 0;
  for (size_t p = 0; p < op.schema.params.size(); ++p) {
    const Param& param = op.schema.params[p];
    Sample::Entry entry{.param = p};
    switch (param.type) {
      case ParamType::Tensor:
      case ParamType::Value:
        // A gradient has the sizes of the result.
        if (p == 0 && is_gradient_formula(op)) entry.tensors.push_back({broadcast(sizes, other), {}, 0});
        else entry.tensors.push_back({tensors == 1 ? other : sizes, {}, 0});
        ++tensors;
        break;
      case ParamType::TensorList:
        entry.is_list = true;
        entry.tensors = {{sizes, {}, 0}, {sizes, {}, 0}};
        tensors += 2;
        break;
      default:
        if (param.has_default || param.optional || param.type == ParamType::OptionalTensor ||
            param.type == ParamType::OptionalValue)
          continue;
        if (param.type == ParamType::Int && param.name == "dim") entry.arg = dim;
        else if (param.type == ParamType::Dims) entry.arg = dim;
        else if (param.type == ParamType::Number || param.type == ParamType::Scalar) entry.arg = 2;
        else return std::nullopt;
        text << ' ' << param.name << '=' << (param.name == "dim" || param.type == ParamType::Dims ? dim : 2);
    }
    if (!entry.tensors.empty())
      text << ' ' << param.name << '=' << SizesView(SymList(entry.tensors[0].sizes));
    sample.entries.push_back(std::move(entry));
  }
  if (tensors == 0) return std::nullopt;
  sample.text = text.str().substr(1);
  return sample;
}

// ---- Values ---------------------------------------------------------------------------------------------------------

// A fixed sequence of numbers in [0, 1): the same on every platform.
double fraction(uint64_t seed) {
  uint64_t x = seed * 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return static_cast<double>((x ^ (x >> 31)) >> 11) * 0x1p-53;
}

struct Filler {
  const Op& op;
  Fill fill;
  size_t tensor, num_tensors;

  double floating(size_t i, size_t n) const {
    const Samples& s = op.samples;
    if (fill == Fill::Gradients || s.distinct) {
      // A grid over the range, visited in an order without pattern; each tensor has its own points.
      size_t step = n / 2 + 1;
      while (std::gcd(step, std::max<size_t>(n, 1)) != 1) ++step;
      const double point = static_cast<double>(i * step % std::max<size_t>(n, 1)) +
                           (static_cast<double>(tensor) + 0.5) / static_cast<double>(num_tensors);
      double value = s.low + (s.high - s.low) * point / static_cast<double>(n);
      // Kinks of bodies lie at integers and halves.
      if (std::abs(value * 2 - std::round(value * 2)) < 0.02) value += 0.013;
      // Nor may one value be a simple multiple of another, where quotients jump.
      return value * (1 + 1e-3 * fraction(i * 131 + tensor * 17 + 11));
    }
    double value = s.low + (s.high - s.low) * fraction(i * 31 + tensor * 7919 + 1);
    if (s.nonzero_second && tensor > 0 && std::abs(value) < 0.2)
      value = value < 0 ? value - 0.4 : value + 0.4;
    if (fill == Fill::Specials && s.specials) {
      using Limits = std::numeric_limits<float>;
      constexpr double specials[] = {
          0,    -0.0,  1,   -1, Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(), 1e-40, -1e-40,
          3e38, -3e38, 0.5, 2};
      const size_t pick = static_cast<size_t>(fraction(i * 17 + tensor * 104729 + 3) * 26);
      if (pick < std::size(specials)) return specials[pick];
    }
    return value;
  }

  int64_t integer(size_t i, size_t n, DType dtype) const {
    const Samples& s = op.samples;
    if (s.distinct) return static_cast<int64_t>(floating(i, n) * 16);
    const double r = fraction(i * 31 + tensor * 7919 + 2);
    int64_t value = s.low >= 0              ? 1 + static_cast<int64_t>(r * s.high)
                    : dtype == DType::UInt8 ? static_cast<int64_t>(r * 250)
                                            : static_cast<int64_t>(r * 240) - 120;
    if (s.nonzero_second && tensor > 0 && value == 0) value = 3;
    return value;
  }
};

void fill_tensor(const Tensor& x, const TensorSpec& spec, const Filler& filler) {
  const auto n = static_cast<size_t>(int_numel(x));
  visit(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* to = data_of<T>(x);
    int64_t step = 3;
    while (spec.below > 0 && std::gcd(step, spec.below) != 1) ++step;
    for (size_t i = 0; i < n; ++i) {
      if constexpr (std::is_same_v<T, bool>) {
        to[i] = fraction(i * 13 + filler.tensor * 977 + 5) < 0.6 ||
                (filler.op.samples.nonzero_second && filler.tensor > 0);
      } else if constexpr (std::is_same_v<T, BFloat16>) {
        to[i] = to_bfloat16(filler.floating(i, n));
      } else if constexpr (std::is_same_v<T, Float16>) {
        to[i] = to_float16(filler.floating(i, n));
      } else if constexpr (std::is_floating_point_v<T>) {
        to[i] = static_cast<T>(filler.floating(i, n));
      } else if (spec.below > 0) {
        to[i] = static_cast<T>((static_cast<int64_t>(i) * step + 1) % spec.below);
      } else {
        to[i] = static_cast<T>(filler.integer(i, n, x.dtype()));
      }
    }
  });
}

}  // namespace

std::vector<TensorSpec> Sample::tensors() const {
  std::vector<TensorSpec> all;
  for (const Entry& entry : entries) all.insert(all.end(), entry.tensors.begin(), entry.tensors.end());
  return all;
}

BoundCall Sample::call(const Op& op, const std::vector<Tensor>& tensors) const {
  Kwargs kwargs;
  size_t at = 0;
  for (const Entry& entry : entries) {
    Arg arg = entry.arg;
    if (entry.is_list) {
      Arg::List list;
      for (size_t i = 0; i < entry.tensors.size(); ++i) list.push_back(tensors[at++]);
      for (const size_t none : entry.nones)
        list.insert(list.begin() + static_cast<std::ptrdiff_t>(none), Arg());
      arg = std::move(list);
    } else if (!entry.tensors.empty()) {
      arg = tensors[at++];
    }
    kwargs.emplace_back(op.schema.params[entry.param].name, std::move(arg));
  }
  return bind_call(op, {}, kwargs);
}

std::string test_name_of(const Op& op) {
  std::string name = op.name();
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
}

std::vector<Sample> samples_of(const Op& op) {
  std::vector<Sample> samples;
  for (const std::string& text : op.samples.calls) samples.push_back(parse_sample(op, text));
  if (!samples.empty()) return samples;
  const auto add = [&](std::vector<int64_t> sizes, std::vector<int64_t> other, int64_t dim, bool must_work) {
    if (auto sample = made_up(op, sizes, other, dim, must_work)) samples.push_back(std::move(*sample));
  };
  add({3, 4}, {3, 4}, 0, true);
  for (std::vector<int64_t> sizes :
       std::initializer_list<std::vector<int64_t>>{{2, 3, 5}, {37}, {1, 1}, {2, 0, 3}})
    add(sizes, sizes, -1, false);
  add({}, {}, 0, false);
  if (op.kind == Kind::Pointwise) add({3, 1}, {4}, 0, true);
  return samples;
}

std::vector<Tensor> make_tensors(const Op& op, const Sample& sample, DType dtype, Fill fill) {
  std::vector<Tensor> tensors;
  const std::vector<TensorSpec> specs = sample.tensors();
  for (size_t i = 0; i < specs.size(); ++i) {
    tensors.push_back(make_tensor(SymList(specs[i].sizes), specs[i].dtype.value_or(dtype)));
    fill_tensor(tensors.back(), specs[i], {op, fill, i, specs.size()});
  }
  return tensors;
}

Tensor arranged(const Tensor& x, Arrangement how) {
  const std::vector<int64_t> sizes = x.sizes();
  const size_t rank = sizes.size();
  Layout<Sym> layout = x->layout;
  std::vector<int64_t> storage = sizes;
  int64_t offset = 0;
  switch (how) {
    case Arrangement::Contiguous: return copy_of(x);
    case Arrangement::Transposed: {
      int64_t step = 1;
      for (size_t d = 0; d < rank; ++d) {
        layout.strides[d] = Sym::from_int(step);
        step *= std::max<int64_t>(sizes[d], 1);
      }
      break;
    }
    case Arrangement::Gaps: {
      int64_t step = 2;
      for (size_t d = rank; d-- > 0;) {
        layout.strides[d] = Sym::from_int(step);
        step *= sizes[d] + 1;
      }
      storage = {step + 3};
      offset = 3;
      break;
    }
    case Arrangement::Expanded: {
      if (rank == 0 || sizes[0] < 2) return copy_of(x);
      const Tensor base = copy_of(x);
      layout = base->layout;
      layout.strides[0] = Sym::from_int(0);
      return make_view(base, layout);
    }
  }
  const Tensor base = make_tensor(SymList(storage), x.dtype());
  std::memset(bytes_of(base), 0x5A, base.nbytes());  // what no element may read
  if (x.dtype() == DType::Bool) std::memset(bytes_of(base), 1, base.nbytes());
  layout.offset = Sym::from_int(offset);
  const Tensor view = make_view(base, layout);
  if (int_numel(x) > 0) copy_data(x, view);
  return view;
}

const char* name_of(Arrangement how) {
  constexpr const char* names[] = {"contiguous", "transposed", "with gaps", "expanded"};
  return names[static_cast<int>(how)];
}

}  // namespace weft::tests
