// Op: everything the library knows about one operation, and the schema and attributes it is called with.
// Needs tensor. Entries are made in tensor/ops/; dispatch.h calls them; tape and compiler read them.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <variant>

#include "tensor/output_spec.h"
#include "tensor/samples.h"
#include "tensor/tensor.h"

namespace weft {

// Compiler code switches on the kind, never on an op's name.
enum class Kind : uint8_t {
  Pointwise,  // one scalar body over broadcast operands
  Reduction,  // folds or scans along dimensions
  View,       // a rule on layouts; shares the data
  Index,      // data moved by computed positions: gather, scatter, cat, pad
  Create,     // no tensor in, a tensor out; random ones too
  Mutation,   // a base op whose result is written into operand 0
  Extern,     // library or template kernels: matmul, sort
  Composite,  // a function of other ops
};
const char* name_of(Kind kind);

// ---- Attributes: what an op is told beside its operands ---------------------------------------------------------

struct Call;

// What a single call carries as its own program: the graphs of cond's arms, a function of the host. The op only says how it
// is called. Immutable; nodes of graphs share it.
class Routine {
 public:
  virtual ~Routine() = default;
  virtual OutputSpecs infer(const Call& call) const = 0;
  virtual void run(const Call& call, std::span<Tensor> outputs) const = 0;
  // Equal texts mean that two routines do the same.
  virtual std::string identity() const = 0;
  // What a listing shows.
  virtual void print(std::ostream& out) const = 0;
};
using RoutinePtr = std::shared_ptr<const Routine>;

// One attribute value. None stands for an absent optional.
class Attr {
 public:
  Attr() = default;
  Attr(bool value) : value_(value) {}                           // NOLINT
  Attr(int value) : value_(Sym::from_int(value)) {}             // NOLINT
  Attr(int64_t value) : value_(Sym::from_int(value)) {}         // NOLINT
  Attr(Sym value) : value_(value) {}                            // NOLINT
  Attr(double value) : value_(value) {}                         // NOLINT
  Attr(Scalar value) : value_(value) {}                         // NOLINT
  Attr(DType value) : value_(value) {}                          // NOLINT
  Attr(Device value) : value_(value) {}                         // NOLINT
  Attr(SymList value) : value_(std::move(value)) {}             // NOLINT
  Attr(DimList value) : value_(std::move(value)) {}             // NOLINT
  Attr(std::string_view value) : value_(std::string(value)) {}  // NOLINT
  Attr(const char* value) : value_(std::string(value)) {}       // NOLINT
  Attr(RoutinePtr value) : value_(std::move(value)) {}          // NOLINT
  template <class T>
  Attr(const std::optional<T>& value) {  // NOLINT
    if (value) *this = Attr(*value);
  }

  bool is_none() const { return std::holds_alternative<std::monostate>(value_); }
  template <class T>
  bool is() const {
    return std::holds_alternative<T>(value_);
  }
  template <class T>
  const T& as() const {
    const T* value = std::get_if<T>(&value_);
    WEFT_ASSERT(value != nullptr, "attribute read as another type than it holds");
    return *value;
  }
  bool as_bool() const { return as<bool>(); }
  Sym as_int() const { return as<Sym>(); }
  double as_double() const {
    return is<Sym>()      ? static_cast<double>(as<Sym>())
           : is<Scalar>() ? as<Scalar>().to_double()
                          : as<double>();
  }
  Scalar as_scalar() const {
    return is<double>() ? Scalar(as<double>())
           : is<Sym>()  ? Scalar(as<Sym>())
           : is<bool>() ? Scalar(as<bool>())
                        : as<Scalar>();
  }
  DType as_dtype() const { return as<DType>(); }
  Device as_device() const { return as<Device>(); }
  const SymList& as_sizes() const { return as<SymList>(); }
  const DimList& as_dims() const { return as<DimList>(); }
  const std::string& as_string() const { return as<std::string>(); }
  const Routine& as_routine() const { return *as<RoutinePtr>(); }

  using Value = std::variant<std::monostate, bool, Sym, double, Scalar, DType, Device, SymList, DimList,
                             std::string, RoutinePtr>;
  const Value& value() const { return value_; }

