// ModuleHolder: a shared handle to a module, used as a value: `nn::Linear fc(4, 2); fc(x); fc->weight`.
// Needs module. WEFT_MODULE(Name) makes one for the user's NameImpl.
#pragma once

#include <typeinfo>

#include "nn/module.h"

namespace weft::nn {

namespace detail {

[[noreturn]] void throw_empty_holder(const char* type);

// What single-tensor and pair-of-tensors calls convert to, carrying the caller's line.
template <class... Args>
concept TensorsOnly = sizeof...(Args) >= 1 && sizeof...(Args) <= 2 &&
                      (std::is_convertible_v<Args, const Tensor&> && ...);

// module.forward(args…), with the caller's line where it takes one; an error on its way out names the module.
template <class M, class... Args>
decltype(auto) call_forward(M& module, SourceLocation where, Args&&... args) {
  try {
    if constexpr (requires { module.forward(std::forward<Args>(args)..., where); })
      return module.forward(std::forward<Args>(args)..., where);
    else return module.forward(std::forward<Args>(args)...);
  } catch (Error& error) {
    module.add_context(error);
    throw;
  }
}

}  // namespace detail

template <class Contained>
class ModuleHolder {
 public:
  using Impl = Contained;
  using ContainedType = Contained;

  ModuleHolder() requires std::is_default_constructible_v<Contained> : impl_(std::make_shared<Contained>()) {}
  // An empty handle, to be assigned later.
  ModuleHolder(std::nullptr_t) {}  // NOLINT
  template <class Head, class... Tail>
  requires(!(sizeof...(Tail) == 0 && (std::is_base_of_v<ModuleHolder, std::remove_cvref_t<Head>> ||
                                      std::is_convertible_v<Head, std::shared_ptr<Contained>>)) &&
           std::is_constructible_v<Contained, Head, Tail...>) explicit ModuleHolder(Head&& head,
                                                                                    Tail&&... tail)
      : impl_(std::make_shared<Contained>(std::forward<Head>(head), std::forward<Tail>(tail)...)) {}
  ModuleHolder(std::shared_ptr<Contained> module) : impl_(std::move(module)) {}  // NOLINT

  explicit operator bool() const { return impl_ != nullptr; }
  bool is_empty() const { return impl_ == nullptr; }
  Contained* operator->() const { return get(); }
  Contained& operator*() const { return *get(); }
  Contained* get() const {
    if (impl_ == nullptr) [[unlikely]]
      detail::throw_empty_holder(typeid(Contained).name());
    return impl_.get();
  }
  const std::shared_ptr<Contained>& ptr() const {
    get();
    return impl_;
  }

  // Calls forward. The place is the caller's for one or two tensors; layers hand it to their ops.
  decltype(auto) operator()(const Tensor& x, WEFT_HERE) const {
    return detail::call_forward(*get(), where, x);
  }
  decltype(auto) operator()(const Tensor& x, const Tensor& y, WEFT_HERE) const {
    return detail::call_forward(*get(), where, x, y);
  }
  template <class... Args>
  requires(!detail::TensorsOnly<Args...>) decltype(auto) operator()(Args&&... args) const {
    return detail::call_forward(*get(), SourceLocation(), std::forward<Args>(args)...);
  }

 private:
  std::shared_ptr<Contained> impl_;
};

std::ostream& operator<<(std::ostream& out, const ModuleHolder<Module>& holder);
template <class Contained>
std::ostream& operator<<(std::ostream& out, const ModuleHolder<Contained>& holder) {
  return out << static_cast<const Module&>(*holder);
}

}  // namespace weft::nn

// The handle of a module class: WEFT_MODULE(Net) makes Net from NetImpl.
#define WEFT_MODULE_IMPL(Name, ImplType)                    \
  class Name : public ::weft::nn::ModuleHolder<ImplType> {  \
   public:                                                  \
    using ::weft::nn::ModuleHolder<ImplType>::ModuleHolder; \
    using Impl = ImplType;                                  \
  }
#define WEFT_MODULE(Name) WEFT_MODULE_IMPL(Name, Name##Impl)
