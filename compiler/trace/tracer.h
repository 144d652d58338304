// Tracer: runs the user's function on fake tensors and records it as one functional graph, the path.
// Needs fake, shape_env and autograd. The runtime makes one for each trace; trace_result.h reads what came out.
#pragma once

#include <deque>
#include <unordered_map>

#include "autograd/function.h"
#include "autograd/grad_mode.h"
#include "autograd/node.h"
#include "compiler/trace/fake.h"
#include "compiler/trace/host_functions.h"
#include "compiler/trace/shape_env.h"
#include "tensor/cell.h"

namespace weft::compiler {

// Where a call finds a tensor of the path.
struct InputSource {
  enum class Kind : uint8_t {
    Argument,  // tensor leaf `index` of the arguments
    Captured,  // the real tensor that the function reached; of an arm, the tensor of the trace around it
    Constant,  // host data that the function made a tensor of
    Grad,      // the .grad of path input `index`
    Line,      // the whole storage of path input `index`, as one line: tensors that overlap are views of it
    Result,    // result of the data-dependent op of break `index`
    Tangent,   // gradient of differentiable output `index`; of an arm, its parameter `index`
  };
  Kind kind = Kind::Argument;
  uint32_t index = 0;
};

struct PathInput {
  InputSource source;
  ValueId value = kNoValue;        // what it was at entry; a view of its line where it has one
  Tensor real;                     // in the traced call
  Tensor fake;                     // what stands for it
  autograd::Edge entry;            // where its gradient arrives, if it requires one
  Tensor outer;                    // of an arm: the tensor of the trace around it,
  ValueId outer_value = kNoValue;  // and its value there
  std::string name;
  bool requires_grad = false;
  bool has_grad = false;       // its .grad was defined at entry
  bool is_grad_asked = false;  // C++ code asked whether it requires grad
  bool has_place = false;      // the program relies on where it lies in its storage
  bool is_captured = false;    // an argument or a gradient that the function reached by itself, too
};

// A path input that the trace reached in a second way: as another leaf, from within the function, or as a gradient.
struct SecondRoute {
  uint32_t input = 0;
  InputSource source;
};

// Where a call finds a number of the path.
struct NumberSource {
  enum class Kind : uint8_t {
    Argument,  // number leaf `index` of the arguments
    Cell,      // the cell
    Seed,      // of the default generator, for segment `index`
    Counter,   // its first counter, likewise
    Lifted,    // plain number `index` of the function's body, in follow mode
  };
  Kind kind = Kind::Argument;
  uint32_t index = 0;
  Intrusive<CellImpl> cell;
};

// A point where the function asked for a value, so that what comes after depends on it.
struct Break {
  enum class Kind : uint8_t { Compare, Double, Integer, Result };
  Kind kind = Kind::Compare;
  SymCompare compare = SymCompare::Eq;  // Compare: a `compare` b
  ScalarId a = 0, b = 0;                // Double, Integer: a
  Node node;                            // Result: the data-dependent op
  std::vector<uint32_t> results;        // Result: the path inputs that its results become
  Place place;
  NodeId end = 0;                   // nodes before it belong to the segments up to here
  std::vector<ValueId> live;        // what later code may read
  Sym counters = Sym::from_int(0);  // drawn from the generator since the break before
  uint64_t outcome = 0;             // bits of the bool, integer or double
};

// The real world, while a trace runs: gives what the function asks for.
class BreakHandler {
 public:
  virtual ~BreakHandler() = default;
  // The outcome of breaks()[index], which has just been recorded; for Result also its results.
  virtual uint64_t decide(size_t index, std::vector<Tensor>& results) = 0;
};

// Thrown inside the function and caught by the runtime: the call runs without being compiled, for this reason.
struct CannotCapture {
  std::string reason;
  SourceLocation where;
};
// Likewise: the trace starts again, with the tensors of this storage as views of one line.
struct RestartTrace {
  Intrusive<Storage> storage;
};

class Tracer;

struct TraceOptions {
  BreakHandler* breaks = nullptr;
  bool fullgraph = false;  // a break is an error
  std::vector<Intrusive<Storage>> lines;
  const std::vector<bool>* lifted = nullptr;  // by ordinal: plain numbers that are read at each call
  HostFunctions* host = nullptr;              // where functions of the host are kept; null: nowhere
  uint32_t num_leaves = 0;                    // tensors among the leaves of the arguments
  Tracer* around = nullptr;                   // the trace in which this one traces an arm
  std::string part = {};                      // how messages call the arm: "true_fn of cond"
};

class Tracer final : public TraceHook, public ScalarEnvironment, public CellEnvironment {
 public:
  explicit Tracer(TraceOptions options);
  ~Tracer() override;
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  // ---- Before the function runs. Layouts may hold placeholders and symbols of shapes().
  const Tensor& add_argument(uint32_t leaf, const Tensor& real, Layout<Sym> layout, std::string name);
  Scalar add_number(uint32_t leaf, Scalar::Category category);
  Tensor add_tangent(uint32_t index, const OutputSpec& spec);

