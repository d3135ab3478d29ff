// SPDX-License-Identifier: Apache-2.0
// Inserts reshards into a computation under construction: copies with another sharding, without duplicates, each with
// its reason.
#pragma once

#include <functional>
#include <map>

#include "propagation/op_signatures.h"
#include "reshard_insertion/rematerialize.h"
#include "reshard_insertion/reshard_notes.h"
#include "strategy/op_decisions.h"
#include "tessera/ir/builder.h"
#include "tessera/sharding/machine.h"

namespace tessera {

/// Describes the consumer in words. Called only if a reshard is needed.
using Who = std::function<std::string()>;

inline const Sharding& sharding_of(Value leaf) { return leaf.instruction().sharding->front(); }
/// Whether the results of an op differ from the shardings that propagation found or the user gave.
bool has_other_shardings(const Shardings& results, const Instruction& instruction);

/// The shardings in which copies of values exist, by leaf; may be empty if there are no copies.
using Copies = std::vector<std::vector<ShardingRef>>;
/// Those of all values of the old computation.
using CopiesOfValues = std::vector<Copies>;
Copies copies_of_operands(const CopiesOfValues& all, const Instruction& instruction);
/// Adds copies of the operands to the request, except those that it has. Returns whether there are any.
bool add_copies(OpRequest& request, const Copies& copies);

class Resharder {
 public:
  /// `old`: the original of the computation in `builder`; the `mark` of to() is one of its values.
  Resharder(Builder& builder, const ValueOrigins& origins, const Computation& old, SharedShardings& shardings,
            const MachineModel& machine)
      : builder_(builder),
        origins_(origins),
        old_(old),
        shardings_(shardings),
        links_(machine.links()),
        rematerializer_(builder, shardings, machine) {}

  /// Begins another instruction, in a region with these manual axes.
  void set_region(std::optional<std::string> axes) {
    region_ = std::move(axes);
    next_ = nullptr;
  }
  /// Sets the function that describes the second best strategy of the current op. It is called only if a reshard is
  /// needed.
  void set_next(std::function<std::string()> next) { next_ = std::move(next); }

  /// `leaf` with the sharding `target`: itself if it has that sharding, rematerialized if every device can compute it
  /// without communication (Rematerializer), else a copy.
  Value to(Value leaf, const Sharding& target, const Who& by, ReshardCause cause = ReshardCause::kUse, Id mark = -1);
  /// Sums partial values at the least cost: directly to the sharding that propagation found, or in place.
  Value reduced(Value leaf, const Sharding& required, const Who& by);
  /// The leaf, summed if it is partial. Its dims stay sharded as they are.
  Value without_partial(Value leaf, const Who& by);
  /// Whether each device can compute any part of the leaf without communication.
  [[nodiscard]] bool is_made_here(Value leaf) const;
  /// Marks a reshard as one that an annotation requests.
  void asked(const Value& before, const Value& after);

  /// The shardings in which copies of the operands exist, by operand; empty if there are no copies.
  [[nodiscard]] Copies copies_of(const std::vector<Value>& operands) const;

 private:
  Instruction copied(Value leaf, const Sharding& target);

  Builder& builder_;
  const ValueOrigins& origins_;
  const Computation& old_;
  SharedShardings& shardings_;
  const Topology& links_;
  Rematerializer rematerializer_;
  std::map<Id, std::vector<std::pair<Sharding, Value>>> copies_;
  std::optional<std::string> region_;
  std::function<std::string()> next_;
};

}  // namespace tessera
