// Sequential, ModuleList, ModuleDict.
// Place: the out-of-line half of nn/container.h.
#include "nn/container.h"

namespace weft::nn {

void SequentialImpl::add(std::string name, Layer layer) {
  register_module(std::move(name), layer.module);
  layers_.push_back(std::move(layer));
}

Tensor SequentialImpl::forward(const Tensor& x, SourceLocation where) {
  WEFT_CHECK(!layers_.empty(), "Sequential: there is no layer to call");
  Tensor value = x;
  for (const Layer& layer : layers_) value = layer.run(*layer.module, value, where);
  return value;
}

std::shared_ptr<Module> SequentialImpl::ptr(size_t i) const {
  WEFT_CHECK(i < layers_.size(), "Sequential: there is no layer ", i, "; the layers are 0 to ",
             static_cast<int64_t>(layers_.size()) - 1);
  return layers_[i].module;
}

std::shared_ptr<Module> ModuleListImpl::ptr(size_t i) const {
  WEFT_CHECK(i < size(), "ModuleList: there is no module ", i, "; the modules are 0 to ",
             static_cast<int64_t>(size()) - 1);
  return iterable()[i];
}

const std::vector<std::shared_ptr<Module>>& ModuleListImpl::iterable() const {
  const std::vector<std::shared_ptr<Module>> now = children();
  if (now != list_) list_ = now;
  return list_;
}

}  // namespace weft::nn
