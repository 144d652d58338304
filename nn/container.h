// Modules made of modules: Sequential, ModuleList, ModuleDict, and Functional, which makes a module of a function.
// Needs module_holder.
#pragma once

#include "nn/module_holder.h"

namespace weft::nn {

// A module out of a function of one tensor: nn::Functional([](const Tensor& x) { return x.square(); }).
class FunctionalImpl : public Module {
 public:
  explicit FunctionalImpl(std::function<Tensor(const Tensor&)> function) : function_(std::move(function)) {}
  Tensor forward(const Tensor& x) { return function_(x); }

 private:
  std::function<Tensor(const Tensor&)> function_;
};
WEFT_MODULE(Functional);

// A module whose forward takes one tensor and gives one, with its type forgotten.
struct Layer {
  template <std::derived_from<Module> M>
  Layer(std::shared_ptr<M> m)  // NOLINT
      : module(std::move(m)), run([](Module& self, const Tensor& x, SourceLocation where) -> Tensor {
          return detail::call_forward(static_cast<M&>(self), where, x);
        }) {}
  template <class M>
  Layer(const ModuleHolder<M>& holder) : Layer(holder.ptr()) {}  // NOLINT

  std::shared_ptr<Module> module;
  Tensor (*run)(Module&, const Tensor&, SourceLocation);
};

namespace detail {
template <class T>
concept LayerLike = requires(const T& t) {
  Layer(t);
};
}  // namespace detail

// Layers one after the other: nn::Sequential(nn::Linear(4, 8), nn::ReLU(), nn::Linear(8, 2)).
// Named ones: nn::Sequential({{"in", nn::Linear(4, 8)}, {"act", nn::ReLU()}}).
class SequentialImpl : public Module {
 public:
  SequentialImpl() = default;
  template <detail::LayerLike... Layers>
  requires(sizeof...(Layers) > 0) explicit SequentialImpl(const Layers&... layers) {
    (push_back(layers), ...);
  }
  explicit SequentialImpl(const OrderedDict<Layer>& layers) {
    for (const auto& [name, layer] : layers) push_back(name, layer);
  }
  SequentialImpl(std::initializer_list<OrderedDict<Layer>::Item> layers) {
    for (const auto& [name, layer] : layers) push_back(name, layer);
  }

  // Without a name the layer's number is its name.
  template <detail::LayerLike L>
  void push_back(const L& layer) {
    add(std::to_string(layers_.size()), Layer(layer));
  }
  template <detail::LayerLike L>
  void push_back(std::string name, const L& layer) {
    add(std::move(name), Layer(layer));
  }
  void push_back(std::string name, Layer layer) { add(std::move(name), std::move(layer)); }

  Tensor forward(const Tensor& x, WEFT_HERE);
  size_t size() const { return layers_.size(); }
  bool is_empty() const { return layers_.empty(); }
  std::shared_ptr<Module> ptr(size_t i) const;
  std::shared_ptr<Module> operator[](size_t i) const { return ptr(i); }
  // The layer as its own type. Error if it has another.
  template <class M>
  auto& at(size_t i) const {
    auto* typed = ptr(i)->template as<M>();
    WEFT_CHECK(typed != nullptr, "Sequential: layer ", i, " is ", ptr(i)->describe(),
               ", not of the type asked for");
    return *typed;
  }

 private:
  void add(std::string name, Layer layer);

  std::vector<Layer> layers_;
};

class Sequential : public ModuleHolder<SequentialImpl> {
 public:
  using ModuleHolder<SequentialImpl>::ModuleHolder;
  using Impl = SequentialImpl;
  Sequential() = default;
  Sequential(std::initializer_list<OrderedDict<Layer>::Item> layers)
      : ModuleHolder(std::make_shared<SequentialImpl>(layers)) {}
};

// Modules by number. It has no forward: the owner calls them.
class ModuleListImpl : public Module {
 public:
  ModuleListImpl() = default;
  template <class... Modules>
  requires(sizeof...(Modules) > 0 &&
           (detail::LayerLike<Modules> && ...)) explicit ModuleListImpl(const Modules&... modules) {
    (push_back(modules), ...);
  }
  template <std::derived_from<Module> M>
  void push_back(std::shared_ptr<M> module) {
    register_module(std::to_string(size()), std::move(module));
  }
  template <class M>
  void push_back(const ModuleHolder<M>& holder) {
    push_back(holder.ptr());
  }
  size_t size() const { return children().size(); }
  bool is_empty() const { return size() == 0; }
  std::shared_ptr<Module> ptr(size_t i) const;
  std::shared_ptr<Module> operator[](size_t i) const { return ptr(i); }
  template <class M>
  auto& at(size_t i) const {
    auto* typed = ptr(i)->template as<M>();
    WEFT_CHECK(typed != nullptr, "ModuleList: module ", i, " is ", ptr(i)->describe(),
               ", not of the type asked for");
    return *typed;
  }
  auto begin() const { return iterable().begin(); }
  auto end() const { return iterable().end(); }

 private:
  const std::vector<std::shared_ptr<Module>>& iterable() const;
  mutable std::vector<std::shared_ptr<Module>> list_;
};
WEFT_MODULE(ModuleList);

// Modules by name.
class ModuleDictImpl : public Module {
 public:
  ModuleDictImpl() = default;
  template <std::derived_from<Module> M>
  void insert(std::string name, std::shared_ptr<M> module) {
    register_module(std::move(name), std::move(module));
  }
  template <class M>
  void insert(std::string name, const ModuleHolder<M>& holder) {
    insert(std::move(name), holder.ptr());
  }
  bool contains(const std::string& name) const { return named_children().contains(name); }
  size_t size() const { return children().size(); }
  std::vector<std::string> keys() const { return named_children().keys(); }
  std::shared_ptr<Module> operator[](const std::string& name) const { return get_submodule(name); }
};
WEFT_MODULE(ModuleDict);

}  // namespace weft::nn
