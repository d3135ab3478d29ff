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
  // For unknown targets. Texts carry both in frontend_attributes.
  std::string sharding_rule{};  // Shardy's
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

/// Frontend attributes of marks that stop propagation: FSDP's unshard of a parameter (whatever the value of the
/// attribute), and a gradient with its storage sharding (`ops::sharding_barrier`).
inline constexpr std::string_view kUnshardAttribute = "tessera.recompute";
/// Frontend attribute of an unshard whose gradient is not reduced: the gradient keeps the partial values of the devices.
inline constexpr std::string_view kPartialGradientAttribute = "tessera.partial_gradient";
inline constexpr std::string_view kBarrierAttribute = "tessera.barrier";

/// custom-calls Sharding and xla.sdy.FuncResultSharding: the identity, with a sharding that is a constraint.
bool is_sharding_mark(const Instruction& instruction);
/// custom-calls ShardBarrierFrom, ShardBarrierTo and xla.sdy.PropagationBarrier: identities that stop propagation.
bool is_sharding_barrier(const Instruction& instruction);
/// The borders of a manual region: custom-calls SPMDFullToShardShape and xla.sdy.GlobalToLocalShape enter one,
/// SPMDShardToFullShape and xla.sdy.LocalToGlobalShape leave it.
enum class ManualBorder : std::uint8_t { kNone, kEnter, kLeave };
ManualBorder manual_border(const Instruction& instruction);
/// Frontend attribute of a border: the sharding of the global array over the manual axes of the region.
inline constexpr std::string_view kBorderPlacementAttribute = "tessera.border";
std::optional<Sharding> border_placement(const Program& program, const Instruction& border);
/// Frontend attribute of an outfeed: the HLO sharding that its text gave, of the data and perhaps of a token after
/// it. Its own result is a token.
inline constexpr std::string_view kOutfeedShardingAttribute = "tessera.outfeed_sharding";
/// A custom-call that returns its operand: Sharding, and the borders of manual regions that change no shape.
bool is_identity_call(const OpView& view);

/// The trip count of a while. It is known if the counter starts at a constant, advances by a constant and is compared
/// with a constant.
std::optional<std::int64_t> known_trip_count(const Program& program, const Computation& caller,
                                             const Instruction& loop);

namespace ops {
Value call(Builder& builder, const std::vector<Value>& operands, ComputationId computation);
Value while_loop(Value init, ComputationId condition, ComputationId body);
Value conditional(Value index, const std::vector<Value>& operands, const std::vector<ComputationId>& branches);
/// Applies a scalar computation to every element.
Value map(const std::vector<Value>& operands, ComputationId function);
Value custom_call(Builder& builder, std::string target, const std::vector<Value>& operands, Type type);
/// custom-call Sharding: the identity, with a sharding that is a constraint.
Value sharding_mark(Value x, Sharding sharding);
/// The same after a barrier: the sharding of the result does not propagate to `x`.
Value sharding_barrier(Value x, Sharding sharding);
}  // namespace ops
}  // namespace tessera
