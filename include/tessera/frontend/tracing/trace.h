// SPDX-License-Identifier: Apache-2.0
// The rank's trace: the computation to which operations are appended until mark_step ends it. nn, optim and fsdp use
// it. Users need it only to write functions of their own:
//
//   #include "tessera/frontend/tracing/inner.h"
//   Tensor double_of(Operand x) {
//     return trace().record(x.where(), [&](Builder&) { Value v = trace().use(x.tensor()); return ops::add(v, v); });
//   }
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tessera/frontend/tensor/tensor.h"
#include "tessera/frontend/tracing/node.h"
#include "tessera/ir/builder.h"

namespace tessera::detail {

/// How ops use a parameter of an FSDP unit, which is gathered where it is used.
struct Unshard {
  std::string unit;
  Sharding gathered;
  bool recompute = true;              // gather again for the backward pass
  std::optional<DType> reduce_dtype;  // the type in which gradients are reduced; nullopt: that of the parameter
  std::optional<Sharding> kept;       // with recompute: the sharding kept until the backward pass; nullopt: not kept
  std::string dummies{};              // kDummyAttribute; "": none
};

/// The values of an update that are sharded over the axes of the batch, although the variable is replicated over them.
enum class UpdateShards : std::uint8_t {
  kGradientAndState,
  kState,
  kNone
};  // with kState, gradient_storage applies only to the state

/// How the gradients of a variable are stored.
struct GradientRules {
  UpdateShards shards = UpdateShards::kGradientAndState;
  double scale = 1;
  bool defers_reduction = false;  // add partial values; the first backward() without this rule reduces the sum
  bool ends_step = false;         // the step ends with backward()
  bool reduces_at_once = false;   // one all-reduce over all devices that shard the batch, then a slice
  bool skips_reduction = false;   // a dummy replaces the reduction, for debugging
};

/// A variable.
class TensorImpl {
 public:
  NodeHandle node;
  std::string name;
  bool requires_grad = false;
  Tensor grad;
  std::shared_ptr<const Unshard> unshard;
  std::optional<DType> compute_dtype;        // ops use it converted to this type
  std::optional<Sharding> gradient_storage;  // sharding of grad() and optimizer state; set by the first backward()
  GradientRules gradient_rules;
  bool has_optimizer_state = false;
  Dims exported_dims;                      // of a parameter: its shape in files; empty: that of its type
  std::shared_ptr<TensorImpl> stands_for;  // for a stored_tensor(): the variable
  std::int64_t stack_count = 0;            // of a stack of variables: the size of dim 0; 0: no stack
  std::shared_ptr<TensorImpl> stack;       // of a view of one variable in a stack: the stack, and the index in dim 0
  std::int64_t row = 0;
  std::shared_ptr<const StateNumber> number;  // of the host, that the tensor stands for in a StateDict
  std::shared_ptr<TensorImpl> argument;  // for an argument of a function that is being compiled: the caller's variable

  /// The variable that accumulates the gradients.
  [[nodiscard]] TensorImpl& with_gradient() { return argument ? *argument : *this; }
};

/// Thrown inside of a function that is being compiled with full_graph = false, where it cannot be compiled.
struct GraphBreak : Error {
  using Error::Error;
};

class Trace {
 public:
  Trace();
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  /// Calls `emit` with `where`, the module path and the unit in the notes. The result is a traced tensor.
  Tensor record(const std::source_location& where, const std::function<Value(Builder&)>& emit);
  /// Returns the value of a tensor for ops: converted to its compute type, and gathered if it is a parameter of a unit.
  /// Gradients flow to it.
  Value use(const Tensor& tensor);
  /// The same for one variable of a stack, where `row` is a row of the stored value of the stack.
  Value use_row(const TensorImpl& stack, Value row);
  /// The stored value.
  Value stored(const Tensor& tensor);
  /// Returns a tensor for a value of this trace. `sharding` constrains it as a result of the step.
  Tensor wrap(Value value, std::optional<Sharding> sharding = {}, std::string name = {});

