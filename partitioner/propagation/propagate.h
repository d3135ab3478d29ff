// SPDX-License-Identifier: Apache-2.0
// Sharding propagation: Program -> Program in which every value has a sharding.
//
//   %x {data,-}  %w {-,model}   %h = dot(%x, %w)          %h: {data,model}, why "from %x, %w through dot"
//
// By factors, in frontier rounds: all proposals of a round read the previous round, and a merge ordered by content decides, so
// shuffling or renaming instructions changes nothing. Dims that a user closed never change; derived shardings stay open.
#pragma once

#include <functional>

#include "propagation/propagation_graph.h"
#include "reshard_insertion/insert_reshards.h"
#include "tessera/ir/program.h"
#include "tessera/sharding/topology.h"

namespace tessera {

/// Frontend attribute that says who chose a derived sharding.
inline constexpr std::string_view kWhyAttribute = "tessera.why";
/// Why an entry parameter lies as it does that nobody annotated.
inline constexpr std::string_view kWholeParameter = "not annotated, so fully replicated";

/// Who is heard first where the tensors of an op disagree.
enum class PropagationOrder : std::uint8_t {
  kGivenFirst,    // indices, then annotated tensors, then larger ones
  kLargestFirst,  // larger tensors, then annotated ones
  kForwardFirst,  // indices, then larger tensors, behind one sweep from operands to results: inputs meet the weights on their
                  // way through the model
  kBackwardFirst,  // the same behind one sweep from results to operands: what a value is used for, before what it is made of
  kNearestFirst  // as kGivenFirst; of ops that do not only keep factors those nearest to the inputs speak first
};

Program propagate(const Program& program, PropagationOrder order = PropagationOrder::kGivenFirst);

/// Axes that a slot which nobody annotated begins with, and keeps to: none is added to a dim that it wants whole.
struct PropagationHint {
  int slot = 0;
  Sharding sharding;
};
std::vector<PropagationSlot> propagated(const PropagationGraph& graph, PropagationOrder order,
                                        const std::vector<PropagationHint>& hints = {});

/// What a program costs as insert_reshards made it, and how much of that is bytes received and operations.
struct Weight {
  double all = 0;
  double moved = 0;
  double work = 0;
};
using ProgramWeight = std::function<Weight(const Program& resharded)>;

/// Propagation in every order; the outcome that weighs least, of equal ones the first. Without a weight: whose reshards and work cost
/// least time by the model. Then, in programs that are not large, `trials` values that are moved most are tried where they go, and what reads them where they
/// come from (choose_propagation.cpp).
struct Propagated {
  Program program;
  OpChoices choices;  // with which insert_reshards() weighs as said
  Program resharded;  // what it made of `program`
};
/// insert_reshards() with the choices that were found: of the program that was found the outcome known already.
Program insert_chosen_reshards(const Program& program, const Topology& topology, const Propagated& found);
Propagated propagate_at_least_cost(const Program& program, const Topology& topology, const ProgramWeight& weight = {},
                                   int trials = 0);

/// Computations that are partitioned: the entry and what call, while and conditional reach. Others run on scalars as they are.
std::vector<bool> partitioned_computations(const Program& program);

/// `program` with `made(c)` in place of each of those computations that holds an instruction that `concerns`.
Program with_rewritten(const Program& program,
                       const std::function<bool(const Computation&, const Instruction&)>& concerns,
                       const std::function<Computation(ComputationId)>& made);

}  // namespace tessera
