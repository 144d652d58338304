// What option structs are made of: builder methods that are also getters, and the keywords that options take.
// Needs tensor/state_epoch.
#pragma once

#include <string_view>

#include "tensor/state_epoch.h"

namespace weft {

// A word that an option takes: reduction(kSum), reduction("sum").
struct Keyword {
  constexpr Keyword(std::string_view t) : text(t) {}  // NOLINT
  constexpr Keyword(const char* t) : text(t) {}       // NOLINT
  constexpr operator std::string_view() const { return text; }
  friend constexpr bool operator==(Keyword a, Keyword b) { return a.text == b.text; }
  std::string_view text;  // of static storage
};

inline constexpr Keyword kNone = "none", kMean = "mean", kSum = "sum", kBatchMean = "batchmean";
inline constexpr Keyword kFanIn = "fan_in", kFanOut = "fan_out";
inline constexpr Keyword kLinear = "linear", kConv1D = "conv1d", kConv2D = "conv2d", kConv3D = "conv3d",
                         kReLU = "relu", kLeakyReLU = "leaky_relu", kTanh = "tanh", kSigmoid = "sigmoid",
                         kSELU = "selu";

namespace nn {

// Options that a living module reads: a change may be one that a compiled function has to notice.
struct LiveOptions {
  static void changed() { bump_state_epoch(); }
};
// Options of one call of a function.
struct CallOptions {
  static void changed() {}
};

}  // namespace nn
}  // namespace weft

// A field of an option struct: options.name(value) sets it and returns the struct, options.name() reads it.
#define WEFT_OPTION_OF(Change, Type, name, ...)         \
 public:                                                \
  auto name(const Type& value)->decltype(*this) {       \
    Change::changed();                                  \
    name##_ = value;                                    \
    return *this;                                       \
  }                                                     \
  const Type& name() const noexcept { return name##_; } \
                                                        \
 private:                                               \
  Type name##_ = __VA_ARGS__;                           \
                                                        \
 public:
#define WEFT_OPTION(Type, name, ...) WEFT_OPTION_OF(::weft::nn::LiveOptions, Type, name, __VA_ARGS__)
#define WEFT_CALL_OPTION(Type, name, ...) WEFT_OPTION_OF(::weft::nn::CallOptions, Type, name, __VA_ARGS__)