  /// The computation that is being traced: that of the innermost FunctionTrace, else the entry.
  [[nodiscard]] Builder& builder() { return frames_.empty() ? *entry_ : frames_.back()->builder; }
  /// The instruction of a traced node; null if it is not in this trace any more.
  [[nodiscard]] const Instruction* instruction_of(const Node& node) const;
  /// The value of a traced node in the computation that computes it, which may enclose the current one; null if it is
  /// not in this trace any more.
  [[nodiscard]] Value traced_value(const Node& node) const;
  /// The id in the entry computation of a traced node, or of data that the trace uses; -1 if there is none.
  [[nodiscard]] Id entry_id(const Node& node) const;
  /// A scalar constant. There is one instruction for each value and type.
  Value scalar(DType dtype, double value);
  /// All elements of `type` equal to `value`.
  Value full(const Type& type, double value);
  /// A key u32[2] for one random op, from the seed and the step (inputs of the program) and the number of the op in
  /// this step.
  Value random_key();
  /// The first row of the current MicroBatch, as a u32 scalar input; null outside of one.
  Value first_row();
  void begin_micro_batch(std::int64_t first_row);
  void end_micro_batch();
  /// A number that no variable of this rank has used. For initial values.
  std::uint64_t next_variable() { return ++variables_; }

  [[nodiscard]] std::uint64_t seed() const { return seed_; }
  void set_seed(std::uint64_t seed);
  [[nodiscard]] RandomState random_state() const { return {seed_, step_}; }
  void set_random_state(const RandomState& state);

  // ---- for mark_step() ----------------------------------------------------------------------------------------------

  /// A use of a variable with requires_grad.
  struct Leaf {
    std::weak_ptr<TensorImpl> variable;
    Id stored = -1;
    const TensorImpl* used_as = nullptr;  // the variable itself, or a substitute for it
  };
  [[nodiscard]] const std::vector<Leaf>& leaves() const { return leaves_; }
  [[nodiscard]] const std::vector<std::shared_ptr<Node>>& inputs() const { return inputs_; }
  /// The traced nodes that a tensor still holds, in order of creation.
  [[nodiscard]] std::vector<std::shared_ptr<Node>> live_nodes() const;
  [[nodiscard]] std::uint64_t epoch() const { return epoch_; }
  /// The position of each input in inputs(), by entry instruction.
  [[nodiscard]] int input_index(Id parameter) const;
  std::shared_ptr<Node> make_node(Type type, std::string name = {});
  /// Another node of the same data.
  std::shared_ptr<Node> copy_of(const Node& data);
  /// Discards all traced ops and inputs. `next_step` advances the random state.
  void clear(bool next_step);

  /// Information about a traced function that compile() needs in addition to the ops.
  struct Capture {
    struct Use {
      std::weak_ptr<Node> node;
      std::weak_ptr<TensorImpl> variable;
    };
    // Variables in order of assignment. The next call assigns those that outlive the function.
    std::vector<std::weak_ptr<TensorImpl>> assigned;
    std::unordered_map<const Node*, Use> variables;  // the variable through which an input was first used
    struct EachCall {
      std::function<void()> action;
      std::function<void()> undo;
    };
    std::vector<EachCall> each_call;
    struct DataCheck {
      std::weak_ptr<Node> node;
      std::function<void(const Node&)> check;
    };
    std::vector<DataCheck> checks;  // of data from outside of the function
    bool takes_gradients = false;
    std::vector<std::pair<Id, Id>> backward;  // the first op of each backward pass, and the one after its last
    bool may_break = false;                   // a read or the end of the step throws a GraphBreak
    bool reads_late = false;                  // an argument is read after an assignment to it
    std::uint64_t nodes_before = 0;           // Node::order of the last node that was made before the function
    std::vector<std::function<void()>> undo;  // undoes the changes of a function to variables if it fails
  };
  class CaptureScope {
   public:
    CaptureScope(Trace& trace, Capture& capture) : trace_(trace) {
      capture.nodes_before = trace.orders_;
      trace_.capture_ = &capture;
    }
    ~CaptureScope() { trace_.capture_ = nullptr; }
    CaptureScope(const CaptureScope&) = delete;
    CaptureScope& operator=(const CaptureScope&) = delete;

