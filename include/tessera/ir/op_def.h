// SPDX-License-Identifier: Apache-2.0
// An op is one file and one row, which contains all information about the op. The rows are in src/ops. This header
// defines their type. docs/internals/add_an_op.md describes how to write one.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/text.h"
#include "tessera/ir/program.h"

namespace tessera {

class Builder;
struct Value;

/// The view of an instruction that the functions of a row receive. The instruction may not exist yet.
struct OpView {
  const OpDef& op;
  std::vector<Type> operands;
  Type result;  // within infer: the declared type, or the empty tuple if there is none
  Attributes attributes;
  std::vector<ComputationRef> called;

  template <class T>
  [[nodiscard]] const T& as() const {
    return attributes_as<T>(attributes);
  }
};
/// The view of an instruction of a program.
OpView view_of(const Program& program, const Computation& computation, const Instruction& instruction);

// ---- reference evaluation -------------------------------------------------------------------------------------------

/// The arguments of an evaluation: the operands, and a function that runs called computations.
struct EvalContext {
  const OpView& view;
  std::span<const Literal> operands;
  /// Runs called computation `which`.
  std::function<Literal(int which, const std::vector<Literal>& arguments)> call;
  std::int64_t partition = 0;
  std::int64_t partition_count = 1;
};

/// The arguments of the evaluation of a collective on all devices together. operands[device][i] is operand i of a
/// device. A device that took another branch of a conditional has no operands. The evaluation returns one result per
/// device.
struct CollectiveContext {
  const OpView& view;
  const std::vector<std::vector<Literal>>& operands;
  std::function<Literal(int which, const std::vector<Literal>& arguments)> call;
};

// ---- gradient -------------------------------------------------------------------------------------------------------

struct GradientContext;  // tessera/autodiff/gradient_context.h
/// How the gradient of an op is computed.
enum class GradientKind : std::uint8_t {
  kNone,      // not differentiable: an error names the op if a gradient must pass through it
  kZero,      // piecewise constant or integer-valued: no gradient flows
  kFunction,  // `gradient` below
  kForm,      // that of the ops that `hlo_form` below emits
};

// ---- several examples -----------------------------------------------------------------------------------------------

struct BatchContext;  // tessera/ops/batching.h

// ---- factors --------------------------------------------------------------------------------------------------------

/// An op as an einsum over factors, independent of meshes (as in Shardy's sharding rules).
enum class FactorKind : std::uint8_t {
  kPass,     // kept: sharding it shards the work
  kReduce,   // absent from the result: sharding it leaves the result partial. A result leaf that has it is sharded
  kPermute,  // kept, but elements move along it (pad, slice, window, reverse, concatenate): needs halos or realignment
  kBlocked,  // cannot be sharded (sort dim, fft dim)
};
/// An index of an op, with its number of elements.
struct Factor {
  std::int64_t size = 1;
  FactorKind kind = FactorKind::kPass;
  friend bool operator==(const Factor&, const Factor&) = default;
};
/// The factors of one dim, major to minor; several for a dim that reshape splits or merges; none for a size-1 dim.
using DimFactors = std::vector<int>;
/// One entry for each dim of a leaf.
using TensorFactors = std::vector<DimFactors>;

/// The elements that an op reads along an operand dim, for a factor whose elements move along the dim (kPermute:
/// slice, pad, the result of a window) or slide past it (kReduce: the kernel of a convolution). Index i of the factor
/// reads the positions i*stride - low + [0, extent). Element j of the dim is at position j*dilation. The partitioner
/// fetches the elements that a tile lacks from its neighbours (docs/internals/partitioning.md, halos).
struct Window {
  int operand = 0;  // leaf
  int dim = 0;
  int factor = 0;
  std::int64_t stride = 1;
  std::int64_t low = 0;  // negative: the first elements are skipped
  std::int64_t dilation = 1;
  std::int64_t extent = 1;
  bool reversed = false;  // index i counts from the factor's end
  friend bool operator==(const Window&, const Window&) = default;
};

/// The factors of an op, and the factors of each dim of its operands and results.
struct FactorMap {
  std::vector<Factor> factors;
  std::vector<TensorFactors> operands;    // one for each operand (arrays only; the leaves of a tuple operand in order)
  std::vector<TensorFactors> results;     // one per leaf of the result
  Reduction reduction = Reduction::kSum;  // the reduction of a result that a sharded kReduce factor leaves partial
  bool reduction_known = true;            // false: Reduction lacks the computation; kReduce acts as kBlocked
  /// One entry for each operand dim of a kPermute factor. A kPermute factor without an entry cannot be sharded. A dim
  /// may have windows of several factors: a dim of an image has those of the result and of the kernel. Only one of
  /// these factors may be sharded.
  std::vector<Window> windows{};
  friend bool operator==(const FactorMap&, const FactorMap&) = default;
  [[nodiscard]] std::size_t hash() const;

