// SPDX-License-Identifier: Apache-2.0
// Sharding propagation: Program -> Program in which every value has a sharding.
//
//   %x {data,-}  %w {-,model}   %h = dot(%x, %w)          %h: {data,model}, why "from %x, %w through dot"
//
// Propagation works on factors, in rounds. All proposals of a round are based on the previous round, and conflicts are
// resolved by content, so the order and the names of instructions do not influence the outcome. Dims that a user closed
// never change; derived shardings stay open.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "propagation/propagation_graph.h"
#include "reshard_insertion/insert_reshards.h"
#include "tessera/ir/program.h"
#include "tessera/sharding/machine.h"

namespace tessera {

/// Frontend attribute that names the source of a derived sharding.
inline constexpr std::string_view kWhyAttribute = "tessera.why";
/// The reason given for the sharding of an entry parameter without annotation.
inline constexpr std::string_view kNotAnnotated = "not annotated, so fully replicated";

/// The rule that determines which tensors have priority if the tensors of an op suggest different axes.
enum class PropagationOrder : std::uint8_t {
  kGivenFirst,     // indices, then annotated tensors, then larger ones
  kLargestFirst,   // larger tensors, then annotated ones
  kForwardFirst,   // indices, then larger tensors, after one sweep from operands to results: shardings of inputs
                   // propagate forward through the model first
  kBackwardFirst,  // the same after one sweep from results to operands: consumers influence a value before its
                   // producers
  kNearestFirst    // as kGivenFirst; of the ops that do not keep all factors, those nearest to the inputs come first
};

/// Propagates shardings in one order. Returns the program in which every value has a sharding.
Program propagate(const Program& program, PropagationOrder order = PropagationOrder::kGivenFirst);

/// Initial axes for a slot without annotation. The slot keeps them, and no axes are added to its unsharded dims.
struct PropagationHint {
  int slot = 0;
  Sharding sharding;
};
/// The same for the slots of a graph, which may begin with hints.
std::vector<PropagationSlot> propagated(const PropagationGraph& graph, PropagationOrder order,
                                        const std::vector<PropagationHint>& hints = {});

/// The estimate, before localization, of the bytes that one device receives and of its work.
struct EstimatedProgram {
  Program resharded;
  double bytes = 0;
  double work = 0;  // operations
};

/// Estimates of other annotations: the chosen outcome again, with the sharding of one value changed.
class Alternatives {
 public:
  virtual ~Alternatives() = default;
  /// The outcome that was chosen.
  [[nodiscard]] virtual EstimatedProgram chosen() = 0;
  /// The outcome if the program annotated a value with this sharding. Runs the chosen order of propagation, without the
  /// search for changes. nullopt if no array has the name (annotatable_name()) and the dims of the sharding.
  virtual std::optional<EstimatedProgram> with(const std::string& name, const Sharding& sharding) = 0;
};

/// The outcome of propagate_at_least_cost().
struct Propagated {
  Program program;
  OpChoices choices;  // insert_reshards() with these choices gives `resharded`
  Program resharded;  // the result of insert_reshards() for `program`
  /// Valid as long as the machine model. Null with `memory_share`.
  std::shared_ptr<Alternatives> alternatives = nullptr;
};
/// insert_reshards() with the choices that were found. For the program in `found`, returns the stored result.
Program insert_chosen_reshards(const Program& program, const MachineModel& machine, const Propagated& found);
/// The same, with explanations that name the second best strategy of an op.
Program insert_explained_reshards(const Program& program, const MachineModel& machine, const Propagated& found);
/// Runs propagation in every order and keeps the outcome of least cost on the machine, the first among equals: on equal
/// links bytes received + operations + peak bytes, else the weight of seconds and peak memory (MachineModel::weight).
/// It then tries changes at the most expensive reshards (trials.h). With `memory_share`
/// (auto_sharding/choose_shardings.h), shardings are chosen automatically: the outcomes of auto_sharding/ are compared
/// by time. With `compares` false, keeps the outcome of the first order.
Propagated propagate_at_least_cost(const Program& program, const MachineModel& machine,
                                   std::optional<double> memory_share = {}, bool compares = true);

/// The computations that are partitioned: the entry and those reached through call, while and conditional. Others work
/// on scalars and stay unchanged.
std::vector<bool> partitioned_computations(const Program& program);

/// The same computation if its callees keep their numbers, so that equal ops of several programs have equal callees.
ComputationRef with_new_callees(const ComputationRef& computation, const std::vector<ComputationId>& new_ids);

/// Replaces each partitioned computation that contains an instruction for which `concerns` is true by `made(c)`.
Program with_rewritten(const Program& program,
                       const std::function<bool(const Computation&, const Instruction&)>& concerns,
                       const std::function<Computation(ComputationId)>& made);

}  // namespace tessera