   private:
    Trace& trace_;
  };
  /// Runs `action` now. In a function that is being compiled, also runs it at every later call. For work on the host in
  /// a step. `undo` reverts the action if the call fails.
  void at_each_call(const std::function<void()>& action, const std::function<void()>& undo = {});
  [[nodiscard]] bool is_capturing() const { return capture_ != nullptr; }
  /// Whether a function is being compiled that did not make this node, so that later calls may have other data.
  [[nodiscard]] bool is_from_outside(const Node& node) const {
    return capture_ != nullptr && node.order <= capture_->nodes_before;
  }
  /// In a function that is being compiled, runs `check` at every later call on the data that the tensor then has.
  void check_at_later_calls(const Tensor& tensor, std::function<void(const Node&)> check);
  /// Called before a value is read or a step ends: throws a GraphBreak in a function that may be run without compiling.
  void note_graph_break() const;
  /// Called before `node`, the value of a tensor, is read on the host. In a function that is being compiled it is an
  /// error, unless the function made the data itself: later calls, which do not trace, would use the first value.
  void note_read(const Tensor& tensor, const Node& node, const std::source_location& where) const;
  /// Must be called before a variable gets another value (note_assignment) or another gradient (note_gradient).
  void note_assignment(const std::shared_ptr<TensorImpl>& variable);
  void note_gradient(const std::shared_ptr<TensorImpl>& variable);
  /// Called after backward() has added the ops from `first` on. The next forward pass gathers the parameters of units
  /// again that the backward pass has gathered again.
  void note_backward(Id first);
  /// Advances the random state to the next step.
  void next_step();

  /// A function that is being traced into a computation of its own. A value of an enclosing computation that it uses
  /// becomes a parameter after its arguments.
  struct Frame {
    Frame(ProgramBuilder& program, std::string name, std::uint64_t its_number)
        : builder(program.computation(std::move(name))), number(its_number) {}
    Builder builder;
    std::uint64_t number;
    std::vector<Value> captured;          // in the enclosing computation, in the order of their parameters
    std::unordered_map<Id, Id> inner_of;  // captured value -> value in this computation
    std::map<std::pair<DType, std::uint64_t>, Id> scalars;
    Value iteration{};  // if this is the body of a loop: its counter, s32[]
  };
  void push_frame(const std::shared_ptr<Frame>& frame) { frames_.push_back(frame); }
  void pop_frame() { frames_.pop_back(); }
  [[nodiscard]] bool in_function() const { return !frames_.empty(); }
  [[nodiscard]] std::uint64_t next_frame() { return ++frame_count_; }
  [[nodiscard]] ProgramBuilder& program() { return *program_; }
  /// A value of the current computation or of an enclosing one, for use in the current one.
  Value here(Value value);
  /// Error if a function is being traced, because `what` is not possible there.
  void require_no_function(std::string_view what) const;

  // ---- eager mode (eager_mode.h) ------------------------------------------------------------------------------------

  [[nodiscard]] bool is_eager() const { return is_eager_; }
  /// Switches the mode. If it is on, also runs the ops that were traced before.
  void switch_eager(bool on);
  /// Switches the mode and runs nothing.
  void restore_eager(bool on) { is_eager_ = on; }
  /// The data that eager mode has computed for a value of the entry computation; null if there is none. Its ops stay in
  /// the trace.
  [[nodiscard]] std::shared_ptr<Node> computed(Id id) const;
  [[nodiscard]] bool has_computed() const { return !computed_.data.empty(); }
  /// True for a value that ops of this trace compute. False for data, except data that eager mode has computed.
  [[nodiscard]] bool is_recorded(const Node& node) const;

  /// Module path and FSDP unit of the ops that are traced now.
  struct Scope {
    std::string path;
    std::string unit;
    std::source_location where{};  // of the call that entered it; line 0 if unknown
    std::string checkpoint{};      // the region whose values the backward pass computes again; "": none
  };
  void push_scope(Scope scope);
  void pop_scope();
  [[nodiscard]] bool in_scope() const { return !scopes_.empty(); }
  /// Ops that are traced until pop_scope() are a checkpoint region.
  void enter_checkpoint(const std::source_location& where);
  /// The source location at which the innermost module was called; `otherwise` outside of modules.
  [[nodiscard]] std::source_location call_site(const std::source_location& otherwise) const;
  /// Adds the location of the outermost module's call to an error, unless the error contains it already.
  void note_call(Error& error) const;
  /// Notes for ops at `where` in the current scope. Within a LibraryCall, at its location.
  NotesRef notes(const std::source_location& where);
  /// The location of the outermost LibraryCall; nullopt outside of one.
  std::optional<std::source_location> library_call{};
  /// The counter of the outermost SyncScope; nullopt outside of one.
  std::optional<std::string_view> sync_counter{};

  std::int64_t recorded_ops = 0;
  std::int64_t first_op_at = 0;  // Timeline::now() at the first op since clear(); 0: there is none

