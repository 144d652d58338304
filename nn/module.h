// Module: a part of a model, with named parameters, buffers and parts of its own; libtorch's C++ API.
// Needs tensor and state_visitor. The layers of nn/ and the user's models derive from it.
#pragma once

#include <functional>
#include <memory>

#include "nn/ordered_dict.h"
#include "tensor/state_visitor.h"

namespace weft::nn {

template <class Impl>
class ModuleHolder;

// struct Net : nn::Module { nn::Linear fc = register_module("fc", nn::Linear(4, 2)); Tensor forward(Tensor x); };
// Made by std::make_shared, so that parts can be shared. Not for concurrent changes.
class Module : public std::enable_shared_from_this<Module> {
 public:
  Module();
  // The name is used in messages and when printing; without one it is the type's.
  explicit Module(std::string name);
  Module(const Module&) = default;
  Module& operator=(const Module&) = default;
  virtual ~Module();

  // "Linear"
  const std::string& name() const;
  // The name under which the module was registered last; empty for a root.
  const std::string& registered_name() const { return registered_name_; }

  // ---- Registration. Error if the name is empty, holds a dot or is taken.
  // Returns the registered tensor. A parameter takes part in training; a buffer is state that does not.
  Tensor& register_parameter(std::string name, Tensor tensor, bool requires_grad = true);
  Tensor& register_buffer(std::string name, Tensor tensor);
  template <class M>
  std::shared_ptr<M> register_module(std::string name, std::shared_ptr<M> module) {
    register_child(std::move(name), module);
    return module;
  }
  template <class M>
  std::shared_ptr<M> register_module(std::string name, ModuleHolder<M> holder) {
    return register_module(std::move(name), holder.ptr());
  }
  template <class M>
  std::shared_ptr<M> replace_module(const std::string& name, std::shared_ptr<M> module) {
    unregister_module(name);
    return register_module(name, std::move(module));
  }
  template <class M>
  std::shared_ptr<M> replace_module(const std::string& name, ModuleHolder<M> holder) {
    return replace_module(name, holder.ptr());
  }
  void unregister_module(const std::string& name);

  // ---- State: in the order of registration, own entries before those of the parts, each tensor once.
  std::vector<Tensor> parameters(bool recurse = true) const;
  OrderedDict<Tensor> named_parameters(bool recurse = true) const;
  std::vector<Tensor> buffers(bool recurse = true) const;
  OrderedDict<Tensor> named_buffers(bool recurse = true) const;
  // Parameters and buffers by their dotted names, shared tensors under each of their names: what a checkpoint holds.
  OrderedDict<Tensor> named_state() const;
  // The tensor of a dotted name ("fc1.weight"). Error naming the candidates.
  Tensor get_parameter(const std::string& path) const;
  Tensor get_buffer(const std::string& path) const;
  std::shared_ptr<Module> get_submodule(const std::string& path) const;

  // ---- Parts.
  std::vector<std::shared_ptr<Module>> children() const;
  OrderedDict<std::shared_ptr<Module>> named_children() const;
  // This module and all below it, each once. Including itself needs a module that a shared_ptr owns.
  std::vector<std::shared_ptr<Module>> modules(bool include_self = true) const;
  OrderedDict<std::shared_ptr<Module>> named_modules(const std::string& prefix = {},
                                                     bool include_self = true) const;
  void apply(const std::function<void(Module&)>& function);
  void apply(const std::function<void(const std::string&, Module&)>& function,
             const std::string& prefix = {});
  void apply(const std::function<void(const std::shared_ptr<Module>&)>& function);

  // ---- Modes.
  virtual void train(bool on = true);
  void eval() { train(false); }
  bool is_training() const { return is_training_; }
  void requires_grad_(bool value = true);
  // Gradients become undefined, or zero if set_to_none is false.
  void zero_grad(bool set_to_none = true);

  // ---- Conversion: the tensors stay the same objects, so that optimizers and handles keep them. Integer and bool state
  // keeps its dtype.
  void to(DType dtype, bool non_blocking = false);
  void to(Device device, bool non_blocking = false);
  void to(DeviceType device, bool non_blocking = false) { to(Device(device), non_blocking); }
  void to(Device device, DType dtype, bool non_blocking = false);

  // ---- For tools.
  // Walks parameters, buffers and facts of this module and its parts.
  void visit_state(StateVisitor& visitor) { visit_state(visitor, {}); }
  void visit_state(StateVisitor& visitor, const std::string& prefix);
  // "Linear(in_features=64, out_features=48, bias=true)": the line that stands for the module in print and messages.
  virtual std::string describe() const;
  // The description, and the parts indented below it.
  virtual void pretty_print(std::ostream& out) const;
  // Adds "in fc1: Linear(…)" to an error that passes through this module's forward.
  void add_context(Error& error) const;

  // This module as a LinearImpl, asked for by as<nn::Linear>() or as<nn::LinearImpl>(); null if it is something else.
  template <class M>
  auto* as() {
    if constexpr (requires { typename M::Impl; }) return dynamic_cast<typename M::Impl*>(this);
    else return dynamic_cast<M*>(this);
  }

 protected:
  // Options that forward branches on: each is a fact of the state. Their setters bump the state epoch.
  virtual void visit_facts(StateVisitor&, const std::string& /*prefix*/) {}

 private:
  void register_child(std::string name, std::shared_ptr<Module> module);
  void set_training(bool on);
  void print_into(std::ostream& out, const std::string& indent) const;

  OrderedDict<Tensor> parameters_, buffers_;
  OrderedDict<std::shared_ptr<Module>> children_;
  mutable std::string name_;
  std::string registered_name_;
  bool is_training_ = true;
};

std::ostream& operator<<(std::ostream& out, const Module& module);

// The gradient becomes undefined, or zeros where there was one.
void clear_grad(Tensor& parameter, bool set_to_none = true);

// Derived classes that can be copied with their state; as libtorch's, whose reset() makes the state anew.
template <class Derived>
class Cloneable : public Module {
 public:
  using Module::Module;
  // (Re)makes parameters and initial values from the options.
  virtual void reset() = 0;
};

}  // namespace weft::nn