  // ---- What was recorded.
  Graph& graph() { return graph_; }
  const Graph& graph() const { return graph_; }
  ShapeEnv& shapes() { return shapes_; }
  const ShapeEnv& shapes() const { return shapes_; }
  std::deque<PathInput>& inputs() { return inputs_; }
  const std::deque<PathInput>& inputs() const { return inputs_; }
  // The path input that a graph input is, or kNoInput.
  uint32_t input_of(ValueId value) const;
  const std::vector<SecondRoute>& second_routes() const { return second_routes_; }
  // Gradients count as leaves, too, after those of the arguments: by number, the path input that the gradient is.
  const std::vector<uint32_t>& gradients() const { return gradients_; }
  const std::vector<NumberSource>& numbers() const { return numbers_; }
  const std::vector<double>& number_hints() const { return number_hints_; }
  const std::vector<Break>& breaks() const { return breaks_; }
  struct CellWrite {
    Intrusive<CellImpl> cell;
    ScalarId value;
  };
  const std::vector<CellWrite>& cell_writes() const { return cell_writes_; }
  // Floating numbers of the function's body in the order in which ops took them.
  const std::vector<Scalar>& plain_numbers() const { return plain_numbers_; }
  // Makes one of them an input, read at each call, if an op from node `first` on took it. False if it cannot be.
  bool lift(size_t ordinal, NodeId first);
  // Counters drawn since the last break.
  Sym counters() const { return counters_; }
  // Whether gradients were on at some op; and when the function was entered.
  bool used_grad_mode() const { return used_grad_mode_; }
  bool traced_grad_mode() const { return traced_grad_mode_; }
  // Whether the function may do something else in the other mode: some op saw a tensor that requires grad, or C++ code
  // asked for the mode.
  bool depends_on_grad_mode() const { return depends_on_grad_mode_; }
  // Whether the tensor lies in a line.
  bool is_in_line(const Tensor& real) const { return lines_.contains(real->storage.get()); }
  // Whether user-defined functions of the tape were applied.
  bool has_functions() const { return autograd::num_function_nodes() != functions_before_; }
  bool is_used(uint32_t input) const { return used_[input]; }

  // The value of a fake tensor now; emits the views that lead to it. Note [Functional values]
  ValueId value_of(const Tensor& fake);
  // The same in the layout that eager gives it, for what leaves the graph.
  ValueId output_of(const Tensor& fake);
  // Closes what no break closes: the values that fakes hold now.
  std::vector<ValueId> live_values();
  // Lets go of the fakes that stand for real tensors, when the function has returned.
  void drop_fakes();
  // A fake that still lives although nobody inside holds it, or null.
  const TensorImpl* find_escaped() const;
  Intrusive<TraceLife> life() const { return life_; }

  // ---- Arms: parts of the function that become graphs of their own, traced by a tracer each. Note [Arms]
  // A tensor that a call of the arm brings.
  Tensor add_parameter(uint32_t index, const OutputSpec& spec);
  // A tensor with this value and without history.
  Tensor wrap(ValueId value);
  // Says that item `index` has this value in this graph.
  void set_item(uint32_t index, ValueId value);
  // Gives the graph the items of the trace around it that its numbers name.
  void reach_items();
  const std::string& part() const { return options_.part; }
  // What the arm did that holds for the whole function.
  void tell_around();

  // What stands in the graph for a function of the host that is called here.
  RoutinePtr host_function(HostCallback callback, SourceLocation where);

  // ---- TraceHook
  void record(const Call& call, std::span<Tensor> outputs) override;
  void mutate(const Call& call, const Tensor& self) override;
  Scalar read(const Tensor& x, SourceLocation where) override;
  const Tensor& stand_in(const Tensor& x) override;
  Tensor constant(const Tensor& data, SourceLocation where) override;
  RandomStream draw(Sym counters) override;
  void note_grad_asked(const Tensor& x) override;
  void note_grad_mode_asked() override { root().depends_on_grad_mode_ = true; }
  // ---- ScalarEnvironment
  Scalar binary(ScalarOp op, const Scalar& a, const Scalar& b) override;
  bool compare(SymCompare op, const Scalar& a, const Scalar& b) override;
  double read_double(const Scalar& a) override;
  int64_t read_int(const Scalar& a) override;
  // ---- CellEnvironment
  Scalar read(const Intrusive<CellImpl>& cell) override;
  void write(const Intrusive<CellImpl>& cell, const Scalar& value) override;

 private:
  uint32_t add_input(InputSource source, const Tensor& real, const Layout<Sym>& layout, std::string name);
  const Tensor& lift(const Tensor& real, InputSource source, std::string name);
  void lift_gradient(uint32_t input);
  Layout<Sym> layout_of_gradient(uint32_t input, const Tensor& gradient);
  void follow_gradient(PathInput& input);
  uint32_t line_of(const Tensor& real, uint32_t input);
  bool wants_line(const Tensor& real) const;

