// Host trips: a call on a GPU computed by the kernel of the CPU, on copies, where there is no better way.
// Needs dispatch and stats. The eager path of GPUs takes them for ops that have no loops.
#pragma once

#include "tensor/dispatch.h"

namespace weft::compiler {

// Operands are copied to the host with their strides, results back with theirs. Counted, and said once for each op on the
// log channel "device".
void run_on_host(const Call& call, std::span<Tensor> outputs);
void run_on_host_in_place(const Call& call, const Tensor& self);
void copy_on_host(const Tensor& from, const Tensor& to);

}  // namespace weft::compiler
