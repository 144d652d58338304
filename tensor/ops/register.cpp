// Fills the op table on first use.
#include "tensor/ops/register.h"

namespace weft {

OpTable& OpTable::instance() {
  // Never destroyed: tensors in static storage may still call ops while the process ends.
  static OpTable* table = [] {
    auto* fresh = new OpTable;
    register_all_ops(*fresh);
    return fresh;
  }();
  return *table;
}

void register_all_ops(OpTable& table) {
  register_pointwise_ops(table);
  register_reduction_ops(table);
  register_view_ops(table);
  register_index_ops(table);
  register_create_ops(table);
  register_extern_ops(table);
  register_random_ops(table);
  register_composite_ops(table);
  register_loss_ops(table);
  register_mutation_ops(table);
  register_metadata_ops(table);
}

}  // namespace weft
