// The functions that fill the op table, one for each kind; op.cpp calls them through register_all_ops.
// Needs op.
#pragma once

#include "tensor/op.h"

namespace weft {

void register_pointwise_ops(OpTable& table);
void register_reduction_ops(OpTable& table);
void register_view_ops(OpTable& table);
void register_index_ops(OpTable& table);  // calls the two that follow
void register_rearrange_ops(OpTable& table);
void register_scatter_ops(OpTable& table);
void register_create_ops(OpTable& table);
void register_extern_ops(OpTable& table);
void register_matmul_ops(OpTable& table);
void register_sort_ops(OpTable& table);
void register_random_ops(OpTable& table);
void register_composite_ops(OpTable& table);
void register_loss_ops(OpTable& table);
// After all others: each names the op it is based on.
void register_mutation_ops(OpTable& table);
void register_metadata_ops(OpTable& table);

void register_all_ops(OpTable& table);

}  // namespace weft
