// Calls of every op with arguments drawn from its schema, hostile ones among them: each gives a result or an Error.
// Needs tests/support/boxed_call. Operands end where memory ends, so that a read or write beyond them stops the program.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <numeric>
#include <random>
#include <sstream>

#include "tensor/base/half.h"
#include "tests/harness/sample.h"
#include "weft.h"

namespace weft::tests {
namespace {

// WEFT_FUZZ_CALLS and WEFT_FUZZ_SEED choose other runs.
uint64_t number_from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

// ---- Saying which call it was -----------------------------------------------------------------------------------------

std::array<char, 2048> current_call;

// Only what a signal handler may do.
void say_current_call(int signal) {
  static_cast<void>(!::write(STDERR_FILENO, "\nthe call: ", 11));
  static_cast<void>(!::write(STDERR_FILENO, current_call.data(), std::strlen(current_call.data())));
  static_cast<void>(!::write(STDERR_FILENO, "\n", 1));
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

class SignalHandlers {
 public:
  SignalHandlers() {
    for (size_t i = 0; i < kSignals.size(); ++i) before_[i] = std::signal(kSignals[i], say_current_call);
  }
  ~SignalHandlers() {
    for (size_t i = 0; i < kSignals.size(); ++i) std::signal(kSignals[i], before_[i]);
  }

 private:
  static constexpr std::array kSignals = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
  std::array<void (*)(int), kSignals.size()> before_{};
};

// ---- Memory between pages that nobody may touch -----------------------------------------------------------------------

class GuardedBlock {
 public:
  // The bytes end at the page behind, or begin at the page before.
  GuardedBlock(size_t bytes, bool at_end) : bytes_(bytes) {
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    const size_t inner = (bytes + page - 1) / page * page;
    length_ = inner + 2 * page;
    void* const memory = ::mmap(nullptr, length_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    WEFT_ASSERT(memory != MAP_FAILED, "no memory for a block with guard pages");
    base_ = static_cast<std::byte*>(memory);
    if (inner > 0) WEFT_ASSERT(::mprotect(base_ + page, inner, PROT_READ | PROT_WRITE) == 0, "mprotect");
    begin_ = base_ + page + (at_end ? inner - bytes : 0);
  }
  ~GuardedBlock() { ::munmap(base_, length_); }
  GuardedBlock(const GuardedBlock&) = delete;
  GuardedBlock& operator=(const GuardedBlock&) = delete;

  std::byte* begin() const { return begin_; }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_, length_;
  std::byte *base_, *begin_;
};

// ---- Arguments --------------------------------------------------------------------------------------------------------

// A tensor in a guarded block, and what the block held before the call.
struct Guarded {
  Tensor tensor;
  std::shared_ptr<GuardedBlock> block;
  std::vector<std::byte> before;
  std::vector<bool> is_covered;  // by byte: an element of the tensor lies there
};

class Drawing {
 public:
  explicit Drawing(uint64_t seed) : random_(seed) {}

  bool one_in(uint64_t n) { return random_() % n == 0; }
  size_t below(size_t n) { return static_cast<size_t>(random_() % n); }
  template <class T>
  T from(std::initializer_list<T> choices) {
    return choices.begin()[below(choices.size())];
  }

  Kwargs arguments(const Op& op) {
    tensors_.clear();
    common_dtype_ = one_in(3) ? any_dtype() : from({DType::Float32, DType::Float64, DType::Int64});
    common_sizes_ = sizes();
    text_ = {};
    text_ << op.name() << '(';
    Kwargs args;
    for (const Param& param : op.schema.params) {
      if (param.has_default && one_in(2)) continue;
      text_ << (args.empty() ? "" : ", ") << param.name << '=';
      args.emplace_back(param.name, argument(param));
    }
    text_ << ')';
    return args;
  }

  std::string text() const { return text_.str(); }
  const std::deque<Guarded>& tensors() const { return tensors_; }

 private:
  using Ints = std::vector<int64_t>;

  DType any_dtype() { return static_cast<DType>(below(kNumDTypes)); }

  Ints sizes() {
    Ints result(from<size_t>({0, 1, 1, 2, 2, 2, 3, 3, 4}));
    for (int64_t& size : result) size = from<int64_t>({0, 1, 1, 2, 3, 3, 4, 5, 8, 16, 17, 33});
    while (std::accumulate(result.begin(), result.end(), int64_t{1}, std::multiplies<>()) > 20000)
      result.pop_back();
    return result;
  }

  // Near what the tensors before it have, so that calls get past the first check.
  Ints related_sizes() {
    Ints result = common_sizes_;
    switch (below(12)) {
      case 0: return sizes();
      case 1:
        if (!result.empty()) result.erase(result.begin());
        break;
      case 2:
        if (!result.empty()) result[below(result.size())] = from<int64_t>({0, 1, 2, 3, 5});
        break;
      case 3: result.insert(result.begin(), from<int64_t>({1, 2, 3})); break;
      case 4:
        if (result.size() > 1) std::swap(result[result.size() - 1], result[result.size() - 2]);
        break;
      case 5: result.resize(1, 3); break;
      default: break;
    }
    return result;
  }

  // Nothing in between: lengths of 2^31 fit in memory and take long.
  int64_t integer() {
    constexpr int64_t kMin = std::numeric_limits<int64_t>::min(), kMax = std::numeric_limits<int64_t>::max();
    if (one_in(12))
      return from<int64_t>({kMin, kMin + 1, kMax, kMax - 1, int64_t{1} << 44, -(int64_t{1} << 31), 1000});
    return static_cast<int64_t>(below(9)) - 4;
  }

  double number() {
    if (one_in(4)) return from<double>({NAN, HUGE_VAL, -HUGE_VAL, 1e300, -1e300, 1e-300, 5e-324, 3e38, -0.0});
    return (static_cast<double>(below(4001)) - 2000) / from<double>({1, 100, 1000});
  }

  Arg scalar() {
    switch (below(4)) {
      case 0: return one_in(2);
      case 1: return integer();
      default: return number();
    }
  }

  // Sizes that fit in no memory are among them, but none that fit and take long.
  Ints size_list() {
    if (one_in(3)) return related_sizes();
    Ints result(below(5));
    for (int64_t& size : result)
      size = one_in(15)
                 ? from<int64_t>({int64_t{1} << 50, int64_t{1} << 62, std::numeric_limits<int64_t>::max(),
                                  std::numeric_limits<int64_t>::min(), -2})
             : one_in(6) ? -1
                         : from<int64_t>({0, 1, 1, 2, 3, 4, 6});
    return result;
  }

  template <class T>
  static T element(Drawing& d, bool is_index) {
    if constexpr (std::is_same_v<T, bool>) return d.one_in(2);
    else if constexpr (std::is_integral_v<T>) {
      if (is_index) return static_cast<T>(d.below(3));
      return static_cast<T>(d.one_in(8) ? d.integer() : static_cast<int64_t>(d.below(13)) - 6);
    } else if constexpr (std::is_same_v<T, BFloat16>) return to_bfloat16(d.number());
    else if constexpr (std::is_same_v<T, Float16>) return to_float16(d.number());
    else return static_cast<T>(d.number());
  }

  Tensor tensor() {
    if (one_in(60)) {
      text_ << "undefined";
      return Tensor();
    }
    if (!tensors_.empty() && one_in(12)) {
      text_ << "the same as an earlier one";
      return tensors_[below(tensors_.size())].tensor;
    }
    const DType dtype = !one_in(5) ? common_dtype_ : one_in(2) ? DType::Int64 : any_dtype();
    const Ints size = related_sizes();
    // Strides, in elements.
    Ints strides(size.size());
    std::vector<size_t> order(size.size());
    std::iota(order.begin(), order.end(), size_t{0});
    const size_t layout = below(6);
    if (layout == 1) std::reverse(order.begin(), order.end());
    if (layout == 2) std::shuffle(order.begin(), order.end(), random_);
    int64_t step = layout == 3 ? 2 : 1;
    for (size_t i = order.size(); i-- > 0;) {
      strides[order[i]] = step;
      step *= std::max<int64_t>(size[order[i]], 1) + (layout == 3 && one_in(2) ? 1 : 0);
    }
    if (layout == 4 && !size.empty()) strides[below(size.size())] = 0;  // an expanded one
    const bool is_empty = std::find(size.begin(), size.end(), 0) != size.end();
    int64_t last = is_empty ? -1 : 0;
    for (size_t d = 0; !is_empty && d < size.size(); ++d) last += (size[d] - 1) * strides[d];

    Guarded& made = tensors_.emplace_back();
    const size_t width = size_of(dtype);
    made.block = std::make_shared<GuardedBlock>(static_cast<size_t>(last + 1) * width, !one_in(3));
    const bool is_index = one_in(2);
    visit(dtype, [&](auto zero) {
      using T = decltype(zero);
      T* const to = reinterpret_cast<T*>(made.block->begin());
      for (int64_t i = 0; i <= last; ++i) to[i] = element<T>(*this, is_index);
    });
    // With gaps that nobody looks at.
    made.before.assign(made.block->begin(), made.block->begin() + made.block->bytes());
    made.is_covered.assign(made.block->bytes(), false);
    Ints at(size.size());
    for (bool more = !is_empty; more;) {
      int64_t offset = 0;
      for (size_t d = 0; d < at.size(); ++d) offset += at[d] * strides[d];
      for (size_t b = 0; b < width; ++b) made.is_covered[static_cast<size_t>(offset) * width + b] = true;
      more = false;
      for (size_t d = at.size(); d-- > 0;) {
        if (++at[d] < size[d]) {
          more = true;
          break;
        }
        at[d] = 0;
      }
    }
    made.tensor = from_blob(made.block->begin(), SymList(size), SymList(strides), TensorOptions(dtype));
    text_ << short_name_of(dtype) << SizesView(SymList(size)) << " strides " << SizesView(SymList(strides));
    if (is_floating(dtype) && one_in(3)) {
      made.tensor.requires_grad_();
      text_ << " requires grad";
    }
    return made.tensor;
  }

  Arg argument(const Param& param) {
    const bool may_be_none =
        param.optional || param.type == ParamType::OptionalTensor || param.type == ParamType::OptionalValue;
    if (may_be_none && one_in(2)) {
      text_ << "None";
      return {};
    }
    switch (param.type) {
      case ParamType::Tensor:
      case ParamType::OptionalTensor: return tensor();
      case ParamType::Value:
      case ParamType::OptionalValue:
        if (!one_in(3)) return tensor();
        [[fallthrough]];
      case ParamType::Number:
      case ParamType::Scalar: return said(scalar());
      case ParamType::TensorList:
      case ParamType::OptionalTensorList: {
        Arg::List list;
        text_ << '{';
        for (size_t i = below(4); i-- > 0;) {
          if (param.type == ParamType::OptionalTensorList && one_in(3)) list.emplace_back();
          else list.emplace_back(tensor());
          text_ << "; ";
        }
        text_ << '}';
        return list;
      }
      case ParamType::Bool: return said(one_in(2));
      case ParamType::Int: return said(integer());
      case ParamType::Float: return said(number());
      case ParamType::Dims: {
        Ints dims(below(4));
        for (int64_t& dim : dims) dim = integer();
        return list_of(dims);
      }
      case ParamType::Sizes: return list_of(size_list());
      case ParamType::DType: return said(Arg(std::string(short_name_of(any_dtype()))));
      case ParamType::Device: return said(Arg(one_in(8) ? "cuda" : "cpu"));
      case ParamType::String:
        return said(
            Arg(from<const char*>({"sum", "mean", "none", "prod", "amax", "amin", "tanh", "trunc", "floor",
                                   "constant", "reflect", "replicate", "circular", "ij", "xy", "x", ""})));
      case ParamType::Routine: break;
    }
    return {};
  }

  Arg list_of(const Ints& numbers) {
    Arg::List list;
    text_ << '[';
    for (const int64_t number : numbers) {
      list.emplace_back(number);
      text_ << number << ' ';
    }
    text_ << ']';
    return list;
  }

  Arg said(Arg arg) {
    if (const auto* b = arg.get<bool>()) text_ << (*b ? "true" : "false");
    if (const auto* i = arg.get<int64_t>()) text_ << *i;
    if (const auto* d = arg.get<double>()) text_ << *d;
    if (const auto* s = arg.get<std::string>()) text_ << '"' << *s << '"';
    return arg;
  }

  std::mt19937_64 random_;
  std::deque<Guarded> tensors_;  // stable addresses
  DType common_dtype_ = DType::Float32;
  Ints common_sizes_;
  std::ostringstream text_;
};

// ---- Calls ------------------------------------------------------------------------------------------------------------

// Expanded to sizes that nobody could compute with, for one.
bool is_huge(const Tensor& x) { return x.numel() > (1 << 20); }

// Reads every element.
void read(const Tensor& x) {
  if (!x.defined() || x.dtype() == DType::Bool || is_huge(x)) return;
  const NoGradGuard off;
  static_cast<void>(x.detach().sum());
}

struct Counts {
  uint64_t worked = 0, refused = 0, differentiated = 0;
};

// What is wrong with a call, or nothing.
std::string call_once(const Op& op, Drawing& drawing, Counts& counts) {
  const Kwargs args = drawing.arguments(op);
  const std::string text = drawing.text();
  std::strncpy(current_call.data(), text.c_str(), current_call.size() - 1);
  bool is_refused = false;
  try {
    Tensor total;
    {
      const BoundCall call = bind_call(op, {}, args);
      const std::vector<Tensor> results = call.run();
      ++counts.worked;
      for (const Tensor& result : results) {
        read(result);
        if (!result.defined() || !result.requires_grad() || is_huge(result)) continue;
        const Tensor part = (result * 0.5).sum();
        total = total.defined() ? total + part.to(total.dtype()) : part;
      }
    }
    if (total.defined() && !op.is_random) {
      total.backward();
      ++counts.differentiated;
    }
  } catch (const InternalError& error) {
    return error.what();
  } catch (const Error& error) {
    if (std::string(error.what()).empty()) return "an Error without text";
    is_refused = true;
  } catch (const std::exception& error) {
    return std::string("no Error, but ") + error.what();
  }
  counts.refused += is_refused;
  const bool is_in_place = op.name().ends_with('_');
  for (size_t i = 0; i < drawing.tensors().size(); ++i) {
    const Guarded& given = drawing.tensors()[i];
    const bool may_be_written = is_in_place && i == 0;
    for (size_t b = 0; b < given.before.size(); ++b)
      if (given.block->begin()[b] != given.before[b] && !(may_be_written && given.is_covered[b]))
        return detail::concat("operand ", i, " was written at byte ", b);
  }
  return {};
}

TEST(Fuzz, CallsGiveResultsOrErrorsAndTouchNothingElse) {
  const uint64_t num_calls = number_from_environment("WEFT_FUZZ_CALLS", 4000),
                 seed = number_from_environment("WEFT_FUZZ_SEED", 1);
  std::vector<const Op*> ops = OpTable::instance().all();
  std::erase_if(ops, [](const Op* op) {
    return std::any_of(op->schema.params.begin(), op->schema.params.end(),
                       [](const Param& param) { return param.type == ParamType::Routine; });
  });
  const char* only = std::getenv("WEFT_FUZZ_OP");
  if (only != nullptr) ops = {&OpTable::instance().get(only)};
  const SignalHandlers handlers;
  Counts counts;
  std::map<std::string, int> failures;
  for (uint64_t i = 0; i < num_calls && failures.size() < 20; ++i) {
    // Every call can be made alone: by its own number as the seed.
    Drawing drawing(seed * 1'000'003 + i);
    const Op& op = *ops[i % ops.size()];
    const std::string wrong = call_once(op, drawing, counts);
    if (wrong.empty() || failures[op.name()]++ > 0) continue;
    ADD_FAILURE() << drawing.text() << "\n(call " << i << " of seed " << seed << "): " << wrong;
  }
  // Draws that all are refused would test nothing.
  if (only == nullptr) {
    EXPECT_GT(counts.worked, num_calls / 10);
    EXPECT_GT(counts.differentiated, num_calls / 100);
  }
  RecordProperty("worked", static_cast<int>(counts.worked));
  if (num_calls > 4000)
    std::printf("%llu calls: %llu worked, %llu of them differentiated, %llu refused\n",
                static_cast<unsigned long long>(num_calls), static_cast<unsigned long long>(counts.worked),
                static_cast<unsigned long long>(counts.differentiated),
                static_cast<unsigned long long>(counts.refused));
}

}  // namespace
}  // namespace weft::tests
