// Keeping functions of the host, and calling them.
// Place: the out-of-line half of compiler/trace/host_functions.h.
#include "compiler/trace/host_functions.h"

#include <atomic>
#include <ostream>

#include "autograd/tape.h"
#include "tensor/quiet_handles.h"

namespace weft::compiler {

void call_host(const HostCallback& callback, std::span<const Tensor* const> tensors) {
  const AutoGradMode off(false);
  std::vector<Tensor> values;
  std::vector<uint32_t> versions;
  for (const Tensor* tensor : tensors) {
    values.push_back(autograd::share_data(*tensor));
    versions.push_back(values.back().version());
  }
  {
    const QuietHandles heard(false);
    callback(values);
  }
  for (size_t i = 0; i < tensors.size(); ++i)
    WEFT_CHECK(tensors[i]->version() == versions[i], "host_call: the function wrote into tensor ", i, " (",
               describe(*tensors[i]), "), which it may only read; let it work on a clone()");
}

// ---- One function -----------------------------------------------------------------------------------------------------

void HostFunction::replace(HostCallback callback) {
  auto latest = std::make_shared<const HostCallback>(std::move(callback));
  const std::lock_guard lock(mutex_);
  latest_ = std::move(latest);
}

void HostFunction::run(const Call& call, std::span<Tensor>) const {
  std::shared_ptr<const HostCallback> latest;
  {
    const std::lock_guard lock(mutex_);
    latest = latest_;
  }
  SmallVector<const Tensor*, 4> tensors;
  for (const Operand& operand : call.operands) tensors.push_back(operand.tensor);
  call_host(*latest, {tensors.data(), tensors.size()});
}

void HostFunction::print(std::ostream& out) const { out << "the function at " << weft::to_string(where_); }

// ---- All of a tree ----------------------------------------------------------------------------------------------------

namespace {
std::atomic<uint64_t> trees{0};
}  // namespace

HostFunctions::HostFunctions(bool by_path)
    : serial_(trees.fetch_add(1, std::memory_order_relaxed)), by_path_(by_path) {}

RoutinePtr HostFunctions::keep(SourceLocation where, uint32_t ordinal, uint64_t path, HostCallback callback) {
  const std::lock_guard lock(mutex_);
  if (!by_path_) path = 0;
  std::shared_ptr<HostFunction>& function = functions_[{where.file_name(), where.line(), ordinal, path}];
  if (function == nullptr)
    function = std::make_shared<HostFunction>(
        where, weft::detail::concat("host ", serial_, ' ', functions_.size(), ' ', where.file_name(), ':',
                                    where.line()));
  function->replace(std::move(callback));
  return function;
}

}  // namespace weft::compiler
