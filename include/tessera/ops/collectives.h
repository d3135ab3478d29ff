// SPDX-License-Identifier: Apache-2.0
// Collectives as instructions of a per-device program. Only the reshard planner's emitter makes them, and texts bring
// them.
#pragma once

#include "tessera/ir/builder.h"

namespace tessera {

/// `{{0,1},{2,3}}`; `{}` = one group of all; iota form `[2,2]<=[4]` or `[2,2]<=[2,2]T(1,0)`. Printed in the iota form
/// where
/// there is one (canonical), else as lists.
struct ReplicaGroups {
  std::vector<std::vector<std::int64_t>> groups;
  friend bool operator==(const ReplicaGroups&, const ReplicaGroups&) = default;
};
std::string field_text(const ReplicaGroups& value);
void parse_field(std::string_view text, ReplicaGroups& value);
struct SourceTargetPairs {
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
  friend bool operator==(const SourceTargetPairs&, const SourceTargetPairs&) = default;
};
std::string field_text(const SourceTargetPairs& value);
void parse_field(std::string_view text, SourceTargetPairs& value);

/// Of all-gather, reduce-scatter, all-reduce, all-to-all, collective-broadcast.
struct CollectiveAttributes {
  std::int64_t channel_id = 0;
  ReplicaGroups replica_groups;
  bool use_global_device_ids = false;
  Dims dimensions;  // empty for all-reduce and the tuple form of all-to-all
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("channel_id", self.channel_id, Presence::kIfNotDefault);
    visit("replica_groups", self.replica_groups, Presence::kAlways);
    visit("use_global_device_ids", self.use_global_device_ids, Presence::kIfNotDefault);
    visit("dimensions", self.dimensions, Presence::kIfNotDefault);
  }
  friend bool operator==(const CollectiveAttributes&, const CollectiveAttributes&) = default;
};
struct PermuteAttributes {
  std::int64_t channel_id = 0;
  SourceTargetPairs source_target_pairs;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("channel_id", self.channel_id, Presence::kIfNotDefault);
    visit("source_target_pairs", self.source_target_pairs, Presence::kRequired);
  }
  friend bool operator==(const PermuteAttributes&, const PermuteAttributes&) = default;
};

/// The same in another channel, if in one.
Attributes with_channel(const Attributes& attributes, std::int64_t channel_id);

namespace ops {
/// Groups are ordered: member k of a group gives or takes part k. channel_id is chosen fresh by the caller (0 = none).
Value all_gather(Value x, int dim, ReplicaGroups groups, std::int64_t channel_id);
Value reduce_scatter(Value x, int dim, Reduction reduction, ReplicaGroups groups, std::int64_t channel_id);
Value all_reduce(Value x, Reduction reduction, ReplicaGroups groups, std::int64_t channel_id);
/// Splits `split_dim` into group-size parts, part k to member k; the parts received are joined along the same dim
/// (HLO's array
/// form).
Value all_to_all(Value x, int split_dim, ReplicaGroups groups, std::int64_t channel_id);
/// Devices no pair targets get zeros.
Value collective_permute(Value x, SourceTargetPairs pairs, std::int64_t channel_id);
}  // namespace ops
}  // namespace tessera
