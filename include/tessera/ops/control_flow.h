// SPDX-License-Identifier: Apache-2.0
// call, while, conditional, custom-call.
#pragma once

#include <optional>

#include "tessera/ir/builder.h"
#include "tessera/sharding/sharding.h"

namespace tessera {

struct CustomCallAttributes {
  std::string target;  // custom_call_target
  bool has_side_effect = false;
  // For targets that Tessera does not know. HLO texts have both fields in frontend_attributes.
  std::string sharding_rule{};  // in Shardy's form
  /// The number of leading batch dims of all operands and results (JAX's linalg).
  std::int64_t num_batch_dims = 0;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("custom_call_target", self.target, Presence::kRequired);
    visit("custom_call_has_side_effect", self.has_side_effect, Presence::kIfNotDefault);
    visit("xla.sdy.sharding_rule", self.sharding_rule, Presence::kIfNotDefault);
    visit("num_batch_dims", self.num_batch_dims, Presence::kIfNotDefault);
  }
  friend bool operator==(const CustomCallAttributes&, const CustomCallAttributes&) = default;
};

/// Frontend attribute of FSDP's unshard of a parameter. Propagation stops at the unshard for every value of the
/// attribute.
inline constexpr std::string_view kUnshardAttribute = "tessera.recompute";
/// Frontend attribute of an unshard whose gradient is not reduced: each device keeps its partial value of the gradient.
inline constexpr std::string_view kPartialGradientAttribute = "tessera.partial_gradient";
/// Frontend attribute of the result of ops::sharding_barrier(), at which propagation stops.
inline constexpr std::string_view kBarrierAttribute = "tessera.barrier";
/// Frontend attribute of an unshard or a stored gradient: the parts of FSDP that dummies replace, for debugging. The
/// value lists them, such as `gather,reduction`.
inline constexpr std::string_view kDummyAttribute = "tessera.dummy";
inline constexpr std::string_view kDummyGather = "gather";        // dummy_collectives() removes the gather
inline constexpr std::string_view kDummyReduction = "reduction";  // the same for the reduction of the gradient
inline constexpr std::string_view kDummyBarrier = "barrier";      // a repeated unshard does not wait for a gradient
/// True if a dummy replaces `part`.
bool has_dummy(const Instruction& instruction, std::string_view part);

/// True for the custom-calls Sharding and xla.sdy.FuncResultSharding: the identity, with a sharding that is a
/// constraint.
bool is_sharding_mark(const Instruction& instruction);
/// True for the custom-calls ShardBarrierFrom, ShardBarrierTo and xla.sdy.PropagationBarrier: identities that stop
/// propagation.
bool is_sharding_barrier(const Instruction& instruction);
/// The borders of a manual region: custom-calls SPMDFullToShardShape and xla.sdy.GlobalToLocalShape enter one,
/// SPMDShardToFullShape and xla.sdy.LocalToGlobalShape leave it.
enum class ManualBorder : std::uint8_t { kNone, kEnter, kLeave };
/// Returns the kind of border that the instruction is; kNone for other instructions.
ManualBorder manual_border(const Instruction& instruction);
/// Frontend attribute of a border: the sharding of the global array over the manual axes of the region.
inline constexpr std::string_view kBorderPlacementAttribute = "tessera.border";
/// Returns the sharding in this attribute, over a mesh of the program; nullopt if the border does not have the
/// attribute.
std::optional<Sharding> border_placement(const Program& program, const Instruction& border);
/// Frontend attribute of an outfeed: the HLO sharding in its text. This sharding has leaves for the data, and perhaps
/// one more for the token. Instruction::sharding cannot store it, because the result of an outfeed is only a token.
inline constexpr std::string_view kOutfeedShardingAttribute = "tessera.outfeed_sharding";
/// True for a custom-call that returns its operand: Sharding, or a border of a manual region that does not change the
/// shape.
bool is_identity_call(const OpView& view);

/// A loop whose text determines its trip count: `for (element = start; element < limit; element += step)`.
struct CountedLoop {
  std::int64_t element = 0;  // of the state
  std::int64_t start = 0;
  std::int64_t step = 1;  // positive
  std::int64_t trips = 0;
  Id limit = -1;  // the constant in the condition
};
/// Returns nullopt if the counter does not start at a constant, does not advance by a positive constant, or is not
/// compared with a constant.
std::optional<CountedLoop> counted_loop(const Program& program, const Computation& caller, const Instruction& loop);
/// Returns the trip count of a while: the one that XLA noted in its backend_config, or that of counted_loop(). nullopt
/// if it is not known.
std::optional<std::int64_t> known_trip_count(const Program& program, const Computation& caller,
                                             const Instruction& loop);

namespace ops {
/// Emits the HLO op of this name. Errors: types that do not match those of the computations.
Value call(Builder& builder, const std::vector<Value>& operands, ComputationId computation);
Value while_loop(Value init, ComputationId condition, ComputationId body);
Value conditional(Value index, const std::vector<Value>& operands, const std::vector<ComputationId>& branches);
/// Applies a scalar computation to every element.
Value map(const std::vector<Value>& operands, ComputationId function);
Value custom_call(Builder& builder, std::string target, const std::vector<Value>& operands, Type type);
/// Emits a custom-call Sharding: the identity, with a sharding that is a constraint.
Value sharding_mark(Value x, Sharding sharding);
/// The same, but the sharding of the result does not propagate to `x` (kBarrierAttribute).
Value sharding_barrier(Value x, Sharding sharding);
}  // namespace ops
}  // namespace tessera
