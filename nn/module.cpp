// Modules: registration, walking the tree, modes, conversion, printing.
// Place: the out-of-line half of nn/module.h and nn/module_holder.h.
#include "nn/module.h"

#include <cxxabi.h>

#include <cstdlib>
#include <ostream>
#include <sstream>
#include <unordered_set>

#include "autograd/grad_mode.h"
#include "nn/module_holder.h"
#include "tensor/state_epoch.h"

namespace weft::nn {
namespace {

// "weft::nn::LinearImpl" -> "Linear"; a user's "app::NetImpl" keeps its namespace out, too.
std::string readable_type(const char* mangled) {
  int status = 0;
  char* text = abi::__cxa_demangle(mangled, nullptr, nullptr, &status);
  std::string name = status == 0 ? text : mangled;
  std::free(text);
  const size_t scope =
      name.find('<') == std::string::npos ? name.rfind("::") : name.rfind("::", name.find('<'));
  if (scope != std::string::npos) name.erase(0, scope + 2);
  if (name.size() > 4 && name.ends_with("Impl")) name.resize(name.size() - 4);
  return name;
}

std::string join(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : prefix + '.' + name;
}

void check_entry_name(const Module& module, const std::string& name, const char* kind) {
  WEFT_CHECK(!name.empty(), module.name(), ": a ", kind, " needs a name");
  WEFT_CHECK(name.find('.') == std::string::npos, module.name(), ": the ", kind, " name '", name,
             "' holds a dot; dots separate the names of modules");
}

// Gives `target` the data of `source`; the object stays the same, and with it every handle and the optimizer's.
void set_data(const Tensor& target, const Tensor& source) {
  TensorImpl& to = *target.impl();
  const TensorImpl& from = *source.impl();
  to.storage = from.storage;
  to.layout = from.layout;
  to.dtype = from.dtype;
  to.device = from.device;
  to.numel = from.numel;
  to.is_contiguous = from.is_contiguous;
}

void convert(const Tensor& x, std::optional<Device> device, std::optional<DType> dtype, bool non_blocking) {
  if (!x.defined()) return;
  TensorOptions options(x.is_floating_point() && dtype ? *dtype : x.dtype());
  options = options.device(device.value_or(x.device()));
  if (options.dtype() == x.dtype() && options.device() == x.device()) return;
  const NoGradGuard no_grad;
  Tensor handle = x;
  const Tensor gradient = x.grad();
  const bool requires_grad = x.requires_grad();
  // The tape knows a leaf's dtype and device: it is told of the new ones by turning requires_grad off and on.
  if (requires_grad) handle.requires_grad_(false);
  set_data(x, x.detach().to(options.device(), non_blocking).to(options.dtype(), non_blocking));
  if (requires_grad) handle.requires_grad_();
  if (!gradient.defined()) return;
  handle.set_grad(gradient.to(options.device(), non_blocking).to(options.dtype(), non_blocking));
}

// Own entries, then the parts': each module and each tensor once.
template <class Visit>
void walk(const Module& module, const std::string& prefix, std::unordered_set<const Module*>& seen,
          const Visit& visit) {
  if (!seen.insert(&module).second) return;
  visit(module, prefix);
  for (const auto& [name, child] : module.named_children())
    if (child) walk(*child, join(prefix, name), seen, visit);
}

}  // namespace

void clear_grad(Tensor& parameter, bool set_to_none) {
  if (set_to_none) {
    parameter.set_grad({});
    return;
  }
  const Tensor gradient = parameter.grad();
  if (!gradient.defined()) return;
  const NoGradGuard no_grad;
  parameter.set_grad(zeros_like(gradient));
}

Module::Module() = default;
Module::Module(std::string name) : name_(std::move(name)) {}
Module::~Module() = default;

const std::string& Module::name() const {
  if (name_.empty()) name_ = readable_type(typeid(*this).name());
  return name_;
}

// ---- Registration ---------------------------------------------------------------------------------------------------

Tensor& Module::register_parameter(std::string name, Tensor tensor, bool requires_grad) {
  check_entry_name(*this, name, "parameter");
  WEFT_CHECK(!buffers_.contains(name) && !children_.contains(name), this->name(), ": the parameter name '",
             name, "' is taken");
  if (tensor.defined()) {
    WEFT_CHECK(!requires_grad || tensor.is_floating_point(), this->name(), ": the parameter '", name, "' is ",
               tensor.dtype(),
               ", which cannot have a gradient; register it with requires_grad false or as a buffer");
    if (tensor.requires_grad() != requires_grad) tensor.requires_grad_(requires_grad);
  }
  bump_state_epoch();
  // Registering again replaces the tensor.
  if (Tensor* old = parameters_.find(name)) return *old = std::move(tensor);
  return parameters_.append(std::move(name), std::move(tensor));
}

Tensor& Module::register_buffer(std::string name, Tensor tensor) {
  check_entry_name(*this, name, "buffer");
  WEFT_CHECK(!parameters_.contains(name) && !children_.contains(name), this->name(), ": the buffer name '",
             name, "' is taken");
  bump_state_epoch();
  if (Tensor* old = buffers_.find(name)) return *old = std::move(tensor);
  return buffers_.append(std::move(name), std::move(tensor));
}

void Module::register_child(std::string name, std::shared_ptr<Module> module) {
  check_entry_name(*this, name, "module");
  WEFT_CHECK(module != nullptr, this->name(), ": the module '", name, "' is null");
  WEFT_CHECK(!parameters_.contains(name) && !buffers_.contains(name) && !children_.contains(name),
             this->name(), ": the module name '", name, "' is taken; replace_module() exchanges one");
  WEFT_CHECK(module.get() != this, this->name(), ": a module cannot be a part of itself");
  bump_state_epoch();
  module->registered_name_ = name;
  children_.append(std::move(name), std::move(module));
}

void Module::unregister_module(const std::string& name) {
  WEFT_CHECK(children_.contains(name), this->name(), ": there is no module '", name, "' to unregister");
  bump_state_epoch();
  children_.erase(name);
}

// ---- State ----------------------------------------------------------------------------------------------------------

OrderedDict<Tensor> Module::named_parameters(bool recurse) const {
  OrderedDict<Tensor> result;
  std::unordered_set<const TensorImpl*> tensors;
  const auto collect = [&](const Module& module, const std::string& prefix) {
    for (const auto& [name, tensor] : module.parameters_)
      if (tensor.defined() && tensors.insert(tensor.impl()).second) result.append(join(prefix, name), tensor);
  };
  std::unordered_set<const Module*> seen;
  if (recurse) walk(*this, {}, seen, collect);
  else collect(*this, {});
  return result;
}
std::vector<Tensor> Module::parameters(bool recurse) const { return named_parameters(recurse).values(); }

OrderedDict<Tensor> Module::named_buffers(bool recurse) const {
  OrderedDict<Tensor> result;
  std::unordered_set<const TensorImpl*> tensors;
  const auto collect = [&](const Module& module, const std::string& prefix) {
    for (const auto& [name, tensor] : module.buffers_)
      if (tensor.defined() && tensors.insert(tensor.impl()).second) result.append(join(prefix, name), tensor);
  };
  std::unordered_set<const Module*> seen;
  if (recurse) walk(*this, {}, seen, collect);
  else collect(*this, {});
  return result;
}
std::vector<Tensor> Module::buffers(bool recurse) const { return named_buffers(recurse).values(); }

OrderedDict<Tensor> Module::named_state() const {
  OrderedDict<Tensor> result;
  const std::function<void(const Module&, const std::string&)> collect = [&](const Module& module,
                                                                             const std::string& prefix) {
    for (const auto& [name, tensor] : module.parameters_)
      if (tensor.defined()) result.append(join(prefix, name), tensor);
    for (const auto& [name, tensor] : module.buffers_)
      if (tensor.defined()) result.append(join(prefix, name), tensor);
    for (const auto& [name, child] : module.children_) collect(*child, join(prefix, name));
  };
  collect(*this, {});
  return result;
}

std::shared_ptr<Module> Module::get_submodule(const std::string& path) const {
  const Module* at = this;
  std::shared_ptr<Module> found;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('.', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    const std::shared_ptr<Module>* child = at->children_.find(part);
    std::string names;
    if (child == nullptr)
      for (const std::string& key : at->children_.keys()) names += (names.empty() ? "" : ", ") + key;
    WEFT_CHECK(child != nullptr, name(), ": there is no module '", path, "': ", at->name(), " has ",
               names.empty() ? "no parts" : "the parts " + names);
    found = *child;
    at = found.get();
    begin = end + 1;
  }
  return found;
}

namespace {
// Splits "a.b.weight" into the module's path and the entry's name.
std::pair<std::string, std::string> split_path(const std::string& path) {
  const size_t dot = path.rfind('.');
  if (dot == std::string::npos) return {{}, path};
  return {path.substr(0, dot), path.substr(dot + 1)};
}
}  // namespace

Tensor Module::get_parameter(const std::string& path) const {
  const auto [owner, entry] = split_path(path);
  const std::shared_ptr<Module> holder = owner.empty() ? nullptr : get_submodule(owner);
  const Module& module = holder ? *holder : *this;
  const Tensor* found = module.parameters_.find(entry);
  WEFT_CHECK(found != nullptr, name(), ": there is no parameter '", path, "'; ", module.name(), " is ",
             module.describe());
  return *found;
}
Tensor Module::get_buffer(const std::string& path) const {
  const auto [owner, entry] = split_path(path);
  const std::shared_ptr<Module> holder = owner.empty() ? nullptr : get_submodule(owner);
  const Module& module = holder ? *holder : *this;
  const Tensor* found = module.buffers_.find(entry);
  WEFT_CHECK(found != nullptr, name(), ": there is no buffer '", path, "'; ", module.name(), " is ",
             module.describe());
  return *found;
}

// ---- Parts ----------------------------------------------------------------------------------------------------------

std::vector<std::shared_ptr<Module>> Module::children() const { return children_.values(); }
OrderedDict<std::shared_ptr<Module>> Module::named_children() const { return children_; }

OrderedDict<std::shared_ptr<Module>> Module::named_modules(const std::string& prefix,
                                                           bool include_self) const {
  OrderedDict<std::shared_ptr<Module>> result;
  std::unordered_set<const Module*> seen;
  walk(*this, prefix, seen, [&](const Module& module, const std::string& path) {
    if (&module == this && !include_self) return;
    std::shared_ptr<Module> owner = const_cast<Module&>(module).weak_from_this().lock();
    WEFT_CHECK(owner != nullptr, module.name(),
               ": modules() lists the module itself, which no shared_ptr owns; make it with std::make_shared "
               "or pass "
               "include_self false");
    result.append(path, std::move(owner));
  });
  return result;
}
std::vector<std::shared_ptr<Module>> Module::modules(bool include_self) const {
  return named_modules({}, include_self).values();
}

void Module::apply(const std::function<void(Module&)>& function) {
  function(*this);
  for (const auto& [name, child] : children_) child->apply(function);
}
void Module::apply(const std::function<void(const std::string&, Module&)>& function,
                   const std::string& prefix) {
  function(prefix, *this);
  for (const auto& [name, child] : children_) child->apply(function, join(prefix, name));
}
void Module::apply(const std::function<void(const std::shared_ptr<Module>&)>& function) {
  for (const auto& module : modules()) function(module);
}

// ---- Modes and conversion -------------------------------------------------------------------------------------------

void Module::set_training(bool on) { is_training_ = on; }

void Module::train(bool on) {
  bump_state_epoch();
  set_training(on);
  for (const auto& [name, child] : children_) child->train(on);
}

void Module::requires_grad_(bool value) {
  bump_state_epoch();
  for (Tensor& parameter : parameters()) parameter.requires_grad_(value);
}

void Module::zero_grad(bool set_to_none) {
  for (Tensor& parameter : parameters()) clear_grad(parameter, set_to_none);
}

void Module::to(DType dtype, bool non_blocking) {
  WEFT_CHECK(is_floating(dtype), name(), ": to(", dtype, ") would turn parameters into ", dtype,
             "; a floating dtype is needed");
  bump_state_epoch();
  for (const auto& [name, tensor] : named_state()) convert(tensor, {}, dtype, non_blocking);
}
void Module::to(Device device, bool non_blocking) {
  bump_state_epoch();
  for (const auto& [name, tensor] : named_state()) convert(tensor, device, {}, non_blocking);
}
void Module::to(Device device, DType dtype, bool non_blocking) {
  to(device, non_blocking);
  to(dtype, non_blocking);
}

// ---- For tools ------------------------------------------------------------------------------------------------------

void Module::visit_state(StateVisitor& visitor, const std::string& prefix) {
  for (auto& [name, tensor] : parameters_)
    if (tensor.defined()) visitor.tensor(join(prefix, name), tensor, StateRole::Parameter);
  for (auto& [name, tensor] : buffers_)
    if (tensor.defined()) visitor.tensor(join(prefix, name), tensor, StateRole::Buffer);
  visitor.fact(join(prefix, "training"), is_training_);
  visit_facts(visitor, prefix);
  for (auto& [name, child] : children_) child->visit_state(visitor, join(prefix, name));
}

std::string Module::describe() const { return name(); }

void Module::print_into(std::ostream& out, const std::string& indent) const {
  if (children_.is_empty()) {
    pretty_print(out);
    return;
  }
  out << describe() << "(\n";
  for (const auto& [name, child] : children_) {
    out << indent << "  (" << name << "): ";
    child->print_into(out, indent + "  ");
    out << '\n';
  }
  out << indent << ')';
}

void Module::pretty_print(std::ostream& out) const {
  if (children_.is_empty()) out << describe();
  else print_into(out, {});
}

void Module::add_context(Error& error) const {
  error.add_context(registered_name_.empty() ? "in " + describe()
                                             : "in " + registered_name_ + ": " + describe());
}

std::ostream& operator<<(std::ostream& out, const Module& module) {
  module.pretty_print(out);
  return out;
}

namespace detail {
void throw_empty_holder(const char* type) {
  weft::detail::throw_error(readable_type(type) +
                            ": this module handle is empty (made from nullptr); assign it, for example from "
                            "register_module(), before it is used");
}
}  // namespace detail

}  // namespace weft::nn