 private:
  Value value_;
};
using Attrs = SmallVector<Attr, 4>;
std::ostream& operator<<(std::ostream& out, const Attr& attr);

// ---- Schema: "sum(Tensor x, int[] dims=[], bool keepdim=False, *, ScalarType? dtype=None) -> Tensor" ------------

enum class ParamType : uint8_t {
  Tensor,
  OptionalTensor,
  TensorList,
  OptionalTensorList,
  Value /* tensor or number */,
  OptionalValue,
  Number,  // operands
  Bool,
  Int,
  Float,
  Scalar,
  Dims /* int[] of dimensions */,
  Sizes /* SymInt[] */,
  DType,
  Device,
  String,
  Routine,  // attributes
};

struct Param {
  std::string name;
  ParamType type;
  bool optional = false;  // may be None
  bool has_default = false;
  Attr default_value;  // for operands of type Number too
  bool keyword_only = false;
  bool is_operand() const { return type <= ParamType::Number; }
};

// Parsed from text when the op is registered. Operand types: Tensor, Tensor?, Tensor[], Tensor?[], Value (a tensor or a
// number), Value?, Number (a slot that takes a number only). Attribute types: bool, int, float, Scalar, int[] (dimensions),
// SymInt[] (sizes), ScalarType, Device, str, Routine; each may end in `?`.
struct Schema {
  explicit Schema(std::string_view text);

  std::string name;
  std::vector<Param> params;
  int num_outputs = 1;
  bool returns_list = false;

  int num_attrs() const;
  // The position of a parameter among the operands or among the attributes. The tensors of a list come last among the
  // operands, wherever the list stands, so that every other operand has one fixed slot.
  int operand_index(size_t param) const;
  int attr_index(size_t param) const;
};
std::ostream& operator<<(std::ostream& out, const Schema& schema);

// ---- A call ---------------------------------------------------------------------------------------------------------

// One application of an op. Borrows everything.
struct Call {
  const Op& op;
  std::span<const Operand> operands;
  const Attrs& attrs;
  SourceLocation where;

  // What the user called, for messages: the op, or the composite whose part it is.
  const char* name() const;
  // The tensor in a slot. Error naming op and slot if the slot holds none.
  const Tensor& tensor(size_t i) const;
  bool has_tensor(size_t i) const { return i < operands.size() && operands[i].is_tensor(); }
  const Attr& attr(size_t i) const { return attrs[i]; }
};

// ---- Gradients ------------------------------------------------------------------------------------------------------

enum class GradState : uint8_t {
  None /* not differentiable */,
  Formula,
  Decomposition /* tape what it is made of */
};

// What a gradient body may ask for. Its parameter list IS the saved set: Dy<k>, In<k>, Out<k> hold tensors, InSpec<k> and
// the attributes are free.
struct GradCall {
  std::span<const Tensor> grad_outputs;     // undefined where no gradient arrived
  std::span<const Tensor> inputs;           // by operand; only the saved ones are defined
  std::span<const Scalar> numbers;          // by operand; for slots that hold numbers
  std::span<const Tensor> outputs;          // only the saved ones are defined
  std::span<const OutputSpec> input_specs;  // by operand: spec_of what went in
  const Attrs& attrs;
  SourceLocation where;
};

// The gradient with respect to one operand (for a TensorList op: each of them, by index).
struct GradRule {
  uint32_t saved_inputs = 0;                                    // bit i: operand i is needed
  uint32_t saved_outputs = 0;                                   // bit i: output i is needed
  std::function<Tensor(const GradCall&, size_t operand)> body;  // empty: no gradient for this operand
  const Op* derived = nullptr;  // pointwise: the op whose body is the formula, over (dy, operands…, output)
  uint64_t derived_uses = 0;    // pointwise: which of those slots the formula reads
  int derived_scale = -1;       // pointwise: the formula is dy (0), or dy times this slot (-1: neither)
};

// ---- Algebra --------------------------------------------------------------------------------------------------------

// What rewriting may rely on. Each fact holds bit for bit in every dtype, for -0, infinities and NaN (which equals any NaN)
// too, as long as the result has the dtype of the operand that takes its place. tests/harness holds the table to it.
struct Algebra {
  // With `number` in `slot`, and the default in every further slot, the result is operand `gives`. -0.0 is not 0.0.
  struct Identity {
    int slot;
    double number;
    int gives;
  };
  SmallVector<Identity, 2> identities;
  bool is_commutative = false;  // the first two operands may change places
  bool is_involution = false;   // f(f(x)) is x
  bool is_idempotent = false;   // f(f(x, …), …) is f(x, …)
  bool is_choice = false;       // operand 0 decides between operands 1 (where it is not 0) and 2
  bool is_fill = false;         // every element is the number in operand 0
};

// ---- The op ---------------------------------------------------------------------------------------------------------

struct PointwiseRule;  // tensor/ops/pointwise_rule.h
template <class S>
struct MoveRule;  // tensor/index_rules.h
struct Expr;      // tensor/expr/expr.h
struct FoldRule;  // tensor/loop_rule.h
class LoopReader;

class Op {
 public:
  Op(Schema s, Kind k) : schema(std::move(s)), kind(k) {}
  const std::string& name() const { return schema.name; }
  const char* c_name() const { return schema.name.c_str(); }

