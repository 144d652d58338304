// Node: one recorded step of the tape, the edges to the steps before it, and the cell in which a gradient is accumulated.
// Needs tensor. Kinds of nodes: op_node.h, view_node.h, function.h; the engine walks them.
#pragma once

#include <atomic>
#include <mutex>

#include "tensor/grad_flag.h"
#include "tensor/output_spec.h"
#include "tensor/tensor.h"

namespace weft::autograd {

class Node;

// Where a gradient goes: result `slot` of the step that made a tensor. No node: no gradient is wanted.
struct Edge {
  Intrusive<Node> node;
  uint32_t slot = 0;
  explicit operator bool() const { return static_cast<bool>(node); }
};

// What a gradient must look like: sizes and dtype of the value it belongs to.
struct Meta {
  Sizes sizes;
  DType dtype;
  Device device;

  explicit Meta(const Tensor& x) : sizes(x->layout.sizes), dtype(x->dtype), device(x->device) {}
  OutputSpec spec() const { return {sizes, dtype, device}; }
  bool fits(const Tensor& x) const { return x->dtype == dtype && x.sizes() == SizesView(sizes); }
};

// The values of x in row-major order, in memory that nothing else shares.
Tensor copy_of(const Tensor& x);

// The `.grad` of a tensor. The tensor and the node that fills it share it; neither owns the other.
struct GradCell : RefCounted<GradCell> {
  std::mutex mutex;  // several backward passes may meet in one leaf
  Tensor grad;
  bool is_read = true;      // false once its tensor is gone: nobody can see the gradient
  bool is_touched = false;  // was read or written since it was made; a trace asks

  // Adds a gradient; `is_ours` if no one else holds its memory.
  void add(Tensor gradient, bool is_ours);
};

using Hook = std::function<Tensor(const Tensor&)>;

// What runs when the gradient of one of a node's results is complete.
struct Hooks {
  struct Entry {
    uint32_t slot;
    unsigned id;
    Hook hook;
  };
  struct Retain {
    uint32_t slot;
    Intrusive<GradCell> cell;
  };
  std::vector<Entry> entries;
  std::vector<Retain> retains;
};

// A step backwards: the engine gives a node the gradients of its results and takes those of its operands.
struct Step {
  std::span<Tensor> grads;       // by result; undefined where none arrived
  std::span<Tensor> results;     // by edge, to be filled; undefined means zero
  std::span<const bool> wanted;  // by edge
};

class Node : public RefCounted<Node> {
 public:
  Node();
  virtual ~Node() = default;
  // "mul": what errors call it.
  virtual const char* name() const = 0;
  virtual void apply(Step& step) = 0;
  // Drops what was saved for backward.
  virtual void release() {}
  // A leaf's node: its gradient goes to a cell, not to other nodes.
  virtual GradCell* cell() const { return nullptr; }

  // Later steps have higher numbers within a thread; the engine takes the highest first.
  uint64_t sequence;
  SmallVector<Edge, 3> edges;  // by operand
  // They are added when a walk comes here first. Thread-safe.
  std::atomic<bool> lacks_edges{false};
  virtual void add_edges() {}
  SmallVector<Meta, 1> results;  // by result
  std::unique_ptr<Hooks> hooks;
  SourceLocation where;

  static void* operator new(size_t bytes);
  static void operator delete(void* memory, size_t bytes);
  // Note [Freeing long chains]
  static void destroy(Node* node) noexcept;

 private:
  Node* next_dead_ = nullptr;
};

// Takes the gradient of a leaf to its cell.
class AccumulateNode final : public Node {
 public:
  AccumulateNode(const Tensor& leaf, Intrusive<GradCell> cell);
  const char* name() const override { return "accumulate"; }
  void apply(Step& step) override;
  GradCell* cell() const override { return cell_.get(); }

 private:
  Intrusive<GradCell> cell_;
};

// Takes charge of what is saved on this thread while it is installed: a checkpoint, which makes the data again.
class SaveHook : public RefCounted<SaveHook> {
 public:
  virtual ~SaveHook() = default;
  // Asked for each tensor that is saved, in order; `keeps`: false if the tensor itself need not be held. Returns a ticket.
  virtual size_t save(const Tensor& x, bool is_leaf, bool& keeps) = 0;
  // The data again, without history.
  virtual Tensor restore(size_t ticket) = 0;
  virtual void forget(size_t ticket) noexcept = 0;

  // The one installed on this thread, or null.
  static SaveHook*& current();
};

// A tensor kept for backward, and the version that its data had.
class SavedTensor {
 public:
  SavedTensor() = default;
  // An own result is kept as a handle without history (share_data): the history would be its owner, and neither would ever
  // go. Its history is given back by unpack. Note [Saved operands] is on other tensors.
  SavedTensor(Tensor data, bool is_own_result);
  // Of what had this version when it was saved. No SaveHook is asked.
  static SavedTensor at_version(Tensor data, uint32_t version) {
    SavedTensor saved;
    saved.data_.exchange(data);
    saved.version_ = version;
    return saved;
  }
  SavedTensor(SavedTensor&&) noexcept = default;
  SavedTensor& operator=(SavedTensor&& other) noexcept;
  bool defined() const { return data_.defined() || elsewhere_ != nullptr; }
  // The tensor, with its history. Error if its data were written since. `owner` is the node that saved it.
  Tensor unpack(Node& owner, uint32_t slot) const;

 private:
  struct Elsewhere {
    ~Elsewhere() { hook->forget(ticket); }
    Intrusive<SaveHook> hook;
    size_t ticket;
    Edge history;
  };
  Tensor data_;
  std::unique_ptr<Elsewhere> elsewhere_;  // instead of data_
  uint32_t version_ = 0;
  bool is_own_result_ = false;
};

// "mul (train.cpp:41)"
std::string describe(const Node& node);

}  // namespace weft::autograd
