// <torch/torch.h> for programs written against libtorch's C++ frontend: the namespace torch is weft.
// Place: put compat/ on the include path; nothing in Weft includes it.
#pragma once

#include "weft.h"

namespace torch = weft;
namespace at = weft;

// TORCH_MODULE(Net) makes the handle Net of NetImpl.
#define TORCH_MODULE_IMPL(Name, ImplType) WEFT_MODULE_IMPL(Name, ImplType)
#define TORCH_MODULE(Name) WEFT_MODULE(Name)

// Throws weft::Error with the message, or with the condition where there is none.
#define TORCH_CHECK(condition, ...) \
  WEFT_CHECK(condition, ::weft::compat::check_message("expected " #condition __VA_OPT__(, ) __VA_ARGS__))

namespace weft::compat {
// The parts after the first, or the first where it is alone.
template <class... Parts>
std::string check_message(const char* condition, const Parts&... parts) {
  if constexpr (sizeof...(Parts) == 0) return condition;
  else return ::weft::detail::concat(parts...);
}
}  // namespace weft::compat