 private:
  /// The ops of the entry computation that eager mode has handled since clear().
  struct Computed {
    Id next = 0;                                         // all ops before it
    std::vector<int> regions;                            // for each of them: regions_around()
    std::unordered_map<Id, std::shared_ptr<Node>> data;  // of the values that are data
  };
  void start();
  [[nodiscard]] bool runs_eagerly() const;
  void run_at_once(Node& node);
  void forget_computed();
  Value own_value(const std::shared_ptr<Node>& node);
  Value row_of_stack(const TensorImpl& view);
  Id input_of(const std::shared_ptr<Node>& node);
  void capture_use(const Tensor& tensor);
  Value with_iterations(Value key);
  Value gathered(const Tensor& tensor, Value stored);
  Value emit_gathered(const TensorImpl& variable, Value stored, bool is_row);

  std::unique_ptr<ProgramBuilder> program_;
  std::unique_ptr<Builder> entry_;
  std::vector<std::shared_ptr<Node>> inputs_;
  std::unordered_map<const Node*, Id> input_ids_;
  std::unordered_map<Id, int> input_indices_;
  std::vector<std::weak_ptr<Node>> recorded_;
  std::vector<Leaf> leaves_;
  std::map<std::pair<const Node*, bool>, Id> gathered_;  // by stored node and gradient_is_deferred()
  std::int64_t backward_passes_ = 0;                     // since clear()
  std::vector<Scope> scopes_;
  std::unordered_map<std::size_t, NotesRef> notes_;
  std::map<std::pair<DType, std::uint64_t>, Id> scalars_;  // by type and bits
  std::shared_ptr<Node> random_state_;
  std::shared_ptr<Node> first_row_;             // within a micro-batch
  std::vector<std::shared_ptr<Frame>> frames_;  // the innermost last
  std::uint64_t frame_count_ = 0;
  std::uint64_t checkpoint_count_ = 0;
  std::uint64_t random_ops_ = 0;
  std::uint64_t step_ = 0;
  std::uint64_t seed_ = 42;
  std::uint64_t variables_ = 0;
  std::uint64_t orders_ = 0;
  std::uint64_t epoch_ = 1;
  Capture* capture_ = nullptr;
  bool is_eager_ = false;
  Computed computed_;
};

/// The trace of the current rank.
Trace& trace();

/// The stored value of the variable, without gradient or gathering, and without an op. Updates of variables use it.
Tensor stored_tensor(const Tensor& variable);

/// Ops that are traced within this scope belong to the module at `path` and, unless empty, to the FSDP unit.
class TraceScope {
 public:
  TraceScope(std::string path, std::string unit, const std::source_location& where = {}) {
    trace().push_scope({std::move(path), std::move(unit), where});
  }
  ~TraceScope() { trace().pop_scope(); }
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;
};

/// A call of a function of the library that consists of other functions, such as a loss. Ops and errors have the
/// location of the call instead of lines of the library.
class LibraryCall {
 public:
  explicit LibraryCall(const std::source_location& where) : is_outermost_(!trace().library_call) {
    if (is_outermost_) trace().library_call = where;
  }
  ~LibraryCall() {
    if (is_outermost_) trace().library_call.reset();
  }
  LibraryCall(const LibraryCall&) = delete;
  LibraryCall& operator=(const LibraryCall&) = delete;

 private:
  bool is_outermost_;
};
/// A part of the library that makes programs run, such as printing or the loader. `counter`, a literal such as
/// "sync::print", counts the programs that run within the outermost scope. Outside of scopes, mark_step() and to_host()
/// have their own counters.
class SyncScope {
 public:
  explicit SyncScope(std::string_view counter) : is_outermost_(!trace().sync_counter) {
    if (is_outermost_) trace().sync_counter = counter;
  }
  ~SyncScope() {
    if (is_outermost_) trace().sync_counter.reset();
  }
  SyncScope(const SyncScope&) = delete;
  SyncScope& operator=(const SyncScope&) = delete;

 private:
  bool is_outermost_;
};
/// Adds the tensors and the location of a LibraryCall to an error, unless the error has a location already.
void note_library_call(Error& error, const std::vector<const Tensor*>& tensors, const std::source_location& where);
/// Calls f() in a LibraryCall. Errors name the tensors and the location.
template <class F>
Tensor library_call(std::initializer_list<const Tensor*> tensors, const std::source_location& where, F&& f) {
  const LibraryCall scope(where);
  try {
    return f();
  } catch (InternalError&) {
    throw;
  } catch (Error& error) {
    note_library_call(error, tensors, where);
    throw;
  }
}

/// An operand of an op within a module of the library. Its source location is the call of the module, not a line of
/// the library.
inline Operand at_call(const Tensor& tensor, const std::source_location& here = std::source_location::current()) {
  return {tensor, trace().call_site(here)};
}

}  // namespace tessera::detail
