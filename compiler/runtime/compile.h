// compile(fn): traces a function at its first call and runs the compiled program at later ones.
// Needs typed_callee and compiled_function; part of weft.h, so what can stand in a .cpp does.
#pragma once

#include "compiler/runtime/compiled_function.h"
#include "compiler/trace/typed_callee.h"

namespace weft {

// ---- Off and on -------------------------------------------------------------------------------------------------------

namespace detail {
inline constinit thread_local int8_t compile_mode =
    -1;  // of this thread: -1 as the environment says, 0 off, 1 on
bool is_compile_enabled_by_environment();
}  // namespace detail

// False under WEFT_COMPILE=0 or a CompileGuard(false): compiled functions then run as they were written.
inline bool is_compile_enabled() {
  return detail::compile_mode < 0 ? detail::is_compile_enabled_by_environment() : detail::compile_mode == 1;
}

// Turns compilation off or on for this thread until the end of the scope.
class CompileGuard {
 public:
  explicit CompileGuard(bool enabled) : before_(detail::compile_mode) { detail::compile_mode = enabled; }
  ~CompileGuard() { detail::compile_mode = before_; }
  CompileGuard(const CompileGuard&) = delete;
  CompileGuard& operator=(const CompileGuard&) = delete;

 private:
  int8_t before_;
};

// ---- What compile() returns -------------------------------------------------------------------------------------------

namespace compiler::detail {

template <class F, class R, class... Params>
std::decay_t<R> call(CompiledFunction& core, F& function, uint64_t seed, Pass<Params>... arguments) {
  TypedCallee<F, R, Params...> callee(function, core.options().arguments,
                                      static_cast<Pass<Params>>(arguments)...);
  if (!is_compile_enabled()) [[unlikely]] {
    callee.run_eager();
  } else {
    ArgumentLeaves leaves;
    leaves.structure = seed;
    callee.collect(leaves);
    core.call(leaves, callee);
  }
  return callee.take();
}

// Tells lists of types apart.
template <class... T>
constexpr uint64_t seed_of_types() {
  uint64_t hash = 0xCBF29CE484222325u;
  for (const char* c = __PRETTY_FUNCTION__; *c != 0; ++c)
    hash = (hash ^ static_cast<uint8_t>(*c)) * 0x100000001B3u;
  return hash;
}

template <class F>
struct CompiledState {
  F function;
  CompiledFunction core;
  CompiledState(F f, CompileOptions options, SourceLocation where)
      : function(std::move(f)), core(std::move(options), where) {}
};

}  // namespace compiler::detail

// Copies share what was compiled. Thread-safe, as far as the function is. This one is of a callable whose operator() is a
// template, [](auto x) { … }: each list of argument types has its own programs.
template <class F>
class Compiled {
 public:
  Compiled(F function, CompileOptions options, SourceLocation where)
      : state_(std::make_shared<State>(std::move(function), std::move(options), where)) {}

  template <class... Args>
  auto operator()(Args&&... args) const {
    static constexpr uint64_t seed = compiler::detail::seed_of_types<Args&&...>();
    return compiler::detail::call<F, std::invoke_result_t<F&, Args...>, Args&&...>(
        state_->core, state_->function, seed, std::forward<Args>(args)...);
  }
  compiler::CompiledFunction& core() const { return state_->core; }

 private:
  using State = compiler::detail::CompiledState<F>;
  std::shared_ptr<State> state_;
};

// Of one signature. A result by reference becomes one by value.
template <class R, class... Args>
class Compiled<R(Args...)> {
 public:
  using Function = std::function<R(Args...)>;
  Compiled(Function function, CompileOptions options, SourceLocation where)
      : state_(std::make_shared<State>(std::move(function), std::move(options), where)) {}

  std::decay_t<R> operator()(compiler::detail::Pass<Args>... args) const {
    return compiler::detail::call<Function, R, Args...>(state_->core, state_->function, 0,
                                                        static_cast<compiler::detail::Pass<Args>>(args)...);
  }
  compiler::CompiledFunction& core() const { return state_->core; }

 private:
  using State = compiler::detail::CompiledState<Function>;
  std::shared_ptr<State> state_;
};

// ---- compile() ----------------------------------------------------------------------------------------------------------

namespace compiler::detail {

template <class R, class... Args>
struct Signature {
  using type = R(Args...);
};
// A place that the caller's line defaults to is no argument.
template <class Done, class R, class... Args>
struct WithoutPlace;
template <class... Done, class R>
struct WithoutPlace<std::tuple<Done...>, R> : Signature<R, Done...> {};
template <class... Done, class R>
struct WithoutPlace<std::tuple<Done...>, R, SourceLocation> : Signature<R, Done...> {};
template <class... Done, class R, class Head, class... Tail>
struct WithoutPlace<std::tuple<Done...>, R, Head, Tail...>
    : WithoutPlace<std::tuple<Done..., Head>, R, Tail...> {};

template <class P>
struct SignatureOf;
#define WEFT_SIGNATURE(qualifiers)           \
  template <class C, class R, class... Args> \
  struct SignatureOf<R (C::*)(Args...) qualifiers> : WithoutPlace<std::tuple<>, R, Args...> {}
WEFT_SIGNATURE();
WEFT_SIGNATURE(const);
WEFT_SIGNATURE(noexcept);
WEFT_SIGNATURE(const noexcept);
#undef WEFT_SIGNATURE
template <class R, class... Args>
struct SignatureOf<R (*)(Args...)> : Signature<R, Args...> {};
template <class R, class... Args>
struct SignatureOf<R (*)(Args...) noexcept> : Signature<R, Args...> {};

// Calls forward of a module, with the place where it was compiled if it takes one; errors name the module where it can.
template <class Handle>
struct Forward {
  Handle module;
  SourceLocation where;