  Schema schema;
  Kind kind;
  // Sizes, dtype and strides of the results, from sizes that may be symbolic. All kinds but View and Composite.
  OutputSpecs (*infer)(const Call&) = nullptr;
  // View: the layout of the result; and its dtype where it differs.
  Layout<Sym> (*view)(const Layout<Sym>&, const Attrs&, DType from) = nullptr;
  DType (*view_dtype)(const Attrs&, DType from) = nullptr;
  // View: its attributes speak of places in the storage, whatever the layout of the operand.
  bool views_storage = false;
  // View that leaves out elements or meets some twice: the op that writes through it (ops/view.h). Others are undone by
  // their gradient rule, or by the view of the former dtype.
  const Op* scatter = nullptr;
  // Index ops that only rearrange: which element of operand 0 stands at each place of the result.
  MoveRule<Sym> (*move)(const Call&) = nullptr;
  // Reductions that are one fold: which. Null, or nothing for a call, where they are more.
  std::optional<FoldRule> (*fold)(const Call&) = nullptr;
  // Create and Index: one element of the result from elements of the operands (ElementRule of loop_rule.h).
  Expr (*element)(LoopReader&, const Call&, const OutputSpec& result, std::span<const Sym> place) = nullptr;
  // Fills outputs that were made from infer's answer.
  void (*cpu)(const Call&, std::span<Tensor> outputs) = nullptr;
  // Makes its outputs itself: pointwise ops (fast path), ops whose sizes depend on data.
  void (*cpu_whole)(const Call&, std::span<Tensor> outputs) = nullptr;
  // The same on a GPU, for ops that no loop computes: matrix products. Null: by its loops, or by way of the host.
  void (*cuda)(const Call&, std::span<Tensor> outputs) = nullptr;
  // Its kernel takes tensors of any devices, also of different ones: copies.
  bool any_device = false;
  // Mutation: the op that computes the new value, and a kernel that writes it directly, if there is one.
  // A view's scatter: the view.
  const Op* base = nullptr;
  void (*cpu_in_place)(const Call&, const Tensor& self) = nullptr;
  // Composite: calls the public function. Others: what it is made of, itself differentiable; null for primitives.
  std::function<void(const Call&, std::vector<Tensor>& outputs)> composite;
  // Composite: how it says that an op which it is made of met an index out of range: value `value` at element `place`.
  std::string (*index_error)(const Call& inner, int64_t place, int64_t value) = nullptr;
  std::function<Tensor(const Call&)> decompose;
  std::shared_ptr<PointwiseRule> pointwise;  // pointwise ops only

  GradState grad_state = GradState::None;
  std::vector<GradRule> grads;  // by operand; a TensorList op has one for all
  bool is_random = false;       // draws from a generator
  bool data_dependent = false;  // result sizes depend on values
  bool has_effect =
      false;  // must run on every call, even if nobody reads what it gives: prints, calls the host
  Algebra algebra;
  Samples samples;
};

// ---- The table ------------------------------------------------------------------------------------------------------

// All ops by name; filled on first use. Never changes afterwards but for custom ops.
class OpTable {
 public:
  static OpTable& instance();
  // Null if there is none.
  const Op* find(std::string_view name) const;
  // Error naming the op if there is none.
  const Op& get(std::string_view name) const;
  std::vector<const Op*> all() const;
  Op& add(std::unique_ptr<Op> op);
  // For entries that are completed after they were added.
  Op& mutable_op(std::string_view name);

 private:
  std::deque<std::unique_ptr<Op>> ops_;
  std::unordered_map<std::string_view, Op*> by_name_;
};

// The op of a fixed name, looked up once.
#define WEFT_OP(name)                                                    \
  ([]() -> const ::weft::Op& {                                           \
    static const ::weft::Op& op = ::weft::OpTable::instance().get(name); \
    return op;                                                           \
  }())

}  // namespace weft