  bool is_whole_storage(uint32_t input) const;
  bool overlaps_another(uint32_t input) const;

  void settle(const Call& call, Attrs& attrs);
  Scalar settle(const Scalar& number);
  void settle(OutputSpec& spec);
  void settle_value(ValueId id);
  Scalar lifted(const Scalar& number);
  Scalar lifted_input(size_t ordinal);
  void record_view(const Call& call, const Attrs& attrs, Tensor& output);
  void record_data_dependent(const Call& call, const Attrs& attrs, std::span<Tensor> outputs);
  Node make_node(const Call& call, const Attrs& attrs);
  // Node::grad_mode. It differs only where it may matter, so that a program is the same in both modes where it does not.
  bool is_recorded_with_grad() const { return grad_mode_enabled() || !depends_on_grad_mode_; }
  Tensor fake_of(const OutputSpec& spec, ValueId value);

  // functionalize.cpp
  ValueId apply_view(const Op& op, const Attrs& attrs, ValueId value, const FakeStorage& storage,
                     SourceLocation where);
  Tensor undo_view(const FakeView& view, ValueId before, const Tensor& value, const FakeStorage& storage,
                   SourceLocation where);
  ValueId in_layout(ValueId value, const OutputSpec& spec, SourceLocation where);
  void check_may_write(const Call& call, const FakeStorage& storage) const;
  void write_through(FakeSlot& slot, Tensor value, SourceLocation where);
  void write_nothing(FakeSlot& slot, const Tensor& value, SourceLocation where);

  // tracer_arm.cpp
  Tracer& root() { return options_.around != nullptr ? options_.around->root() : *this; }
  const Tensor& reach_out(const Tensor& x);
  uint32_t add_outer(ValueId outer_value, std::string name);
  void reach_item(uint32_t index);
  void check_values_are_there(const Scalar& number);
  void refuse_in_arm(const char* what, SourceLocation where) const;
  void enter_history(PathInput& input);

  ScalarId scalar_id(const Scalar& number);
  Scalar traced(Scalar::Category category, const ScalarExpr& expr);
  uint32_t add_number_source(NumberSource source, double hint);
  uint64_t decide(Break stop);
  uint64_t decide(size_t index, std::vector<Tensor>& results);
  Place here() const;

  TraceOptions options_;
  Intrusive<TraceLife> life_;
  Graph graph_;
  std::unique_ptr<ShapeEnv> own_shapes_;
  ShapeEnv& shapes_;  // of an arm: those of the trace around it
  std::deque<PathInput> inputs_;
  std::vector<SecondRoute> second_routes_;
  std::vector<uint32_t> gradients_;
  std::vector<bool> used_;
  std::unordered_map<const TensorImpl*, uint32_t> input_of_tensor_;
  std::unordered_map<ValueId, uint32_t> input_of_value_;
  std::unordered_map<const Storage*, std::vector<uint32_t>> inputs_of_storage_;
  std::unordered_map<const Storage*, uint32_t> lines_;
  std::vector<NumberSource> numbers_;
  std::vector<double> number_hints_;
  std::unordered_map<const CellImpl*, Scalar> cells_;  // as they are now
  std::vector<CellWrite> cell_writes_;
  std::vector<Break> breaks_;
  std::vector<uint64_t> checkpoints_;  // that were recorded in, in order: nodes count them from 1
  // Where an op took a plain number, by ordinal.
  struct NumberUse {
    NodeId node = kNoNode;
    bool is_attr = false;
    uint32_t slot = 0;
  };
  std::vector<Scalar> plain_numbers_;
  std::vector<NumberUse> number_uses_;
  std::map<std::pair<std::string, uint32_t>, uint32_t> host_calls_;  // by file and line: how many so far
  Sym counters_ = Sym::from_int(0);
  std::optional<RandomStream> stream_;  // of this segment
  Place place_;
  uint64_t functions_before_ = autograd::num_function_nodes();
  bool used_grad_mode_ = false, traced_grad_mode_ = grad_mode_enabled(), depends_on_grad_mode_ = false;
  bool has_arm_items_ = false;  // some items exist in an arm only
};

// The tracer of this thread, where a trace is on.
Tracer& current_tracer();

// Installs a tracer as this thread's trace; leaving the scope, also by an exception, takes it away.
class TraceScope {
 public:
  explicit TraceScope(Tracer& tracer);
  ~TraceScope();
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 protected:
  TraceScope();  // none: real code runs

 private:
  TraceHook* trace_;
  SymEnvironment* sym_;
  ScalarEnvironment* scalar_;
  CellEnvironment* cell_;
};
// Real code inside a trace: kernels of a finished segment.
class TracePause : public TraceScope {
 public:
  TracePause() = default;
};

}  // namespace weft::compiler
