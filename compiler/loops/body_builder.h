// BodyBuilder: puts values of a graph into the body of one kernel, computing what is not in memory where it is read.
// Needs schedule, loop_levels and tensor/loop_rule. The scheduler tries groups with it and keeps what it builds.
#pragma once

#include <map>
#include <unordered_map>

#include "compiler/loops/loop_levels.h"
#include "compiler/loops/schedule.h"
#include "compiler/trace/infer.h"
#include "compiler/trace/table_environment.h"
#include "tensor/loop_rule.h"

namespace weft::compiler {

using Indices = SmallVector<Sym, kInlineRank>;  // of an element, by dimension

// One result that a kernel computes as a whole: a fold, or a pointwise value that must be stored or has several readers.
struct Unit {
  ValueId value =
      kNoValue;  // of the graph, or a partial result of a fold in two steps (ids after the graph's values)
  NodeId node = kNoNode;
  bool is_fold = false;
  // In memory for others; loops that need it compute it again, which takes less time than another kernel.
  bool is_recomputed = false;

  // ---- Of a fold
  enum class Role : uint8_t { None /* of size 1 */, Batch, Row, Column };
  ValueId source = kNoValue;
  SmallVector<Role, kInlineRank> roles;   // by dimension of the source
  SmallVector<bool, kInlineRank> folded;  // likewise
  bool keeps_dims = false;                // the result has folded dimensions, with size 1
  size_t num_trailing_ones = 0;           // and so many more behind those of the source
  BodyFold::Axis axis = BodyFold::Axis::Columns;
  cpu::Fold fold = cpu::Fold::Sum;
  DType compute = DType::Float32;
  std::optional<DType> via;
  // The loops that it needs.
  Sym batches = Sym::from_int(1), rows = Sym::from_int(1), columns = Sym::from_int(1);
};
inline constexpr uint32_t kNoUnit = ~uint32_t{0};

// The loops of a group of units.
struct GroupLoops {
  Sym batches = Sym::from_int(1), rows = Sym::from_int(1), columns = Sym::from_int(1);
  // Groups without folds: the sizes that the loops run over, their dimensions from the outermost loop to the innermost,
  // and how many of these are columns. Empty where the elements are counted row-major.
  Sizes sizes;
  SmallVector<size_t, kInlineRank> order;
  size_t num_columns = 0;
  // A trial: each dimension has a symbol of its own, to see how accesses move along it.
  bool by_dimension = false;
};

// Thrown where a group cannot be one kernel.
struct Refused {
  std::string reason;
};

struct BuiltBody {
  LoopBody body;
  std::vector<ValueId> buffers;  // by param: the value that lies there
  std::vector<Scalar> numbers;   // by param
};

// What is known of a whole graph while it becomes kernels.
class Lowering {
 public:
  explicit Lowering(const Graph& graph);

  const Graph& graph;
  std::shared_ptr<Expressions> expressions;  // a copy, to which loop symbols are added
  TableEnvironment environment;
  std::vector<Value> values;  // of the graph, then partial results
  std::vector<Unit> units;
  std::vector<uint32_t> unit_of;  // by value
  std::vector<bool> in_memory;    // by value: read from a buffer where it is not in the reader's group
  HollowValues hollow;

  SymTable& syms() { return expressions->syms; }
  // The symbol of a loop over `size`, the same for all loops of that role and size; 0 for a loop of one.
  Sym symbol(uint32_t role, Sym size);
  static constexpr uint32_t kBatch = 0, kRow = 1, kColumn = 2, kDimension = 3;  // + dimension

  // Whether a loop can compute the node's elements one by one.
  bool is_inlinable(NodeId node);
  // Primitives that one element takes, without what it reads.
  double own_cost(NodeId node);
  // Where a value in memory, or a view of one, lies; null for what has no memory.
  const Layout<Sym>* layout_of(ValueId value);
  // The value in memory that a chain of views starts from.
  ValueId root_of(ValueId value) const;
  bool is_recomputed(ValueId value) const {
    return unit_of[value] != kNoUnit && units[unit_of[value]].is_recomputed;
  }
  // The view's layout over its operand seen row-major.
  const Layout<Sym>& view_of_dense(NodeId node);
  ValueId add_partial(const Value& value);

 private:
  std::map<std::pair<uint64_t, uint32_t>, Sym> symbols_;  // by size and role
  std::vector<int8_t> inlinable_;                         // by node: -1 unknown
  std::vector<std::unique_ptr<Layout<Sym>>> layouts_, dense_views_;
};

// Builds the kernel of these units (in order) and stores those of `stored` (by unit). Throws Refused where it cannot be
// one.
BuiltBody build_body(Lowering& lowering, std::span<const uint32_t> units, const GroupLoops& loops,
                     const std::vector<bool>& stored);

// The values that computing a unit, or running a node, reads: in memory, or units. Units that loops compute again are not
// read by other units; they are listed in `recomputed`.
std::vector<ValueId> reads_of(Lowering& lowering, const Unit& unit, std::vector<ValueId>& recomputed);
std::vector<ValueId> reads_of(Lowering& lowering, NodeId node);

// Equal for every size.
bool is_same_size(Lowering& lowering, Sym a, Sym b);
Sym product_of(std::span<const Sym> sizes);

}  // namespace weft::compiler
