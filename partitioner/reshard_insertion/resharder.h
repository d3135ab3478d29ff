// SPDX-License-Identifier: Apache-2.0
// Puts reshards into a computation under construction: copies with another sharding, each once, each with its reason.
#pragma once

#include <functional>
#include <map>

#include "propagation/op_signatures.h"
#include "reshard_insertion/rematerialize.h"
#include "reshard_insertion/reshard_notes.h"
#include "tessera/ir/builder.h"
#include "tessera/sharding/topology.h"

namespace tessera {

/// In words, who needs a value otherwise: asked for only where it does not lie so already.
using Who = std::function<std::string()>;

inline const Sharding& sharding_of(Value leaf) { return leaf.instruction().sharding->front(); }

class Resharder {
 public:
  /// `old`: the computation that `builder`'s is made of; its values are the `mark`s of to().
  Resharder(Builder& builder, const ValueOrigins& origins, const Computation& old, SharedShardings& shardings,
            const Topology& topology)
      : builder_(builder),
        origins_(origins),
        old_(old),
        shardings_(shardings),
        topology_(topology),
        rematerializer_(builder, shardings, topology) {}

  /// The manual axes around what is rewritten now.
  void set_region(std::optional<std::string> axes) { region_ = std::move(axes); }

  /// `leaf` with the sharding `target`: itself if it has that sharding, computed again if every device can do so without communication
  /// (Rematerializer), else a copy.
  Value to(Value leaf, const Sharding& target, const Who& by, ReshardCause cause = ReshardCause::kUse, Id mark = -1);
  /// Partial values summed at their cheapest: straight into the sharding that propagation wants, or in place.
  Value reduced(Value leaf, const Sharding& required, const Who& by);
  Value without_partial(Value leaf, const Who& by);
  /// Any part of it is made where it is needed.
  [[nodiscard]] bool is_made_here(Value leaf) const;
  /// Says of a reshard that an annotation is what it brings about.
  void asked(const Value& before, const Value& after);

  /// How there are copies of the operands, by operand; empty where there are none at all.
  [[nodiscard]] std::vector<std::vector<ShardingRef>> copies_of(const std::vector<Value>& operands) const;

 private:
  Instruction copied(Value leaf, const Sharding& target);

  Builder& builder_;
  const ValueOrigins& origins_;
  const Computation& old_;
  SharedShardings& shardings_;
  const Topology& topology_;
  Rematerializer rematerializer_;
  std::map<Id, std::vector<std::pair<Sharding, Value>>> copies_;
  std::optional<std::string> region_;
};

}  // namespace tessera
