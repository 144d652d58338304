// HostFunctions: the functions of the host that the programs of one trace tree call, found again when it is traced again.
// Needs tensor/op. The tracer asks it for each host_call; nodes of graphs hold what it gives.
#pragma once

#include <map>
#include <mutex>
#include <tuple>

#include "tensor/op.h"

namespace weft::compiler {

using HostCallback = std::function<void(const std::vector<Tensor>&)>;

// Calls it on the values of these tensors, without history and with the tape off. Error if it wrote into one.
void call_host(const HostCallback& callback, std::span<const Tensor* const> tensors);

// One host_call of a program. A closure cannot be compared with another, so it is told apart by where it was made, and calls
// the latest one that was made there.
class HostFunction final : public Routine {
 public:
  HostFunction(SourceLocation where, std::string identity) : where_(where), identity_(std::move(identity)) {}
  void replace(HostCallback callback);

  OutputSpecs infer(const Call&) const override { return {}; }
  void run(const Call& call, std::span<Tensor> outputs) const override;
  std::string identity() const override { return identity_; }
  void print(std::ostream& out) const override;

 private:
  const SourceLocation where_;
  const std::string identity_;
  mutable std::mutex mutex_;
  std::shared_ptr<const HostCallback> latest_;
};

// Thread-safe.
class HostFunctions {
 public:
  // Paths are told apart unless each call is traced anyway.
  explicit HostFunctions(bool by_path = true);
  // The function of the `ordinal`-th host_call at this place on this path (a hash of the outcomes before it); from now on it
  // calls `callback`. Other paths keep theirs: their closures may hold other values.
  RoutinePtr keep(SourceLocation where, uint32_t ordinal, uint64_t path, HostCallback callback);

 private:
  using Key = std::tuple<std::string, uint32_t, uint32_t, uint64_t>;  // file and line, ordinal, path
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<HostFunction>> functions_;
  const uint64_t serial_;  // of this tree in the process
  const bool by_path_;
};

}  // namespace weft::compiler
