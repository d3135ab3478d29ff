// SPDX-License-Identifier: Apache-2.0
// An op is one file and one row: everything the framework knows about it. The rows live in src/ops; this is their shape.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/ir/program.h"

namespace tessera {

class Builder;
struct Value;

/// What a row's functions see of an instruction: also one that is about to be made.
struct OpView {
  const OpDef& op;
  std::vector<Type> operands;
  Type result;  // within infer: the declared type, or the empty tuple when none was given
  Attributes attributes;
  std::vector<ComputationRef> called;

  template <class T>
  [[nodiscard]] const T& as() const {
    return attributes_as<T>(attributes);
  }
};
OpView view_of(const Program& program, const Computation& computation, const Instruction& instruction);

// ---- reference evaluation -------------------------------------------------------------------------------------------

/// What evaluation offers a row: the operands, and a way to run the called computations.
struct EvalContext {
  const OpView& view;
  std::span<const Literal> operands;
  /// Runs called computation `which`.
  std::function<Literal(int which, const std::vector<Literal>& arguments)> call;
  std::int64_t partition = 0;
  std::int64_t partition_count = 1;
};

/// All devices at once: operands[device][i] in, one result per device out. One that a branch keeps away has no operands.
struct CollectiveContext {
  const OpView& view;
  const std::vector<std::vector<Literal>>& operands;
  std::function<Literal(int which, const std::vector<Literal>& arguments)> call;
};

// ---- gradient -------------------------------------------------------------------------------------------------------

struct GradientContext;  // tessera/autodiff/gradient_context.h
enum class GradientKind : std::uint8_t {
  kNone,      // not differentiable: an error names the op when a gradient would have to pass
  kZero,      // piecewise constant or integer-valued: nothing flows
  kFunction,  // `gradient` below
};

// ---- factors --------------------------------------------------------------------------------------------------------

/// An op as an einsum over factors; knows nothing of meshes (after Shardy's sharding rules).
enum class FactorKind : std::uint8_t {
  kPass,     // kept: sharding it shards the work
  kReduce,   // absent from the result: sharding it leaves the result partial
  kPermute,  // kept, but elements move along it (pad, slice, window, reverse, concat): needs halo or realignment
  kBlocked,  // must be whole (sort dim, fft dim)
};
struct Factor {
  std::int64_t size = 1;
  FactorKind kind = FactorKind::kPass;
  friend bool operator==(const Factor&, const Factor&) = default;
};
/// The factors of one dim, major to minor; several for a dim that reshape splits or merges; none for a size-1 dim.
using DimFactors = std::vector<int>;
/// One entry per dim of a leaf.
using TensorFactors = std::vector<DimFactors>;

/// What an op reads along an operand dim for a tile of a factor whose elements move along the dim (kPermute: slice, pad, a window's
/// result) or slide past it (kReduce: a convolution's kernel). Index i of the factor reads the positions
/// i*stride - low + [0, extent); element j of the dim stands at position j*dilation. The partitioner fetches what a tile lacks
/// from its neighbours (docs/partitioning.md, halos).
struct Window {
  int operand = 0;  // leaf
  int dim = 0;
  int factor = 0;
  std::int64_t stride = 1;
  std::int64_t low = 0;  // negative: cut
  std::int64_t dilation = 1;
  std::int64_t extent = 1;
  bool reversed = false;  // index i counts from the factor's end
  friend bool operator==(const Window&, const Window&) = default;
};

struct FactorMap {
  std::vector<Factor> factors;
  std::vector<TensorFactors> operands;    // one per operand (arrays only; a tuple operand's leaves in order)
  std::vector<TensorFactors> results;     // one per leaf of the result
  Reduction reduction = Reduction::kSum;  // how a sharded kReduce factor leaves the result partial
  bool reduction_known =
      true;  // false: the reducing computation is none of Reduction's; a kReduce factor acts as kBlocked
  /// One per operand dim that a kPermute factor runs along, or the factor must be whole. A dim may list several factors that
  /// windows lead to (an image's dim: the result's, the kernel's): one of them may be sharded.
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

/// What happens to a partial operand (Reduction r) when the others are whole.
enum class Linearity : std::uint8_t {
  kNone,           // the reduction must happen first
  kLinear,         // f(sum x_i) = sum f(x_i) with the other operands whole (and replicated over the axis)
  kJointlyLinear,  // linear when all operands so marked are partial over the same axes (add, select's branches)
  kMonotone,       // passes min and max (and copies): f(max x_i) = max f(x_i)
  kAny,            // moves elements only: passes every reduction (reshape, transpose, slice)
};

// ---- localize ---------------------------------------------------------------------------------------------------------

struct LocalizeContext;  // tessera/ir/localize_context.h

// ---- cost -------------------------------------------------------------------------------------------------------------

/// Of one execution on the types in the view: floating-point operations.
using FlopsFunction = double (*)(const OpView&);

/// How generic code that follows data flow must treat the op. kPlain for nearly all.
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
  kShardingMark,  // custom-call Sharding and its kin, decided by target
  kCollective,
  kPartitionId,
};

// ---- facts that the scheduler, the passes and the runtime ask for -----------------------------------------------------

/// Which exchange between devices an op is. What it sends and receives follows from OpDef::bytes_received.
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

/// How an op that only moves elements maps its first operand to its result. All but kReshape are the operand read with other strides.
enum class Movement : std::uint8_t {
  kNone,
  kReshape,    // the same elements in row-major order, other dims
  kBroadcast,  // DimensionsAttributes: operand dim i is result dim dimensions[i], the others repeat
  kTranspose,  // DimensionsAttributes: the permutation
  kSlice,      // SliceAttributes
  kReverse,    // DimensionsAttributes: the reversed dims
};

/// The reduction whose combiner an op is: add sums numbers and is `or` on pred.
struct CombinedReduction {
  Reduction of_numbers;
  Reduction of_pred;
};

/// Of the bytes of operands and results, and of the number of devices of a group (above 1): the bytes that a device receives.
using BytesReceived = std::int64_t (*)(std::int64_t operand, std::int64_t result, std::int64_t group);

/// What stands between the parentheses in a text: operands, or a number (parameter), a literal (constant).
enum class Payload : std::uint8_t { kOperands, kNumber, kLiteral };

struct OpDef {
  std::string_view name;
  int min_operands = 0;
  int max_operands = 0;  // -1: any number
  Payload payload = Payload::kOperands;
  Role role = Role::kPlain;
  bool (*side_effect)(const Attributes&) = nullptr;  // null: no instruction of the op has one
  bool commutative = false;
  /// Any part of the result follows from scalar operands alone: a device that needs such a value computes it, it is never moved.
  /// Holds for an instruction whose operands are all scalars.
  bool rematerializable = false;
  /// Of a collective: so many operands are values that move; the others say what moves where. -1: all.
  int data_operands = -1;
  bool elementwise = false;  // result and operands have the same dims (scalars of select and clamp aside)
  /// An elementwise op that takes an instruction or two per element; the others take several times as long.
  bool inexpensive = false;
  std::optional<CombinedReduction> combines{};  // of elementwise ops of two operands
  Movement movement = Movement::kNone;
  /// A loop over parts of a dim can compute the result part by part, where `factors` lets the dim through. Elementwise ops can, too.
  bool chunkable = false;
  /// Copies a part of its first operand; the other operands are places.
  bool takes_a_part = false;
  /// The result is much larger than the operands: worth running late.
  bool materializes = false;
  /// May write result leaf k into the memory of leaf k of its first operand.
  bool updates_operand_in_place = false;
  /// The kernel reads its operands through strides (none of them 0), and writes its result through strides.
  bool reads_strides = false;
  bool writes_strides = false;
  /// The kernel reads its operands from their first byte on and ignores what follows them in memory.
  bool reads_from_start = false;
  CollectiveKind collective = CollectiveKind::kNone;
  BytesReceived bytes_received = nullptr;  // of collectives
  /// Of collectives: every operand is exchanged by itself and gives the result leaf of its number, so that several can travel in
  /// one message.
  bool exchanges_each_operand = false;
  /// The names of the attributes that name computations, in the order of Instruction::called: {"condition", "body"}. An
  /// entry "branch_computations" or "called_computations" stands for a list `{a, b}`.
  std::vector<std::string_view> called{};

