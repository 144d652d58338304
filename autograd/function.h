// Function<T>: user-defined ops with a forward and a backward of their own, in libtorch's spelling.
// Needs node and grad.
//
//   struct Cube : autograd::Function<Cube> {
//     static Tensor forward(autograd::AutogradContext* ctx, const Tensor& x) { ctx->save_for_backward({x}); return x * x * x; }
//     static variable_list backward(autograd::AutogradContext* ctx, variable_list dy) {
//       Tensor x = ctx->get_saved_variables()[0];
//       return {dy[0] * 3 * x * x}; }
//   };
//   Tensor y = Cube::apply(x);
#pragma once

#include <any>
#include <string>
#include <typeinfo>
#include <unordered_map>

#include "autograd/grad.h"
#include "autograd/node.h"

namespace weft::autograd {

// Anything that forward keeps for backward beside tensors: ctx->saved_data["n"] = 3; … saved_data["n"].toInt().
class SavedValue {
 public:
  SavedValue() = default;
  template <class T>
  requires(!std::same_as<std::remove_cvref_t<T>, SavedValue>) SavedValue(T&& value) {  // NOLINT
    using V = std::remove_cvref_t<T>;
    if constexpr (std::same_as<V, bool>) value_ = value;
    else if constexpr (std::integral<V>) value_ = static_cast<int64_t>(value);
    else if constexpr (std::floating_point<V>) value_ = static_cast<double>(value);
    else if constexpr (std::convertible_to<T, std::string>) value_ = std::string(value);
    else value_ = V(std::forward<T>(value));
  }
  template <class T>
  const T& to() const {
    const T* value = std::any_cast<T>(&value_);
    WEFT_CHECK(value != nullptr, "saved_data: the value is read as another type than it was stored with");
    return *value;
  }
  int64_t toInt() const { return to<int64_t>(); }                       // NOLINT: libtorch's names
  double toDouble() const { return to<double>(); }                      // NOLINT
  bool toBool() const { return to<bool>(); }                            // NOLINT
  const std::string& toStringRef() const { return to<std::string>(); }  // NOLINT
  const Tensor& toTensor() const { return to<Tensor>(); }               // NOLINT
  bool has_value() const { return value_.has_value(); }

 private:
  std::any value_;
};

class FunctionNode;

// What forward tells backward.
class AutogradContext {
 public:
  // Inputs or results of forward; other tensors are allowed. Their versions are checked.
  void save_for_backward(variable_list tensors) { to_save_ = std::move(tensors); }
  variable_list get_saved_variables() const;
  std::unordered_map<std::string, SavedValue> saved_data;

  void mark_non_differentiable(const variable_list& outputs) { non_differentiable_ = outputs; }
  // Inputs that forward wrote in place; they must be among its results.
  void mark_dirty(const variable_list& inputs) { dirty_ = inputs; }
  // False: a gradient that did not arrive is undefined in backward, not zeros.
  void set_materialize_grads(bool value) { materialize_grads_ = value; }
  // Whether the argument at this position (tensors only count themselves) needs its gradient.
  bool needs_input_grad(size_t index) const;

 private:
  friend class FunctionNode;
  variable_list to_save_, non_differentiable_, dirty_;
  bool materialize_grads_ = true;
  FunctionNode* node_ = nullptr;
};

// How many steps of user-defined functions this thread has made.
uint64_t num_function_nodes();

class FunctionNode : public Node {
 public:
  explicit FunctionNode(const std::type_info& type);
  const char* name() const override { return name_.c_str(); }
  void apply(Step& step) override;
  void release() override;

  AutogradContext context;

  // Takes the edges of the arguments, if anything is to be recorded. Undefined: an argument that is no tensor.
  void start(const variable_list& arguments);
  // Gives the results of forward their history.
  void finish(const variable_list& arguments, variable_list& outputs);

 protected:
  virtual variable_list run_backward(variable_list gradients) = 0;

 private:
  friend class AutogradContext;
  std::string name_;
  std::vector<SavedTensor> saved_;
  std::vector<uint32_t> saved_slots_;  // which result a saved tensor is
  bool is_recording_ = false, has_saved_ = false, is_released_ = false;
};

namespace detail {
inline void collect(variable_list& list, const Tensor& x) { list.push_back(x); }
inline void collect(variable_list& list, const variable_list& tensors) {
  list.insert(list.end(), tensors.begin(), tensors.end());
}
template <class T>
requires(!std::convertible_to<const T&, const Tensor&> &&
         !std::convertible_to<const T&, const variable_list&>) void collect(variable_list& list, const T&) {
  list.push_back({});
}
}  // namespace detail

// Derive as `struct Mine : Function<Mine>` with static forward(AutogradContext*, args…) -> Tensor or variable_list, and
// static backward(AutogradContext*, variable_list) -> variable_list with one gradient for each argument of forward (those
// of a list count one by one; undefined for what is no tensor or needs none). forward runs without recording; backward
// records if it is itself to be differentiated.
template <class T>
struct Function {
  template <class... Args>
  static auto apply(Args&&... args) {
    struct Mine final : FunctionNode {
      Mine() : FunctionNode(typeid(T)) {}
      variable_list run_backward(variable_list gradients) override {
        return T::backward(&context, std::move(gradients));
      }
    };
    variable_list arguments;
    (detail::collect(arguments, args), ...);
    auto node = make_intrusive<Mine>();
    node->start(arguments);
    using Result = decltype(T::forward(&node->context, std::forward<Args>(args)...));
    Result result;
    {
      const AutoGradMode off(false);
      result = T::forward(&node->context, std::forward<Args>(args)...);
    }
    if constexpr (std::is_same_v<Result, Tensor>) {
      variable_list outputs{std::move(result)};
      node->finish(arguments, outputs);
      return outputs[0];
    } else {
      node->finish(arguments, result);
      return result;
    }
  }
};

}  // namespace weft::autograd