  int add(std::int64_t size, FactorKind kind = FactorKind::kPass) {
    factors.push_back({size, kind});
    return static_cast<int>(factors.size()) - 1;
  }
  /// `([i,k],[k,j])->([i,j]) reduce{k}`; factors are named i, j, k, …
  [[nodiscard]] std::string str() const;
};

/// Whether the op can take an operand as a partial value (with Reduction r) if the other operands are not partial.
enum class Linearity : std::uint8_t {
  kNone,           // the reduction must happen first
  kLinear,         // f(sum x_i) = sum f(x_i) if the other operands are replicated over the axis
  kJointlyLinear,  // linear if all operands of this kind are partial over the same axes (add, the branches of select)
  kMonotone,       // passes min and max (and copies): f(max x_i) = max f(x_i)
  kAny,            // moves elements only: passes every reduction (reshape, transpose, slice)
};

// ---- localize -------------------------------------------------------------------------------------------------------

struct LocalizeContext;  // tessera/ir/localize_context.h

// ---- cost -----------------------------------------------------------------------------------------------------------

/// The floating-point operations of one execution with the types in the view.
using FlopsFunction = double (*)(const OpView&);

/// How generic code that follows data flow must treat the op. Nearly all ops are kPlain.
enum class Role : std::uint8_t {
  kPlain,
  kParameter,
  kConstant,
  kTuple,
  kGetTupleElement,
  kCall,
  kWhile,
  kConditional,
  kOptBarrier,
  kCopy,          // identity; with a sharding that differs from its operand's it is a reshard
  kShardingMark,  // custom-call Sharding and similar targets
  kCollective,
  kPartitionId,
};

// ---- properties for the scheduler, the passes and the runtime -------------------------------------------------------

/// The kind of exchange between devices. OpDef::bytes_received computes its bytes.
enum class CollectiveKind : std::uint8_t {
  kNone,
  kAllGather,
  kReduceScatter,
  kAllReduce,
  kAllToAll,
  kPermute,
  kBroadcast,
  kRaggedAllToAll,
};

/// How an op that only moves elements maps its first operand to its result. All except kReshape read the operand with
/// other strides.
enum class Movement : std::uint8_t {
  kNone,
  kReshape,    // the same elements in row-major order, other dims
  kBroadcast,  // DimensionsAttributes: operand dim i is result dim dimensions[i], the others repeat
  kTranspose,  // DimensionsAttributes: the permutation
  kSlice,      // SliceAttributes
  kReverse,    // DimensionsAttributes: the reversed dims
};

/// The reduction that has this op as its combiner. For add it is kSum for numbers and kOr for preds.
struct CombinedReduction {
  Reduction of_numbers;
  Reduction of_pred;
};

/// Returns the bytes that a device receives. `operand` and `result` are the bytes of the operands and results. `group`
/// is the number of devices in a group, at least 2.
using BytesReceived = std::int64_t (*)(std::int64_t operand, std::int64_t result, std::int64_t group);

/// The devices that an attribute of a collective lists, in its order.
struct ListedDevices {
  std::string_view attribute;  // "replica_groups"
  std::vector<std::int64_t> devices;
};

/// How an op exchanges its operand with a file of the host.
enum class FileTransfer : std::uint8_t {
  kNone,
  kWrite,  // the result is in the file, and uses no memory
  kRead,   // reads the operand, which is in a file, into memory
};

/// The content of the parentheses in a text: operands, or a number (parameter), or a literal (constant).
enum class Payload : std::uint8_t { kOperands, kNumber, kLiteral };

/// A row of the op table.
struct OpDef {
  std::string_view name;
  int min_operands = 0;
  int max_operands = 0;  // -1: any number
  Payload payload = Payload::kOperands;
  Role role = Role::kPlain;
  bool (*side_effect)(const Attributes&) = nullptr;  // null: no instruction of the op has one
  bool commutative = false;
  /// Every device can compute any part of the result without communication, because the result depends only on scalar
  /// operands. Applies to instructions whose operands are all scalars.
  bool rematerializable = false;
  /// For collectives: the number of operands whose data is exchanged; the others describe the exchange. -1: all.
  int data_operands = -1;
  bool elementwise = false;  // result and operands have equal dims (except scalars of select and clamp)
  /// An elementwise op that takes one or two machine instructions per element. Other elementwise ops take several times
  /// as long.
  bool inexpensive = false;
  std::optional<CombinedReduction> combines{};  // for elementwise ops of two operands
  Movement movement = Movement::kNone;
  /// A loop can compute the result in chunks of a dim, if the factor of the dim is kPass. This also applies to all
  /// elementwise ops.
  bool chunkable = false;
  /// Copies a part of its first operand; the other operands give its position.
  bool takes_a_part = false;
  /// The result is much larger than the operands, so the schedule runs the op late.
  bool materializes = false;
  /// May write result leaf k into the memory of leaf k of its first operand.
  bool updates_operand_in_place = false;
  /// The kernel reads its operands through strides (none of them 0), and writes its result through strides.
  bool reads_strides = false;
  bool writes_strides = false;
  /// The kernel reads its operands from their first byte on and ignores the memory after them.
  bool reads_from_start = false;
  FileTransfer file_transfer = FileTransfer::kNone;
  CollectiveKind collective = CollectiveKind::kNone;
  BytesReceived bytes_received = nullptr;                        // for collectives
  ListedDevices (*listed_devices)(const Attributes&) = nullptr;  // for collectives
  /// For collectives: every operand is exchanged separately and gives the result leaf with its number, so that several
  /// can be combined into one message.
  bool exchanges_each_operand = false;
  /// The attributes that name computations, in the order of Instruction::called: {"condition", "body"}. An entry
  /// "branch_computations" or "called_computations" is a list `{a, b}`.
  std::vector<std::string_view> called{};