  /// Reads the typed attributes; null when the op has none.
  Attributes (*parse)(AttributeReader&) = nullptr;
  /// The result type from operand types, attributes and called computations; view.result holds the declared type if one was
  /// given (ops such as parameter and custom-call return it). Throws Error with the reason only; emit adds the context.
  Type (*infer)(const OpView&) = nullptr;
  /// True when a text may leave the result type out.
  bool type_inferable = true;
  /// Null for collectives (below) and for what the evaluator runs itself: parameters, call, while, conditional.
  Literal (*evaluate)(const EvalContext&) = nullptr;
  std::vector<Literal> (*evaluate_collective)(const CollectiveContext&) = nullptr;

  GradientKind gradient_kind = GradientKind::kNone;
  /// d_operands from d_result; see gradient_context.h.
  std::vector<Value> (*gradient)(GradientContext&) = nullptr;

  FactorMap (*factors)(const OpView&) = nullptr;  // null: every dim of every operand and result needs replication
  Linearity (*linearity)(const OpView&, int operand) = nullptr;  // null: kNone for every operand
  /// Emits the per-device form where a value depends on position or attributes hold sizes; null: the generic form
  /// (same op and attributes on local types).
  Value (*localize)(LocalizeContext&) = nullptr;
  /// The scalar that windows read beyond an operand's ends; null: what they read there does not count. Asked once per operand,
  /// before anything is exchanged: may replace the operand by one that never equals it.
  Value (*outside)(LocalizeContext&, int operand) = nullptr;
  /// The same value of smaller ops, within rounding, for an op that needs a dim whole only because it sums along it and uses the sum:
  /// spelled out, batch-norm-training over a batch on several devices is two small all-reduces. Null: there is no such form.
  Value (*expand)(const OpView&, const std::vector<Value>& operands) = nullptr;
  /// True when `localize` itself keeps padding out of kReduce factors; else the partitioner fills the padding of such operand
  /// dims with the reduction's identity before.
  bool masks_padding = false;
  FlopsFunction flops = nullptr;  // null: one per element of a floating-point result for elementwise ops, else 0
};

/// Floating-point operations of one execution, by the row's function or the rule beside OpDef::flops: what `stats` predicts and what
/// a run counts.
double flops_of(const OpView& view);

/// Whether running the instruction is felt elsewhere, so that it must stay, once, in its place among others of the kind.
bool has_side_effect(const Instruction& instruction);
/// Whether something in the computation, or in what it calls, has one: by computation.
std::vector<bool> computations_with_effects(const Program& program);
/// The instruction itself, or what it calls.
bool has_side_effect(const Instruction& instruction, const std::vector<bool>& with_effects);

/// The table: rows in a fixed order, found by HLO name. Filled in src/ops/op_table.cpp.
class OpTable {
 public:
  /// `missing`: ops that HLO has and the table lacks, with blanks between; they deserve another error than a name nobody knows.
  explicit OpTable(std::vector<const OpDef*> rows, std::string_view missing = {});
  /// Null when no row has this name.
  [[nodiscard]] const OpDef* find(std::string_view name) const;
  /// Error when no row has this name: with the nearest known one, or that it is HLO's but missing here.
  [[nodiscard]] const OpDef& get(std::string_view name) const;
  [[nodiscard]] const std::vector<const OpDef*>& rows() const { return rows_; }

 private:
  std::vector<const OpDef*> rows_;
  std::vector<std::pair<std::string_view, const OpDef*>> by_name_;  // sorted
  std::string_view missing_;
};

}  // namespace tessera