  template <class... Args>
  decltype(auto) operator()(Args&&... args) const {
    auto& target = *module;
    try {
      if constexpr (requires { target.forward(std::forward<Args>(args)..., where); })
        return target.forward(std::forward<Args>(args)..., where);
      else return target.forward(std::forward<Args>(args)...);
    } catch (Error& error) {
      if constexpr (requires { target.add_context(error); }) target.add_context(error);
      throw;
    }
  }
};

template <class Handle>
auto compile_module(Handle module, CompileOptions options, SourceLocation where) {
  using M = std::remove_reference_t<decltype(*module)>;
  WEFT_CHECK(static_cast<bool>(module), "compile: the handle holds no module");
  Forward<Handle> forward{std::move(module), where};
  if constexpr (requires { &M::forward; })
    return Compiled<typename SignatureOf<decltype(&M::forward)>::type>(std::move(forward), std::move(options),
                                                                       where);
  else return Compiled<Forward<Handle>>(std::move(forward), std::move(options), where);
}

}  // namespace compiler::detail

// Returns a callable of the same signature that traces `function` at its first call, and afterwards runs what was
// compiled from the trace. Takes lambdas, functions, functors and modules (a handle, or a module that outlives the result).
template <class F>
auto compile(F&& function, CompileOptions options = {}, WEFT_HERE) {
  using Plain = std::decay_t<F>;
  if constexpr (compiler::detail::StateHandle<Plain>) {
    return compiler::detail::compile_module(Plain(std::forward<F>(function)), std::move(options), where);
  } else if constexpr (VisitsState<Plain> && !std::is_invocable_v<Plain&>) {
    static_assert(std::is_lvalue_reference_v<F>,
                  "compile: this module ends with the statement; keep it in a variable or a shared_ptr");
    if constexpr (requires { function.shared_from_this(); }) {
      if (auto owner = function.weak_from_this().lock())
        return compiler::detail::compile_module(std::shared_ptr<Plain>(std::move(owner), &function),
                                                std::move(options), where);
      return compiler::detail::compile_module(std::shared_ptr<Plain>(std::shared_ptr<void>(), &function),
                                              std::move(options), where);
    } else {
      return compiler::detail::compile_module(&function, std::move(options), where);
    }
  } else if constexpr (std::is_pointer_v<Plain>) {
    return Compiled<typename compiler::detail::SignatureOf<Plain>::type>(std::forward<F>(function),
                                                                         std::move(options), where);
  } else if constexpr (requires { &Plain::operator(); }) {
    using Signature = typename compiler::detail::SignatureOf<decltype(&Plain::operator())>::type;
    if constexpr (std::is_copy_constructible_v<Plain>)
      return Compiled<Signature>(std::forward<F>(function), std::move(options), where);
    else  // std::function wants to copy
      return Compiled<Signature>(
          [held = std::make_shared<Plain>(std::forward<F>(function))]<class... Args>(
              Args&&... args) -> decltype(auto) { return (*held)(std::forward<Args>(args)...); },
          std::move(options), where);
  } else {
    return Compiled<Plain>(std::forward<F>(function), std::move(options), where);
  }
}
// With a backend by name.
template <class F, std::convertible_to<std::string> Name>
auto compile(F&& function, const Name& backend, WEFT_HERE) {
  CompileOptions options;
  options.backend = Backend(std::string(backend));
  return compile(std::forward<F>(function), std::move(options), where);
}

// What compile() makes of the function for these arguments. A compiled function that has no program yet is called with
// them once; a plain callable is compiled and called once.
template <class F, class... Args>
Explanation explain(F&& function, Args&&... arguments) {
  if constexpr (requires { function.core().explanation(); }) {
    Explanation known = function.core().explanation();
    if (!known.entries.empty()) return known;
    function(std::forward<Args>(arguments)...);
    return function.core().explanation();
  } else {
    const auto compiled = compile(std::forward<F>(function), CompileOptions(), SourceLocation());
    compiled(std::forward<Args>(arguments)...);
    return compiled.core().explanation();
  }
}

}  // namespace weft