  /// Reads the typed attributes. Null if the op has none.
  Attributes (*parse)(AttributeReader&) = nullptr;
  /// Returns the result type for the operand types, attributes and called computations. view.result is the declared
  /// type, if there is one; ops such as parameter and custom-call return it. Throws an Error with the reason only,
  /// because emit() adds the context.
  Type (*infer)(const OpView&) = nullptr;
  /// True if a text may omit the result type.
  bool type_inferable = true;
  /// Null for collectives, which have evaluate_collective, and for ops that the evaluator runs itself: parameters,
  /// call, while, conditional.
  Literal (*evaluate)(const EvalContext&) = nullptr;
  std::vector<Literal> (*evaluate_collective)(const CollectiveContext&) = nullptr;

  GradientKind gradient_kind = GradientKind::kNone;
  /// Computes the gradients of the operands from the gradient of the result; see gradient_context.h.
  std::vector<Value> (*gradient)(GradientContext&) = nullptr;
  /// Emits the op for several examples, which are a further dim 0 of operands and of all leaves of the result (vmap).
  /// Returns null if there is no such form for these operands; vmap then loops over the examples. Null: the same op on
  /// larger dims for elementwise ops, and a loop for others.
  Value (*batch)(BatchContext&) = nullptr;

  FactorMap (*factors)(const OpView&) = nullptr;                 // null: all operands and results are fully replicated
  Linearity (*linearity)(const OpView&, int operand) = nullptr;  // null: kNone for every operand
  /// Emits the per-device form, for ops whose values depend on positions or whose attributes contain sizes. Null: the
  /// same op and attributes on local types.
  Value (*localize)(LocalizeContext&) = nullptr;
  /// Returns the scalar that windows read beyond the ends of an operand; null if the result does not depend on it.
  /// Called once for each operand before the halo exchange. It may replace the operand by one whose elements never
  /// equal the scalar.
  Value (*outside)(LocalizeContext&, int operand) = nullptr;
  /// Emits the same value, up to rounding, from smaller ops. For an op that needs an unsharded dim only because it uses
  /// a sum along it. In this form, batch-norm-training over a sharded batch needs only two small all-reduces. Null if
  /// there is no such form.
  Value (*expand)(const OpView&, const std::vector<Value>& operands) = nullptr;
  /// For an op that HLO lacks: emits the same value, up to rounding, from ops of HLO. Null for ops of HLO.
  Value (*hlo_form)(const OpView&, const std::vector<Value>& operands) = nullptr;
  /// True if `localize` itself keeps padding out of kReduce factors. Otherwise the partitioner fills the padding of
  /// these operand dims with the identity of the reduction.
  bool masks_padding = false;
  FlopsFunction flops = nullptr;  // null: elementwise ops count one per element of a float result; others 0
};

/// The floating-point operations of one execution, by OpDef::flops or its default. `tessera stats` prints their sum,
/// and a run counts them.
double flops_of(const OpView& view);

/// True if the instruction has a side effect. It must then run exactly once, in order with other side effects.
bool has_side_effect(const Instruction& instruction);
/// For each computation: true if it, or a computation that it calls, has a side effect.
std::vector<bool> computations_with_effects(const Program& program);
/// True if the instruction, or a computation that it calls, has a side effect.
bool has_side_effect(const Instruction& instruction, const std::vector<bool>& with_effects);

/// The op table: rows in a fixed order, found by their HLO name. Filled in src/ops/op_table.cpp.
class OpTable {
 public:
  /// `missing` lists the ops of HLO that the table lacks, separated by blanks. For these, the error of get() states
  /// that Tessera does not support them.
  explicit OpTable(std::vector<const OpDef*> rows, std::string_view missing = {});
  /// Null if no row has this name.
  [[nodiscard]] const OpDef* find(std::string_view name) const;
  /// Error if no row has this name: it names the nearest one, or states that the op exists in HLO but not in Tessera.
  [[nodiscard]] const OpDef& get(std::string_view name) const;
  [[nodiscard]] const std::vector<const OpDef*>& rows() const { return rows_; }

 private:
  std::vector<const OpDef*> rows_;
  std::vector<std::pair<std::string_view, const OpDef*>> by_name_;  // sorted
  std::string_view missing_;
};

}  // namespace tessera
